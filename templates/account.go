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

// Member holds what every page of a person's own account shows. The forms of these pages:
//
//	POST {base}/account/profile              the members of a profile, keep_other_sessions, keep_app
//	POST {base}/account/password             current_password, new_password
//	POST {base}/account/password/remove      -
//	POST {base}/account/sessions/end         id
//	POST {base}/account/sessions/end-others  keep_app
//	POST {base}/account/invites              note
//	POST {base}/account/invites/delete       code
//	POST {base}/account/apps/remove          client_id
//	POST {base}/account/export               -
//	POST {base}/account/delete               password
//	POST {base}/logout/                      -
//
// Links can point to their sections by id: profile, password, passkeys, second-step, second-factor, recovery,
// sessions, apps, invites, data.
type Member struct {
	Handle, DisplayName string
	Admin               bool
	// Publish reports whether the person may use AccountPublish.
	Publish bool
	// Flags are the access flags that are on.
	Flags []string
	// EndsAt is when the account ends, zero for never, and FlagEnds when flags end.
	EndsAt   time.Time
	FlagEnds []FlagEnd
	Answer
	// ErrorField is the field that the error is about. If it is empty, invalid_credentials is about
	// current_password.
	ErrorField string
	// FieldErrors has error sentences by field.
	FieldErrors map[string]string
	// SecondStep and EndOthers are what was chosen for a new passkey.
	SecondStep, EndOthers bool
	// Passwordless reports whether the person signs in with passkeys alone.
	Passwordless bool
	Signals      []Signal
	// Offer has the browser make a passkey without asking, if it can.
	Offer bool
}

// FlagEnd is when a flag ends.
type FlagEnd struct {
	Flag string
	At   time.Time
}

func (p Member) fault(field string) (string, bool) {
	if m := p.FieldErrors[field]; m != "" {
		return m, true
	}
	at := p.ErrorField
	if at == "" && p.ErrorCode == "invalid_credentials" {
		at = "current_password"
	}
	return "", p.Error != "" && at == field
}

// Initial returns the first letter or digit of the name, shown in place of a picture.
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

// AccountHome is the first page of a person's account.
type AccountHome struct {
	Member
	Picture       string // as in AccountProfile
	Apps          []AppRow
	Email         string
	EmailVerified bool
	Passkeys      int
	Step          *NextStep // what to do next, nil for nothing
}

func (AccountHome) page() (string, bool) { return "account", false }

// AccountSecurity is the page of a person's password and other factors. Each section has its own
// template file.
type AccountSecurity struct {
	Member
	// MinPassword is the shortest password in runes.
	MinPassword int
	// Removable reports whether the person could sign in without the password.
	Removable bool
	Passkeys  Passkeys
	Demand    factorDemand
	Factors   SecondFactors
	// OpenInvites is shown after a new password, which ends none of them.
	OpenInvites int
	// OwnAddress is shown likewise, if the user has changed it: the mailbox may be a thief's.
	OwnAddress []FactorRow
	Recent     RecentFactors // of other sessions
	Given      Given
	// History has the recent events of the account, newest first.
	History []AuditRow
}

// factorDemand says which factor a person must set up or use before going on.
type factorDemand struct {
	// SetUp asks the person to set up a second factor, SignIn to sign in with it.
	SetUp, SignIn bool
	// Application requires a second factor, or a passkey if Passkey is set. Continue, if not
	// empty, leads back to it.
	Application, Continue string
	Passkey               bool
	// Recovered is set instead after a sign-in with a recovery code.
	Recovered bool
}

// SecondFactors describes the person's factors besides the password.
type SecondFactors struct {
	// Any reports whether the person has chosen a second step after the password, and Required whether the settings
	// demand one. TOTP reports whether there is an authenticator app, Passkey whether there is a passkey that works.
	Any, Required           bool
	TOTP, Passkey           bool
	TOTPSince, TOTPLastUsed time.Time
	// RecoveryCodes is the number of unused codes.
	RecoveryCodes int
}

func (AccountSecurity) page() (string, bool) { return "account-security", false }

// AccountWelcome is the first page of a new member.
type AccountWelcome struct {
	Member
	Steps []NextStep
	App   *AppRow // to which the link to join leads, nil for none
}

func (AccountWelcome) page() (string, bool) { return "account-welcome", false }

// AccountDevices is the page of the browsers in which a person is signed in.
type AccountDevices struct {
	Member
	Sessions []SessionRow
	// MoreSessions reports whether there are others, which ?sessions=all shows.
	MoreSessions bool
}

func (AccountDevices) page() (string, bool) { return "account-devices", false }

// OtherSessions reports whether there is a session besides the current one.
func (p AccountDevices) OtherSessions() bool {
	for _, s := range p.Sessions {
		if !s.Current {
			return true
		}
	}
	return false
}

// AccountApps is the page of the applications that a person can use.
type AccountApps struct {
	Member
	Apps []AppRow
}

func (AccountApps) page() (string, bool) { return "account-apps", false }

