package templates

import (
	"cmp"
	"strings"
	"time"
)

// AdminOverview is the first page for administrators.
type AdminOverview struct {
	Members, OpenInvites int
	// SignIns are those of the last days, today last.
	SignIns  []DayCount
	Warnings []Warning
	Steps    []NextStep // of a new installation
	// Requests to join that wait, and members whose account or a permission ends within EndingDays.
	Requests, Ending, EndingDays int
	// Mail reports whether mail is on; MailFailure is the reason of the last failure. A test goes to Email.
	Mail                     bool
	MailWaiting, MailFailing int
	MailFailure, Email       string
	LastBackup               time.Time // zero for never
	Answer
}

// NextStep is a task for the administrator of a new installation.
type NextStep struct {
	Name, Text string
	Path       string // page on which to do it, "" for none
	Command    string // command for the operator, "" for none
	Done       bool
}

// DayCount counts something on one day (UTC).
type DayCount struct {
	Day   time.Time
	Count int
}

// Warning is a problem for an administrator, in the language of the page.
type Warning struct {
	Code         string // for programs; the same as in cairn doctor
	Advice       bool   // not a fault: a healthy new installation may have it
	Text, Remedy string
	Path         string // page that helps, "" for none
	Command      string // command for the operator, "" for none
}

func (AdminOverview) page() (string, bool) { return "admin", false }

// Total returns the number of sign-ins on all days.
func (p AdminOverview) Total() (n int) {
	for _, d := range p.SignIns {
		n += d.Count
	}
	return n
}

// bar is a column in the chart of sign-ins.
type bar struct{ X, Y, Height int }

// The chart of sign-ins, in the units of its view box.
const (
	chartHeight = 100
	barStep     = 20
)

// Bars returns the columns of the chart.
func (p AdminOverview) Bars() []bar {
	most := 1
	for _, d := range p.SignIns {
		most = max(most, d.Count)
	}
	out := make([]bar, len(p.SignIns))
	for i, d := range p.SignIns {
		h := d.Count * chartHeight / most
		if d.Count > 0 {
			h = max(h, 2)
		}
		out[i] = bar{X: i*barStep + 2, Y: chartHeight - h, Height: h}
	}
	return out
}

// Width returns the width of the chart.
func (p AdminOverview) Width() int { return max(1, len(p.SignIns)) * barStep }

// AdminUsers lists people for administrators: GET {base}/admin/users/ with query, flag, suspended,
// never_signed_in, no_second_factor, sort and cursor. POST to the same path adds a person: handle,
// display_name, email, flag (repeatable).
type AdminUsers struct {
	Filter UserFilter
	Flags  []string // of the installation
	Users  []AdminUserRow
	// Total is the number of matches; with AtLeast there are that many or more; -1 is unknown.
	Total   int
	AtLeast bool
	// AllAtOnce reports whether they are few enough to be changed at once; Query selects them.
	AllAtOnce bool
	Query     string
	// Next is the local path of the next page, "" on the last one; CSV that of all of them.
	Next, CSV string
	Answer
	// New has the values typed for a new person.
	New NewPerson
	// Apps and App are as in AccountInvites.
	Apps []AppRow
	App  string
	// Faults has the error sentences by field name.
	Faults map[string]string
	// ByMail reports whether a new person with an address gets the link by mail.
	ByMail bool
}

// UserFilter restricts a list of people.
type UserFilter struct {
	Query, Flag, Sort, InvitedBy, Inactive   string
	Suspended, NeverSignedIn, NoSecondFactor bool
	Ending                                   string // days, as 30d
	App                                      string // client id
}

// Any reports whether the filter restricts anything.
func (f UserFilter) Any() bool {
	return f.Query != "" || f.Flag != "" || f.InvitedBy != "" || f.Inactive != "" || f.Suspended || f.NeverSignedIn ||
		f.NoSecondFactor || f.Ending != "" || f.App != ""
}

// Days returns the days of Ending, or those that the form offers.
func (f UserFilter) Days() string { return strings.TrimSuffix(cmp.Or(f.Ending, "30d"), "d") }

// NewPerson has the fields of a person to add.
type NewPerson struct {
	Handle, DisplayName, Email string
	Flags                      []string
}

// AdminUserRow is a person as administrators see them. A zero time is shown as "never".
type AdminUserRow struct {
	Sub, Handle, DisplayName, Email string
	// Flags are the access flags that are on.
	Flags                  []string
	Suspended              bool
	Ended                  bool      // suspended because the account has ended automatically
	EndsAt                 time.Time // when the account or the first flag ends, zero for never
	CreatedAt, LastLoginAt time.Time
	// InvitedBy is a handle, "" for a person who joined without an invite.
	InvitedBy string
}

func (AdminUsers) page() (string, bool) { return "admin-users", false }

func (p AdminUsers) fault(field string) (string, bool) { return p.Faults[field], false }

