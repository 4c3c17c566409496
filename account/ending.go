package account

import (
	"time"
)

// Ending is what an act ends, in its transaction. The zero Ending ends nothing. Whatever outlives a
// request stores the session that made it, so that what ends a session ends that too. A thing of an
// unknown maker counts as made by another session than the one that acts.
type Ending struct {
	Sessions  EndedSessions
	Grants    EndedGrants
	Invites   EndedInvites
	Addresses endedAddresses
	Pending   endedPending
	Factors   endedFactors
	// Consents ends the consents that were given since Audit.Since.
	Consents bool
	// Marks voids the marks of known browsers that were made before.
	Marks bool
	// Codes voids what was mailed or given and is not used yet: password reset codes, and the
	// verification of an address that does not wait.
	Codes bool
	Given endedGiven
	// Password disowns the password: it opens nothing until it is replaced.
	Password bool
	// Unverify makes an address unverified that the user changed since Audit.Since: the mailbox may
	// not be theirs.
	Unverify bool
}

// EndedSessions selects sessions of a user.
type EndedSessions int

// The selections of sessions.
const (
	NoSessions EndedSessions = iota
	// OneSession is the one that the act names.
	OneSession
	// OtherSessions are all but that of the request.
	OtherSessions
	AllSessions
)

// EndedGrants selects grants of a user, with the consents behind them.
type EndedGrants int

// The selections of grants.
const (
	NoGrants EndedGrants = iota
	// OnlineGrants are those of the ended sessions without offline_access, which outlives the session
	// (OpenID Connect Core section 11), and codes that no client has spent yet.
	OnlineGrants
	// SessionGrants are all that the ended sessions made, with their consents, except those of the
	// applications in Audit.KeepApps.
	SessionGrants
	// GroupGrants are OnlineGrants and those whose access tokens contain the flags of the user as
	// groups.
	GroupGrants
	// AllGrants are all of the user.
	AllGrants
)

// EndedInvites selects open invites of a user.
type EndedInvites int

// The selections of invites.
const (
	NoInvites EndedInvites = iota
	// StaleInvites are those that the ended sessions made without a fresh proof.
	StaleInvites
	// SessionInvites are all that the ended sessions made.
	SessionInvites
	// RecentInvites are those made since Audit.Since, and stale ones.
	RecentInvites
	AllInvites
)

// endedAddresses selects known addresses of a user: see SessionStore.KnownAddress.
type endedAddresses int

// The selections of addresses.
const (
	NoAddresses endedAddresses = iota
	// SessionAddresses are those of the ended sessions alone.
	SessionAddresses
	AllAddresses
)

// endedPending selects an address that waits: see PendingEmail.
type endedPending int

// The selections of an address that waits.
const (
	NoPending endedPending = iota
	// SessionPending is one that the ended sessions asked for.
	SessionPending
	AllPending
)

// endedGiven selects what an administrator gave others to get into an account and they have not used: codes for a
// new password, links to choose the first one, accepted requests to join.
type endedGiven int

// The selections of what was given.
const (
	NoGiven endedGiven = iota
	// RecentGiven was made since Audit.Since.
	RecentGiven
	AllGiven
)

// GivenNames returns the names of what was given.
func GivenNames(list []Given) (names []string) {
	for _, g := range list {
		names = append(names, g.Name)
	}
	return names
}

// endedFactors selects factors and recovery codes of a user that are at most FactorUndo old. What was made at
// joining is never among them.
type endedFactors int

// The selections of factors.
const (
	NoFactors endedFactors = iota
	// NamedFactors are those in Audit.Remove, if another session than that of the request made them.
	NamedFactors
	// DisownedFactors are those that the session which the act names, or a later one but Audit.Owners, made. Recovery
	// codes that were replaced by these live again, unless one was used since, and the choice of a second step is
	// undone.
	DisownedFactors
)

// FactorUndo is how long a link of a mail, which proves the mailbox alone, can remove a new factor. An intruder acts at
// once, and an owner reads mails within days; whoever has the mailbox removes nothing older.
const FactorUndo = 72 * time.Hour

// Keep is what a person chooses to keep of what an act ends with the other sessions, and what to void besides.
type Keep struct {
	Sessions bool     `json:"keep_other_sessions"` // with everything that they made
	Apps     []string `json:"keep_apps"`           // client ids of applications that keep their access
	Void     []string `json:"void_given"`          // see Audit.Void
	Remove   []string `json:"remove_factors"`      // see Audit.Remove
	// End ends the sessions also where the act alone does not.
	End bool `json:"-"`
	// NoSecondStep is Audit.NoSecondStep.
	NoSecondStep bool `json:"-"`
}

// disowning returns the ending that disowns the password too, and what was made with it.
func (e Ending) disowning() Ending {
	e.Password, e.Factors = true, DisownedFactors
	return e
}

// naming returns the ending that removes the factors in Audit.Remove too.
func (e Ending) naming() Ending {
	e.Factors = NamedFactors
	return e
}

// voiding returns the ending that voids what was given to others too.
func (e Ending) voiding(given endedGiven) Ending {
	e.Given = given
	return e
}

// unverifying returns the ending that makes a recently changed address unverified.
func (e Ending) unverifying() Ending {
	e.Unverify = true
	return e
}
