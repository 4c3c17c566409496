package account

import (
	"context"
)

// ImportedCode is the reset code of a user who was imported without a password.
type ImportedCode struct {
	Sub, Handle string
	ResetCode
}

// Bulk is the argument of BulkStore.AddUsers.
type Bulk struct {
	Users    []User
	Codes    []ImportedCode
	MaxUsers int // 0 means no limit
	// DefaultFlags are those that the audit rows do not name.
	DefaultFlags []string
}

// BulkStore does much at once.
type BulkStore interface {
	// AllOrNone calls do with a Store whose operations are one transaction: an error of do undoes all of them. do may
	// run more than once.
	AllOrNone(ctx context.Context, doing string, do func(Store) error) error
	// AddUsers adds everything or nothing, with an audit row for each user besides a.
	// ErrHandleTaken if a handle or a sub is taken, ErrEmailTaken if two accounts would have the
	// same verified address, ErrRegistrationFull if there would be more than MaxUsers.
	AddUsers(ctx context.Context, b Bulk, a Audit) error
	// TakenUsers returns what is taken: the handles with the same HandleKey and the subs, also of
	// deleted users, and addresses (in lower case) that another account has verified.
	TakenUsers(ctx context.Context, handles, subs, emails []string) (taken []string, err error)
}

// Store is the database of this package. Every method does everything or nothing. Times are UTC in
// whole seconds. Errors are the sentinels named at each method. Any other error wraps
// ErrUnavailable, or context.Canceled if the caller gave up, and must never be read as "not found".
// Lookups with an empty key return the not-found sentinel. Deleted users are never returned.
//
// What may happen only once (an invite, a reset code, the last administrator, a handle, the invite
// limit) is guaranteed under any concurrency, also by several processes that share the database.
type Store interface {
	UserStore
	BulkStore
	SessionStore
	InviteStore
	JoinStore
	ResetStore
	EmailStore
	SettingsStore
	AppStore
	PasskeyStore
	MailStore
	FactorStore
	AuditStore
}
