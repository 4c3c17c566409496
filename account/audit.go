package account

import (
	"context"
	"regexp"
	"time"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/templates"
)

// MailStore is the outbox of mails, which Audit.Mails fill. Several instances may share it.
type MailStore interface {
	// MailsAdded receives a value when this process adds mails.
	MailsAdded() <-chan struct{}
	// DueMails returns at most limit due mails and leases them: no other process gets them before
	// now+lease. A mail is not due while there is an earlier one to its address that was not tried.
	DueMails(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]QueuedMail, error)
	// MailDone removes a mail that was sent, or given up with an audit row. If it is already gone,
	// there is no error and no row.
	MailDone(ctx context.Context, id int64, a *Audit) error
	// MailFailed counts a failure and sets the time of the next attempt.
	MailFailed(ctx context.Context, id int64, failure string, next time.Time) error
	// MailState returns the state of the outbox.
	MailState(ctx context.Context) (MailState, error)
}

// QueuedMail is a mail in the outbox.
type QueuedMail struct {
	Mail
	CreatedAt time.Time
	Attempts  int // failed ones
}

// MailState is the state of the outbox.
type MailState struct {
	Waiting int
	Failing int       // of these, those that failed and will be retried
	Oldest  time.Time // zero: none waits
	Failure string    // reason of the last failure, without an address
}

// AuditStore reads and adds to the audit log. Most rows are written by the methods that they
// report.
type AuditStore interface {
	// AuditLog returns audit rows, newest first.
	AuditLog(ctx context.Context, q AuditQuery) ([]Audit, error)
	// RecordAll adds rows of one time, all or none.
	RecordAll(ctx context.Context, all []Audit) error
	// Record adds a row. With once it adds none if there is one of the same action and target that
	// is younger.
	Record(ctx context.Context, a Audit, once time.Duration) error
	// SignIns counts the sign-ins of each of the given number of days (UTC), beginning with that of
	// from.
	SignIns(ctx context.Context, from time.Time, days int) ([]int, error)
}

// AuditQuery selects audit rows. Zero fields select all.
type AuditQuery struct {
	Person   string    // handle of the actor or the target
	Kind     string    // an action, or its beginning: "user" or "user." for all user.*
	From, To time.Time // To is exclusive
	Before   int64     // id: older rows only
	Limit    int
}

// Audit is a row of the audit log, about an act that matters for an account.
type Audit struct {
	ID        int64
	At        time.Time
	Actor     string // handle, or "operator" for the command line; empty: somebody unknown
	Action    string // user.suspend, user.flags, ...
	Target    string // handle or name of what was changed
	Detail    string // never a secret or a code
	Former    string // what was replaced: settings as a JSON object, FlagWords of a user, or an end that had passed
	Address   string
	RequestID string
	// Mails are stored with the row, in the same transaction.
	Mails []Mail
	// KeepEmail is set for a change of address that can be undone: the id of the previous verified
	// address. If it is empty, neither this change nor earlier ones can be undone.
	KeepEmail string
	// Ends is what the act ends. Since is the time that an Ending refers to. KeepApps are the client
	// ids of applications that keep their access. Void are names of what the user gave others and is void too,
	// whichever session made it: see Given.
	Ends     Ending
	Since    time.Time
	KeepApps []string
	Void     []string
	// Remove are the ids of MadeFactors that NamedFactors selects. ErrFactorsNamed.
	Remove []string
	// Earlier are the ids of sessions that are disowned with the one which the act names, and Owners those of later
	// ones that are not: see DisownSession.
	Earlier, Owners []string
	// NoSecondStep switches User.SecondFactor off for a user without a password who gets one. ErrStepOfApp.
	NoSecondStep bool
	// Renew is the session of the request with new secrets, if a copy of its cookie ends with the others.
	Renew *Session
	// Session is that of the request, or empty. Proof is what the act requires of it, ConfirmedAt and AMR are
	// what it has proven, with what came in the same request: see Bound.
	Session     string
	Proof       Proof
	ConfirmedAt time.Time
	AMR         []string
}

// Bound reports whether the act needs the session in which it was begun. A body may come long after the
// head of its request, so every operation of the Store that is given the row of such an act begins with the
// same questions. ErrNotAuthenticated if the session has ended or its user is suspended
// by now; ErrAdminRequired if the act is an administrator's and the user is not one; ErrReauthenticationRequired
// if the proof is no longer enough.
//
// These need none: the operator's acts and what happens automatically, which have no session, what opens a
// session or proves itself by a code or link, and a sign-out.
func (a Audit) Bound() bool {
	return a.Session != "" && a.Proof != ProofSignIn && a.Proof != ProofCode && a.Action != SignOut.Action
}

// Row returns the row for pages, with ends as the last days in a time zone.
func (a Audit) Row(zone *time.Location) templates.AuditRow {
	row := templates.AuditRow{
		At: a.At, Actor: a.Actor, Action: a.Action, Target: a.Target, Detail: a.Detail, Address: a.Address,
		RequestID: a.RequestID,
	}
	switch a.Action {
	case SetEnd.Action, SetFlags.Action, CreateInvite.Action, CreateWideInvite.Action:
		row.Detail = endInDetail.ReplaceAllStringFunc(a.Detail, func(typed string) string {
			at, err := ParseEnd(typed, zone)
			day := LastDay(at, zone)
			if again, _ := ParseEnd(day, zone); err != nil || !again.Equal(at) {
				return typed
			}
			return day
		})
	}
	return row
}

// endInDetail matches an end in the detail of a row.
var endInDetail = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// Mail is a waiting message. Its text is composed when it is sent, from kind, data and language.
type Mail struct {
	ID       int64 // in the outbox
	Kind     string
	Sub      string // the user it is about, or empty
	Address  string
	Language string            // BCP 47; empty: that of the settings
	Data     map[string]string // never a secret or a code
	// Session is that of the administrator who gives the reader a way into an account, or empty: see EndedGiven.
	Session string
}

// With returns the row with more mails.
func (a Audit) With(mails ...Mail) Audit {
	a.Mails = append(a.Mails, mails...)
	return a
}

// Keeping returns the row of an act that leaves what the person chose to keep.
func (a Audit) Keeping(keep Keep) Audit {
	if keep.Sessions {
		a.Ends = Ending{Factors: a.Ends.Factors}
	}
	for _, id := range keep.Apps {
		if text.Cut(id, MaxClientID) == id { // only a possible id reaches the database
			a.KeepApps = append(a.KeepApps, id)
		}
	}
	a.Remove, a.NoSecondStep = keep.Remove, keep.NoSecondStep
	for _, name := range keep.Void {
		_, noHandle := CanonicalHandle(name)
		if _, noEmail := CheckEmail(name); noHandle == nil || noEmail == nil {
			a.Void = append(a.Void, name)
		}
	}
	return a
}