// AdminUser is one person for administrators. Its forms post to {base}/admin/users/{handle}/…:
//
//	profile              display_name, email, email_verified=true if ticked
//	end                  ends (the last day)
//	suspend              reason
//	unsuspend            -
//	flags                flag (once for each ticked), known (once for each shown), ends.FLAG (the last day)
//	reset-password-code  -
//	reset-factors        -
//	delete               confirm (the handle, typed)
//
// Links can point to its sections by id: account, profile, access, password, factors, sessions,
// apps, invited, history, ends, end.
//
// A flag in known but not in flag is turned off. A flag in neither was not on the page and is left
// unchanged.
type AdminUser struct {
	User    AdminUserRow
	Picture string // as in AccountProfile
	// Profile has the values of the form: the stored ones, or those typed and refused.
	Profile AdminProfile
	// Shown says by section what its form is filled in with: what is stored, as its field "shown".
	Shown map[string]string
	// Self marks the administrator's own account, which cannot be suspended or deleted here.
	Self bool
	// SuspendedAt and SuspendReason are set for a suspended account.
	SuspendedAt   time.Time
	SuspendReason string
	// Ends is the last day of the account, "" for none, and FlagEnds that of the flags; or what was typed
	// into a refused form.
	Ends     string
	FlagEnds map[string]string
	// LockedUntil is set while failed sign-ins lock strangers, or wrong codes everybody, out of the account.
	LockedUntil time.Time
	// KnownFlags are the flags that can be ticked, in display order. Any other flag of the person
	// is only shown.
	KnownFlags []string
	// FlagDescriptions has the descriptions that administrators have written, by flag.
	FlagDescriptions map[string]string
	// ResetCode and ResetURL belong to the code just created. Only that response shows them.
	ResetCode, ResetURL string
	Welcome             bool // it is for the first password of somebody who was added
	Factors             FactorCounts
	Recent              RecentFactors
	Given               Given
	Sessions            []SessionRow
	MoreSessions        bool // there are others, which ?sessions=all shows
	Apps                []AppRow
	Invited             []BranchRow
	Open                []OpenInviteRow
	MoreOpen            bool // there are others
	History             []AuditRow
	Answer
	// Faults has the error sentences by field name: display_name, email, email_verified, attributes.NAME, ends, reason
	// or confirm. Reason, Tell and Confirm were typed into a refused form.
	Faults          map[string]string
	Reason, Confirm string
	Tell            bool
}

// Chooses reports whether there is something to choose where all sessions end.
func (p AdminUser) Chooses() bool { return len(p.Recent.Rows)+len(p.Given.Names) > 0 }

// Initial returns the first letter or digit of the name, shown in place of a picture.
func (p AdminUser) Initial() string {
	return Member{DisplayName: p.User.DisplayName, Handle: p.User.Handle}.Initial()
}

// FactorCounts counts the second factors of a person.
type FactorCounts struct {
	TOTP                    bool
	Passkeys, RecoveryCodes int // RecoveryCodes counts the unused ones
	// Passwordless reports whether there is no password, so that a passkey alone signs in.
	Passwordless bool
	// SecondStep reports whether the person has chosen a second step after the password.
	SecondStep bool
}

// Any reports whether there is something to remove.
func (f FactorCounts) Any() bool { return f.TOTP || f.Passkeys > 0 || f.SecondStep }

// AdminProfile has the fields of a person that administrators can change.
type AdminProfile struct {
	DisplayName, Email string
	EmailVerified      bool
	Waiting            string      // address that waits for its link, or empty
	Attributes         []Attribute // those declared, and those stored
}

func (p AdminUser) fault(field string) (string, bool) { return p.Faults[field], false }

func (AdminUser) page() (string, bool) { return "admin-user", false }

// AdminInvites shows one level of the tree of invites: GET {base}/admin/invites with under (a
// handle) and cursor; open=all shows all open invites. Its forms: POST {base}/admin/invites/revoke
// with code for one invite, or with under for a branch.
type AdminInvites struct {
	// Under is the person at the top of the branch, nil at the root, where an invite can be made by the form of
	// AccountInvites: Once and Mail are as there.
	Under    *BranchRow
	Once     string
	Mail     bool
	Branches []BranchRow
	// Next is the local path of the next page, "" on the last one.
	Next string
	// Open has the person's open invites, at the root everybody's.
	Open     []OpenInviteRow
	NextOpen string
	// Asking shows Requests, people who ask to join; it is set at the root only.
	Asking   bool
	Requests []JoinRow
	// Refused is the id of the request whose form was refused, and Note and App what was typed there.
	Refused, Note, App string
	Answer
}

// OpenInviteRow is an open invite. By is a handle, "" for the operator.
type OpenInviteRow struct {
	Code, By, Note       string
	MailedTo             string // "" for an invite that was not mailed
	CreatedAt, ExpiresAt time.Time
	InviteUse
}

// JoinRow is a request to join. Note was typed into its refused form. App is the client id of the one of Apps to which
// joining leads, or "".
type JoinRow struct {
	ID, Name, Email, Reason, Note, App string
	AskedAt                            time.Time
	Apps                               []AppRow
}

