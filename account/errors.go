package account

import "errors"

// What can go wrong, by meaning. Callers compare with errors.Is; the table in
// problem.go turns them into answers. None carries what the caller sent.
var (
	ErrNotAuthenticated   = errors.New("not signed in")
	ErrAdminRequired      = errors.New("administrator required")
	ErrInvalidCredentials = errors.New("handle or password wrong")
	ErrSuspended          = errors.New("account suspended")
	ErrRateLimited        = errors.New("too many attempts")
	ErrBusy               = errors.New("too busy")
	// ErrUnavailable is in the chain of every failure of the database that is
	// not one of the other sentinels: 503, never "not found" or "not signed in". What
	// its caller has canceled is no failure: context.Canceled alone.
	ErrUnavailable = errors.New("database unavailable")

	ErrUserNotFound       = errors.New("user not found")
	ErrSessionNotFound    = errors.New("session not found")
	ErrInviteNotFound     = errors.New("invite not found")
	ErrAppNotFound        = errors.New("application not found")
	ErrStatusListNotFound = errors.New("status list not found")
	ErrNotInitialized     = errors.New("installation not initialized")

	ErrInvalidHandle      = errors.New("invalid handle")
	ErrInvalidDisplayName = errors.New("invalid display name")
	ErrInvalidEmail       = errors.New("invalid email address")
	ErrInvalidText        = errors.New("invalid text")
	ErrWeakPassword       = errors.New("weak password")
	ErrInvalidInvite      = errors.New("invalid invite")
	ErrInvalidResetCode   = errors.New("invalid reset code")
	ErrInvalidPreference  = errors.New("invalid preference")
	ErrInvalidSettings    = errors.New("invalid settings")
	ErrInvalidCursor      = errors.New("invalid cursor")
	ErrUnknownFlag        = errors.New("unknown flag")

	ErrHandleTaken      = errors.New("handle taken")
	ErrRegistrationFull = errors.New("registration full")
	ErrInviteLimit      = errors.New("invite limit reached")
	ErrInviteUsed       = errors.New("invite used")
	ErrLastAdmin        = errors.New("last administrator")
	ErrOwnAccount       = errors.New("own account")
)
