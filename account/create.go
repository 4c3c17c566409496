package account

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
)

// NewUser is the data of a new user, created by registration, the
// operator, init or the demo.
type NewUser struct {
	Handle        string
	DisplayName   string // empty: the handle
	Email         string // empty: none
	EmailVerified bool   // set only by the operator
	Password      string
	Flags         []string // nil: the default flags
	Language      string   // BCP 47, see User.Language
	App           string   // client id of the application to which the mailed link leads, or empty
	// AnyHandle lets the operator give a reserved handle, which a member cannot choose.
	AnyHandle bool
}

// Check returns the user that n describes, without password and times. The error is a *Problem that
// names every refused member.
func (n NewUser) Check(settings Settings) (User, error) {
	handle, refused := CanonicalHandle(n.Handle)
	if refused == nil && !n.AnyHandle && slices.Contains(ReservedHandles, HandleKey(handle)) {
		refused = ErrInvalidHandle
	}
	u := User{Sub: uuid.NewString(), Handle: handle, Flags: n.Flags, Language: n.Language}
	change := UserChange{"email": n.Email}
	if u.DisplayName = handle; n.DisplayName != "" {
		change["display_name"] = n.DisplayName
	}
	if n.EmailVerified {
		change["email_verified"] = "true"
	}
	if u.Flags == nil {
		u.Flags = slices.Clone(settings.DefaultFlags)
	}
	var unknown error
	for _, f := range u.Flags {
		if !slices.Contains(settings.Flags, f) {
			unknown = web.ForField(400, ErrUnknownFlag.Code, "/flags",
				"The permission {flag} does not exist. There are: {flags}. An administrator can add it in the "+
					"settings.",
				"flag", strconv.Quote(text.Cut(f, 32)), "flags", strings.Join(settings.Flags, ", "))
		}
	}
	err := web.AllFaults(refused, change.Apply(&u), unknown)
	return u, err
}

// CreateUser returns the user of n, not stored yet. All users are made here. Without a hasher the
// user has no password, which is an empty hash that nothing matches, and needs a reset code. The
// error is a *Problem that names every refused member.
func CreateUser(ctx context.Context, h *password.Hasher, settings Settings, n NewUser, now time.Time) (User, error) {
	u, err := n.Check(settings)
	if h != nil {
		err = web.AllFaults(err, password.Check(n.Password, u.Handle, settings.MinPassword))
	}
	if err != nil {
		return User{}, err
	}
	if h != nil {
		if u.PasswordHash, err = h.Hash(ctx, n.Password); err != nil {
			return User{}, err
		}
	}
	u.CreatedAt = now.UTC().Truncate(time.Second)
	u.UpdatedAt = u.CreatedAt
	return u, nil
}

// Unusual returns the flags of a new user that are not among the usual ones, for the end of an audit row's
// detail.
func Unusual(flags, usual []string) string {
	var words strings.Builder
	for _, f := range flags {
		if !slices.Contains(usual, f) {
			words.WriteString(" flag=" + f)
		}
	}
	return words.String()
}
