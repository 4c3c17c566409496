// Package entry has how what an account holds is shown to its owner, to administrators and to the operator: as members
// of JSON, and as rows of pages. What may be shown to whom, package account says.
package entry

import (
	"bytes"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// User is a user as the user sees it, in answers and in the export.
type User struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"` // empty: none
	EmailVerified bool            `json:"email_verified"`
	EmailPending  string          `json:"email_pending"` // empty: none waits
	Flags         map[string]bool `json:"flags"`
	CreatedAt     time.Time       `json:"created_at"`
	Ends
	shownProfile // the claims that are set
}

// UserOf returns the entry of a user; flags are all flags, set or not.
func UserOf(u account.User, flags map[string]bool) User {
	return User{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		EmailPending: u.Pending.Email, Flags: flags, CreatedAt: u.CreatedAt.UTC(), Ends: EndsOf(u),
		shownProfile: shown(u.Profile),
	}
}

// shownProfile is a Profile as its owner sees it. It shows false for a number that is not verified.
type shownProfile struct {
	account.Profile
	PhoneNumberVerified *bool `json:"phone_number_verified,omitempty"`
}

func shown(p account.Profile) shownProfile {
	out := shownProfile{Profile: p}
	if p.PhoneNumber != "" {
		out.PhoneNumberVerified = &p.PhoneNumberVerified
	}
	return out
}

// Ends is how JSON has the ends of a user.
type Ends struct {
	EndsAt   *time.Time           `json:"ends_at"`   // null: never
	FlagEnds map[string]time.Time `json:"flag_ends"` // of the flags that have an end
}

// EndsOf returns the ends of a user.
func EndsOf(u account.User) Ends {
	ends := map[string]time.Time{}
	for f, at := range u.FlagEnds {
		ends[f] = at.UTC()
	}
	return Ends{web.TimeOrNull(u.EndsAt), ends}
}

// Session is a session in lists for its user and for administrators.
type Session struct {
	ID         string    `json:"id"`
	Current    bool      `json:"current"` // that of the request
	Device     string    `json:"device"`  // a short name from the User-Agent, or empty
	UserAgent  string    `json:"user_agent"`
	Address    string    `json:"address"`
	CreatedAt  time.Time `json:"created_at"`
	AuthTime   time.Time `json:"auth_time"`
	LastSeenAt time.Time `json:"last_seen_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	// AMR and Passkey, a name, say how the person last signed in there (RFC 8176).
	AMR     []string `json:"amr"`
	Passkey *string  `json:"passkey"` // null: none, or it is removed
	Bound   bool     `json:"device_bound"`
}

// Sessions returns the entries of sessions; current is the id of the session of the request, and
// keys are the user's passkeys.
func Sessions(list []account.Session, current string, keys []account.Passkey) []Session {
	out := make([]Session, 0, len(list))
	for _, s := range list {
		out = append(out, Session{
			ID: s.ID, Current: s.ID == current, Device: web.Device(s.UserAgent), UserAgent: s.UserAgent,
			Address:   s.Address,
			CreatedAt: s.CreatedAt.UTC(), AuthTime: s.AuthTime.UTC(), LastSeenAt: s.LastSeenAt.UTC(),
			ExpiresAt: s.ExpiresAt.UTC(), AMR: account.ShownMethods(s.AMR),
			Passkey: web.TextOrNull(passkeyName(s, keys)),
			Bound:   s.Bound(),
		})
	}
	return out
}

// passkeyName returns the name of the passkey that the person last signed in with, or "".
func passkeyName(s account.Session, keys []account.Passkey) string {
	if i := slices.IndexFunc(keys, func(k account.Passkey) bool { return bytes.Equal(k.ID, s.Passkey) }); i >= 0 {
		return keys[i].Name
	}
	return ""
}

// SessionRows returns the rows of sessions for pages: see Sessions.
func SessionRows(list []account.Session, current string, keys []account.Passkey) []templates.SessionRow {
	out := make([]templates.SessionRow, 0, len(list))
	for _, s := range list {
		browser, system := web.BrowserAndSystem(s.UserAgent)
		out = append(out, templates.SessionRow{
			ID: s.ID, Current: s.ID == current, Browser: browser, System: system, Address: s.Address,
			CreatedAt: s.AuthTime, LastSeenAt: s.LastSeenAt, ExpiresAt: s.ExpiresAt, Methods: methodTexts(s.AMR),
			Passkey: passkeyName(s, keys), Bound: s.Bound(),
		})
	}
	return out
}

// methodTexts returns the methods of a sign-in in words.
func methodTexts(amr []string) (texts []templates.Text) {
	for _, m := range amr {
		switch m {
		case account.MethodPassword:
			texts = append(texts, "Password")
		case account.MethodOTP:
			texts = append(texts, "Code")
		case account.MethodHardwareKey, account.MethodSoftwareKey:
			texts = append(texts, "Passkey")
		}
	}
	return texts
}

// App is an application with access to a user's account, as lists have it.
type App struct {
	ClientID   string     `json:"client_id"`
	ClientName string     `json:"client_name"`
	Scopes     []string   `json:"scopes"`
	GrantedAt  time.Time  `json:"granted_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // null: never
}

