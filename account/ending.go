package account

// Ending is what an act ends, in its transaction. The zero Ending ends nothing.
type Ending struct {
	Sessions EndedSessions
	Grants   EndedGrants
	// Codes voids the password reset codes that are not used yet.
	Codes bool
	// Marks voids the marks of known devices.
	Marks bool
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

// EndedGrants selects grants of a user.
type EndedGrants int

// The selections of grants.
const (
	NoGrants EndedGrants = iota
	// OnlineGrants are those of the ended sessions without offline_access, which outlives the session
	// (OpenID Connect Core section 11), and codes that no client has spent yet.
	OnlineGrants
	// SessionGrants are all that the ended sessions made.
	SessionGrants
	// GroupGrants are OnlineGrants and those whose access tokens contain the flags of the user as
	// groups.
	GroupGrants
	AllGrants
)

// Endings that several acts have.
var (
	endsOne    = Ending{Sessions: OneSession, Grants: OnlineGrants}
	endsOthers = Ending{Sessions: OtherSessions, Grants: OnlineGrants}
	endsAccess = Ending{Sessions: AllSessions, Grants: AllGrants, Codes: true}
)