// BranchRow is a person in the tree of invites.
type BranchRow struct {
	Handle, DisplayName   string
	InvitedBy             string // handle
	Suspended             bool
	LastLoginAt           time.Time
	Invited, Active, Open int
	// Note and JoinedBy are the note and the time of the invite by which the person joined, zero if unknown.
	Note     string
	JoinedBy time.Time
}

func (AdminInvites) page() (string, bool) { return "admin-invites", false }

// AdminApplications shows the registered applications.
type AdminApplications struct {
	Applications []ApplicationRow
	APIs         []APIRow
	Refused      []RefusedRow // newest first
	Number       string       // that is looked for, "" for none
	Answer
}

// ApplicationRow is a registered client.
type ApplicationRow struct {
	ID, Name              string
	Public, Trusted       bool
	RequireACR            string // empty for none
	RequireFlags          []string
	RequireAll            bool     // of the flags, instead of one
	Claims                []string // rules for claims of its own
	HomeURI, Logo         string   // empty for none; Logo is the hash of the picture
	RedirectURIs, Scopes  []string
	Optional              []string // scopes that a person may leave out
	Users                 int
	ManyUsers             bool // there may be more than Users
	CreatedAt, LastUsedAt time.Time
}

// FlagNames lists the required flags, "" for none.
func (a ApplicationRow) FlagNames() string { return strings.Join(a.RequireFlags, ", ") }

// RequiredFlags names the flags as people write them.
func (a ApplicationRow) RequiredFlags() string {
	if a.RequireAll {
		return strings.Join(a.RequireFlags, " and ")
	}
	return strings.Join(a.RequireFlags, " or ")
}

// APIRow is a registered API. All clients may use it if All is set, otherwise those in Clients.
type APIRow struct {
	APIItem
	Opaque, All bool
	Clients     []string
	Claims      []string // rules for claims of its own
}

// Commands returns the operator's commands to change the client and to explain its requests.
func (a ApplicationRow) Commands() []string {
	return []string{"cairn client update " + a.ID + " --help", "cairn client remove " + a.ID, "cairn explain URL"}
}

// AddCommand returns the operator's command to register a client.
func (AdminApplications) AddCommand() string { return "cairn client add --help" }

func (AdminApplications) page() (string, bool) { return "admin-applications", false }

// AdminAudit shows rows of the audit log: GET {base}/admin/audit with person, kind, from, to and
// cursor. {base}/admin/audit.csv and .jsonl export all matching rows.
type AdminAudit struct {
	Person, Kind, From, To string // as typed
	Rows                   []AuditRow
	// Next, CSV and JSONL are local paths; Next is "" on the last page.
	Next, CSV, JSONL string
	Answer
}

// AuditRow is a row of the audit log.
type AuditRow struct {
	At                                                time.Time
	Actor, Action, Target, Detail, Address, RequestID string
	// Reader is the handle of the person whom the row is shown to in the second person, "" for nobody.
	Reader string
}

func (AdminAudit) page() (string, bool) { return "admin-audit", false }

// AdminSettings shows the settings of the installation. Its forms post to {base}/admin/settings/…:
//
//	general      instance_name, accent_colour, contact, imprint_url, privacy_url, language, time_zone
//	logo         logo (a file, multipart/form-data)
//	remove-logo  -
//	dark-logo, remove-dark-logo: as for logo
//	joining      registration, max_users, invites_per_member, invite_max_uses, invite_max_days
//	flags        known, description.FLAG, default, invite_flag, new_flag, new_description, remove
//	security     min_password_length, second_factor (repeatable), session_days, offer_passkeys
//	advanced     attributes, audit_days, session_flags (repeatable), sign_out_on_flag_loss
type AdminSettings struct {
	InstanceName, AccentColour, Contact, Registration string
	Language, TimeZone                                string
	ImprintURL, PrivacyURL                            string
	// Numbers as typed.
	MaxUsers, InvitesPerMember, InviteMaxUses, InviteMaxDays, MinPassword, AuditDays, SessionDays string
	SignOutOnFlagLoss, OfferPasskeys                                                              bool
	Flags                                                                                         []FlagRow
	Attributes                                                                                    string // as typed
	NewFlag, NewDescription                                                                       string
	// Shown is as in AdminUser.
	Shown map[string]string
	// Logo and DarkLogo: there is one.
	Logo, DarkLogo bool
	Answer
	// Faults has the error messages by field name.
	Faults map[string]string
}

// FlagRow is an access flag.
type FlagRow struct {
	Name, Description, Ends                string
	BuiltIn, Default, SecondFactor, Remove bool
	Invite                                 bool // members may give it with an invite
	InSession                              bool // the session cookie names it
}

// Languages returns the languages to choose from, each by its own name.
func (p AdminSettings) Languages() []Choice { return languageChoices(p.Language) }

func (AdminSettings) page() (string, bool) { return "admin-settings", false }

func (p AdminSettings) fault(field string) (string, bool) { return p.Faults[field], false }