// Apps returns the entries of applications.
func Apps(list []account.App) []App {
	out := make([]App, 0, len(list))
	for _, a := range list {
		scopes := a.Scopes
		if scopes == nil {
			scopes = []string{}
		}
		out = append(out,
			App{ClientID: a.ClientID, ClientName: a.ClientName, Scopes: scopes, GrantedAt: a.GrantedAt.UTC(),
				LastUsedAt: web.TimeOrNull(a.LastUsedAt)})
	}
	return out
}

// AppRows returns the rows of applications for pages.
func AppRows(list []account.App) []templates.AppRow {
	out := make([]templates.AppRow, 0, len(list))
	for _, a := range list {
		out = append(out,
			templates.AppRow{ClientID: a.ClientID, Name: a.ClientName, Scopes: a.Scopes, GrantedAt: a.GrantedAt,
				LastUsedAt: a.LastUsedAt, HomeURI: a.HomeURI, Logo: a.Logo})
	}
	return out
}

// WithHome returns the rows of the applications to which a link can lead.
func WithHome(apps []account.App) []templates.AppRow {
	return slices.DeleteFunc(AppRows(apps), func(app templates.AppRow) bool { return app.HomeURI == "" })
}

// Factors lists the second factors of a user for the user and for the export.
type Factors struct {
	TOTP          *authenticator `json:"totp"` // null: none
	Password      bool           `json:"password"`
	SecondStep    bool           `json:"second_step"` // account.User.SecondFactor
	Passkeys      int            `json:"passkeys"`
	RecoveryCodes int            `json:"recovery_codes"` // that are left
}

type authenticator struct {
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

// FactorsOf returns the entry of the factors of a user.
func FactorsOf(f account.Factors, u account.User) Factors {
	out := Factors{Password: !u.Passwordless(), SecondStep: u.SecondFactor, Passkeys: f.Passkeys,
		RecoveryCodes: f.RecoveryCodes}
	if f.TOTP != nil {
		out.TOTP = &authenticator{f.TOTP.CreatedAt.UTC(), web.TimeOrNull(f.TOTP.LastUsedAt)}
	}
	return out
}

// Passkey is a passkey as its owner sees it.
type Passkey struct {
	ID             string     `json:"id"`
	RPID           string     `json:"rp_id"`
	Name           string     `json:"name"`
	BackupEligible bool       `json:"backup_eligible"`
	BackupState    bool       `json:"backup_state"`
	CreatedAt      time.Time  `json:"created_at"`
	LastUsedAt     *time.Time `json:"last_used_at"` // null: never
}

// PasskeyOf returns the entry of a passkey.
func PasskeyOf(k account.Passkey) Passkey {
	return Passkey{ID: k.ShownID(), RPID: k.RPID, Name: k.Name, BackupEligible: k.BackupEligible,
		BackupState: k.BackupState, CreatedAt: k.CreatedAt.UTC(), LastUsedAt: web.TimeOrNull(k.LastUsedAt)}
}

// Passkeys returns the entries of passkeys.
func Passkeys(keys []account.Passkey) []Passkey {
	entries := make([]Passkey, 0, len(keys))
	for _, k := range keys {
		entries = append(entries, PasskeyOf(k))
	}
	return entries
}

// Invite is an invite in the list of its owner.
type Invite struct {
	Code      *string   `json:"code"` // in groups of four; null, as the URL: see account.Invite.For
	URL       *string   `json:"url"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	MailedTo  *string   `json:"mailed_to"`
	Uses      int       `json:"uses"`
	Joined    []string  `json:"joined"` // handles
	Flags     []string  `json:"flags"`
	Domain    *string   `json:"domain"`
	InviteEnds
	Used   bool       `json:"used"`
	UsedBy *string    `json:"used_by"` // handle
	UsedAt *time.Time `json:"used_at"`
}

// InviteEnds is how JSON has the ends of whoever joins with an invite.
type InviteEnds struct {
	AccountEndsAt *time.Time           `json:"account_ends_at"` // null: never
	FlagEnds      map[string]time.Time `json:"flag_ends"`       // of the flags that have an end
}

// InviteEndsOf returns the ends of whoever joins with the invite.
func InviteEndsOf(i account.Invite) InviteEnds {
	return InviteEnds{web.TimeOrNull(i.AccountEnds), EndsOf(account.User{FlagEnds: i.FlagEnds}).FlagEnds}
}

// InviteOf returns the entry of an invite. link makes the URL of one whose code is shown.
func InviteOf(i account.Invite, link func(account.Invite) string) Invite {
	url := ""
	if i.Code != "" {
		url = link(i)
	}
	return Invite{
		Code: web.TextOrNull(i.Shown()), URL: web.TextOrNull(url), CreatedAt: i.CreatedAt.UTC(),
		ExpiresAt: i.ExpiresAt.UTC(), MailedTo: web.TextOrNull(i.MailedTo), Uses: i.Uses,
		Joined: append([]string{}, i.Joined...), Flags: append([]string{}, i.Flags...),
		Domain: web.TextOrNull(i.Domain), InviteEnds: InviteEndsOf(i), Used: !i.UsedAt.IsZero(),
		UsedAt: web.TimeOrNull(i.UsedAt), UsedBy: web.TextOrNull(i.UsedBy),
	}
}
