package templates

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Member is what each page of a person's own account shows of them; the pages differ in the rest. Their forms:
//
//	POST {base}/account/profile              display_name, email and the other members of a profile, keep_other_sessions
//	POST {base}/account/password             current_password, new_password
//	POST {base}/account/sessions/end         id
//	POST {base}/account/sessions/end-others  -
//	POST {base}/account/invites              note
//	POST {base}/account/invites/delete       code
//	POST {base}/account/apps/remove          client_id
//	POST {base}/account/export               -
//	POST {base}/account/delete               password
//	POST {base}/logout/                      -
//
// Their sections can be linked by id: profile, password, passkeys, second-factor, recovery, sessions, apps, invites, data.
type Member struct {
	Handle, DisplayName string
	Admin               bool
	// Flags are the access flags that are on.
	Flags []string
	Answer
	// ErrorField is the field the error is about; "" lets ErrorCode say: weak_password is about new_password,
	// invalid_credentials about current_password.
	ErrorField string
	// PasskeyName is the name that was typed for a new passkey.
	PasskeyName string
}

func (p Member) fault(field string) (string, bool) {
	if p.Error == "" {
		return "", false
	}
	at := p.ErrorField
	if at == "" {
		at = map[string]string{"weak_password": "new_password", "invalid_credentials": "current_password"}[p.ErrorCode]
	}
	return "", at == field
}

// Initial stands where others have a picture: the first letter or digit of the name.
func (p Member) Initial() string {
	for _, name := range []string{p.DisplayName, p.Handle} {
		for _, c := range name {
			if c != utf8.RuneError && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
				return string(unicode.ToUpper(c))
			}
		}
	}
	return "?"
}

// AccountSecurity is the page of what a person signs in with. Each of its sections has a file of its own.
type AccountSecurity struct {
	Member
	// MinPassword is the shortest password in runes.
	MinPassword int
	Passkeys    Passkeys
	Demand      FactorDemand
	Factors     SecondFactors
	// History is what has lately happened with the account, newest first.
	History []AuditRow
}

// FactorDemand is what keeps a person from going on.
type FactorDemand struct {
	// SetUp asks for a second factor, and SignIn for a sign-in with it.
	SetUp, SignIn bool
	// Application asks for a second factor, or for a passkey; Continue, if not empty, leads back to it.
	Application, Continue string
	Passkey               bool
}

// SecondFactors are what a sign-in of the person needs after the password.
type SecondFactors struct {
	// Any says that there is a second factor, TOTP that there is an authenticator app.
	Any, TOTP               bool
	TOTPSince, TOTPLastUsed time.Time
	// RecoveryCodes is how many are left.
	RecoveryCodes int
}

func (AccountSecurity) page() (string, bool) { return "account-security", false }

// AccountDevices is the page of the browsers that a person is signed in with.
type AccountDevices struct {
	Member
	Sessions []SessionRow
	// MoreSessions says that there are others, which ?sessions=all shows.
	MoreSessions bool
}

func (AccountDevices) page() (string, bool) { return "account-devices", false }

// OtherSessions says that there is a session to end besides the one that asks.
func (p AccountDevices) OtherSessions() bool {
	for _, s := range p.Sessions {
		if !s.Current {
			return true
		}
	}
	return false
}

// AccountApps is the page of the applications that a person lets in.
type AccountApps struct {
	Member
	Apps []AppRow
}

func (AccountApps) page() (string, bool) { return "account-apps", false }

// AccountInvites is the page of a person's invites.
type AccountInvites struct {
	Member
	Invites []InviteRow
	// InvitesRemaining is how many invites the person may still make; -1 is without limit.
	InvitesRemaining int
	// Mail says that an invite can be mailed.
	Mail bool
}

// Unused reports whether one of the invites has not been used.
func (p AccountInvites) Unused() bool {
	return slices.ContainsFunc(p.Invites, func(i InviteRow) bool { return !i.Used })
}

// Joined reports whether somebody has joined by one of the invites.
func (p AccountInvites) Joined() bool {
	return slices.ContainsFunc(p.Invites, func(i InviteRow) bool { return i.Used })
}

func (AccountInvites) page() (string, bool) { return "account-invites", false }

// AccountInviteSlip is an invite on paper.
type AccountInviteSlip struct {
	Member
	Code, URL, Note string
	ExpiresAt       time.Time
}

func (AccountInviteSlip) page() (string, bool) { return "account-invite-slip", false }

// AccountData is the page on which a person takes their data with them, and leaves.
type AccountData struct{ Member }

func (AccountData) page() (string, bool) { return "account-data", false }

// SessionRow is one signed-in browser. A zero time is shown as "never".
type SessionRow struct {
	ID string
	// Browser and System are their names, each empty when it is not known; Address is the network address of the sign-in.
	Browser, System, Address         string
	CreatedAt, LastSeenAt, ExpiresAt time.Time
	// Methods are the factors of the sign-in.
	Methods []Text
	// Current is the session that asks for the page.
	Current bool
}

// InviteRow is one invite of the person. URL is absolute: it is text to copy, never a link of the page.
type InviteRow struct {
	Code, URL, Note      string
	CreatedAt, ExpiresAt time.Time
	Used                 bool
	UsedAt               time.Time
	// UsedBy is the handle of the person who came by it.
	UsedBy  string
	Expired bool
}

// AppRow is an application that the person lets in, or may; GrantedAt is zero of one that was not let in.
type AppRow struct {
	ClientID, Name string
	Scopes         []string
	// Sees are the scopes in words, in the language of the page.
	Sees                  []string
	GrantedAt, LastUsedAt time.Time
	HomeURI               string // where it leads, "" for nowhere
	Logo                  string // hash of its picture, "" for none
}

// Host is where it leads, as people know it.
func (a AppRow) Host() string {
	u, err := url.Parse(a.HomeURI)
	if err != nil {
		return ""
	}
	return u.Host
}

// Initial stands for its logo.
func (a AppRow) Initial() string {
	name := strings.ToUpper(cmp.Or(a.Name, a.ClientID))
	_, size := utf8.DecodeRuneInString(name)
	return name[:size]
}