// AccountInvites is the page of a person's invites.
type AccountInvites struct {
	Member
	Invites []InviteRow
	// InvitesRemaining is how many invites the person may still create; -1 means no limit.
	InvitesRemaining int
	// Mail reports whether an invite can be mailed.
	Mail bool
	// Closed reports whether nobody can join now.
	Closed bool
	// What was typed into a refused form.
	Note, Email, Uses, Days, Domain, AccountEnds string
	// Apps are the applications to which a link may lead, App is the client id of the one chosen, or empty.
	Apps []AppRow
	App  string
	// Once is another one each time: the form that has it creates one invite, however often it is sent.
	Once string
	// MaxUses and MaxDays are the most that the person may choose; UsualDays is for how long an invite is otherwise.
	MaxUses, MaxDays, UsualDays int
	// Flags are those that the person may give; Default marks those ticked in a refused form, and Ends is the last
	// day that was typed there.
	Flags []FlagRow
}

// Options reports whether the person may choose more than a note and an address.
func (p AccountInvites) Options() bool { return p.MaxUses > 1 || len(p.Flags) > 0 || p.Mail }

// OptionsTyped reports whether the options of a refused form are shown open.
func (p AccountInvites) OptionsTyped() bool {
	return p.Uses != "" || p.Days != "" || p.Domain != "" || p.AccountEnds != "" ||
		slices.ContainsFunc(p.Flags, func(f FlagRow) bool { return f.Default })
}

// Unused reports whether one of the invites has not been used.
func (p AccountInvites) Unused() bool {
	return slices.ContainsFunc(p.Invites, func(i InviteRow) bool { return !i.Used })
}

// Joined reports whether somebody has joined with one of the invites.
func (p AccountInvites) Joined() bool {
	return slices.ContainsFunc(p.Invites, func(i InviteRow) bool { return i.Used || len(i.Joined) > 0 })
}

func (AccountInvites) page() (string, bool) { return "account-invites", false }

// AccountInviteSlip is an invite to print.
type AccountInviteSlip struct {
	Member
	Code, URL, Note string
	// Left is how many people can still join with it.
	Left      int
	ExpiresAt time.Time
	InviteUse
}

func (AccountInviteSlip) page() (string, bool) { return "account-invite-slip", false }

// AccountData is the page on which people export their data and delete their account.
type AccountData struct {
	Member
	// Attributes are what administrators have entered.
	Attributes []Attribute
}

// Attribute is an attribute of a person.
type Attribute struct{ Name, Value string }

// Field returns the name of its field in a form.
func (a Attribute) Field() string { return "attributes." + a.Name }

func (AccountData) page() (string, bool) { return "account-data", false }

// AccountPublish is the page on which people make published folders of their recordings, in the browser.
type AccountPublish struct {
	Member
	Zone string // name of the person's time zone, empty if unknown
}

// publishPage is the name of AccountPublish, and publishWorker the static file that runs the program.
const (
	publishPage   = "account-publish"
	publishWorker = "publish-worker.js"
)

// Command returns the command that does what the page does.
func (AccountPublish) Command() string { return "cairn activity import" }

func (AccountPublish) page() (string, bool) { return publishPage, false }

// SessionRow is one signed-in browser. A zero time is shown as "never".
type SessionRow struct {
	ID string
	// Browser and System are names, empty if unknown. Address is the network address of the sign-in.
	Browser, System, Address         string
	CreatedAt, LastSeenAt, ExpiresAt time.Time
	// Methods are the factors of the sign-in, and Passkey the name of the passkey, "" for none.
	Methods []Text
	Passkey string
	// Current marks the session that requested the page. Bound ones need the key of their device.
	Current, Bound bool
}

// InviteRow is one invite of the person. URL is absolute; the page shows it as text to copy, never
// as a link.
type InviteRow struct {
	Code, URL, Note      string
	MailedTo             string // "" for an invite that was not mailed
	CreatedAt, ExpiresAt time.Time
	Used                 bool
	UsedAt               time.Time
	// UsedBy is the handle of the first person who joined with it, and Joined has those of all who still have
	// an account.
	UsedBy  string
	Joined  []string
	Expired bool
	InviteUse
}

// InviteUse is what is unusual about an invite.
type InviteUse struct {
	Uses, Used int
	// Flags come besides those of every new member.
	Flags []string
	// Domain is that of which an address must be to join, or an address; "" for any.
	Domain string
	// AccountEnds is when the account of whoever joins ends, zero for never, and FlagEnds when flags do.
	AccountEnds time.Time
	FlagEnds    []FlagEnd
}

// Wide reports whether the invite is for several people.
func (u InviteUse) Wide() bool { return u.Uses > 1 }

// AppRow is an application that the person can use. GrantedAt is zero if it has no access yet.
type AppRow struct {
	ClientID, Name string
	Scopes         []string
	// Sees describes the scopes in the language of the page.
	Sees                  []string
	GrantedAt, LastUsedAt time.Time
	HomeURI               string // "" for none
	Logo                  string // hash of its picture, "" for none
}

// Host returns the host of HomeURI.
func (a AppRow) Host() string {
	u, err := url.Parse(a.HomeURI)
	if err != nil {
		return ""
	}
	return shownAddress(u.Host)
}

// Initial returns the first letter of the name, shown in place of a logo.
func (a AppRow) Initial() string {
	name := strings.ToUpper(cmp.Or(a.Name, a.ClientID))
	_, size := utf8.DecodeRuneInString(name)
	return name[:size]
}
