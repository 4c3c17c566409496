package templates

import "time"

// AdminOverview is the first page for administrators.
type AdminOverview struct {
	Members, OpenInvites int
	// SignIns are those of the last days, today last.
	SignIns  []DayCount
	Warnings []Warning
	Steps    []NextStep // of a new installation
	Answer
}

// NextStep is what an administrator of a new installation does next.
type NextStep struct {
	Name, Text string
	Path       string // page where it is done, "" for none
	Command    string // what the operator runs, "" for nothing
	Done       bool
}

// DayCount is how often something happened on a day (UTC).
type DayCount struct {
	Day   time.Time
	Count int
}

// Date is the day as ISO 8601 has it.
func (d DayCount) Date() string { return d.Day.Format(time.DateOnly) }

// Warning is something that an administrator has to see to, in the language of the page.
type Warning struct {
	Code         string // names it to programs, as cairn doctor does
	Advice       bool   // no fault: a healthy new installation may have it
	Text, Remedy string
	Path         string // page that helps, "" for none
	Command      string // what the operator runs, "" for nothing
}

func (AdminOverview) page() (string, bool) { return "admin", false }

// Total is the number of all sign-ins.
func (p AdminOverview) Total() (n int) {
	for _, d := range p.SignIns {
		n += d.Count
	}
	return n
}

// Bar is a column of the chart of sign-ins.
type Bar struct{ X, Y, Height int }

// The chart of sign-ins, in the units of its view box.
const (
	chartHeight = 100
	barStep     = 20
)

// Bars are the columns of the chart.
func (p AdminOverview) Bars() []Bar {
	most := 1
	for _, d := range p.SignIns {
		most = max(most, d.Count)
	}
	out := make([]Bar, len(p.SignIns))
	for i, d := range p.SignIns {
		h := d.Count * chartHeight / most
		if d.Count > 0 {
			h = max(h, 2)
		}
		out[i] = Bar{X: i*barStep + 2, Y: chartHeight - h, Height: h}
	}
	return out
}

// Width is the width of the chart.
func (p AdminOverview) Width() int { return max(1, len(p.SignIns)) * barStep }

// AdminUsers is the list of people for administrators: GET {base}/admin/users/ with query, flag, suspended, never_signed_in,
// no_second_factor, sort and cursor. POST there adds a person: handle, display_name, email, flag (repeatable).
type AdminUsers struct {
	Filter UserFilter
	Flags  []string // of the installation
	Users  []AdminUserRow
	// Total is how many fit, or with AtLeast that many and more; -1 is unknown.
	Total   int
	AtLeast bool
	// Next is the local path of the next page, "" on the last one.
	Next string
	Answer
	// New is what was typed for a person to add.
	New        NewPerson
	ErrorField string
	// ByMail says that the person gets their link by mail where an address is given.
	ByMail bool
}

// UserFilter is what a list of people is restricted to.
type UserFilter struct {
	Query, Flag, Sort                        string
	Suspended, NeverSignedIn, NoSecondFactor bool
}

// Any says that it restricts.
func (f UserFilter) Any() bool {
	return f.Query != "" || f.Flag != "" || f.Suspended || f.NeverSignedIn || f.NoSecondFactor
}

// NewPerson are the fields of a person to add.
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
	SecondFactor           bool
	CreatedAt, LastLoginAt time.Time
	// InvitedBy is a handle, "" for a person who came without an invite.
	InvitedBy string
}

func (AdminUsers) page() (string, bool) { return "admin-users", false }

func (p AdminUsers) fault(field string) (string, bool) {
	return "", p.Error != "" && p.ErrorField == field
}

// AdminUser is one person for administrators. Its forms post to {base}/admin/users/{handle}/…:
//
//	profile              display_name, email, email_verified=true where it is ticked
//	suspend              reason
//	unsuspend            -
//	flags                flag (once for each that is ticked), known (once for each that was shown)
//	reset-password-code  -
//	reset-factors        -
//	delete               confirm (the handle, typed)
//
// Its sections can be linked by id: account, profile, access, password, factors, sessions, apps, invited, history, end.
//
// A flag in known but not in flag is to be turned off; one in neither was not on the page and is left unchanged.
type AdminUser struct {
	User AdminUserRow
	// Profile is what its form shows: what is stored, or what was typed and refused.
	Profile AdminProfile
	// Self says that the administrator looks at their own account: it can be neither suspended nor deleted here.
	Self bool
	// SuspendedAt and SuspendReason are of a suspended account.
	SuspendedAt   time.Time
	SuspendReason string
	// KnownFlags are the flags that can be ticked, in the order to show. A flag the person has beyond them is shown only.
	KnownFlags []string
	// FlagDescriptions say what a flag is for, where an administrator has written it.
	FlagDescriptions map[string]string
	// ResetCode and ResetURL are of the code just made. They are shown once, by the answer that made them.
	ResetCode, ResetURL string
	Factors             FactorCounts
	Sessions            []SessionRow
	MoreSessions        bool // there are others, which ?sessions=all shows
	Apps                []AppRow
	Invited             []BranchRow
	MoreInvited         bool
	History             []AuditRow
	Answer
	// ErrorField is the field that the error is about: display_name, email, email_verified, reason or confirm.
	ErrorField string
}

// FactorCounts are the second factors of a person.
type FactorCounts struct {
	TOTP                    bool
	Passkeys, RecoveryCodes int // RecoveryCodes are those left
}

// AdminProfile are the fields of a person that administrators change.
type AdminProfile struct {
	DisplayName, Email string
	EmailVerified      bool
}

func (p AdminUser) fault(field string) (string, bool) {
	return "", p.Error != "" && p.ErrorField == field
}

func (AdminUser) page() (string, bool) { return "admin-user", false }

// AdminInvites is the tree of invites, a level a page: GET {base}/admin/invites with under (a handle) and cursor; all that are
// open with open=all. Its forms: POST {base}/admin/invites/revoke with code, or with under for those of a branch.
type AdminInvites struct {
	// Under is the person whose branch it is, nil at the root.
	Under    *BranchRow
	Branches []BranchRow
	// Next is the local path of the next page, "" on the last one.
	Next string
	// Open are open invites of all, at the root.
	Open      []OpenInviteRow
	OpenCount int
	NextOpen  string
	Answer
}

// OpenInviteRow is an open invite of somebody; By is a handle, "" for the operator.
type OpenInviteRow struct {
	Code, By, Note       string
	CreatedAt, ExpiresAt time.Time
}

// BranchRow is a person in the tree of invites.
type BranchRow struct {
	Handle, DisplayName   string
	InvitedBy             string // handle
	Suspended             bool
	LastLoginAt           time.Time
	Invited, Active, Open int
}

func (AdminInvites) page() (string, bool) { return "admin-invites", false }

// AdminApplications shows the registered applications.
type AdminApplications struct {
	Applications []ApplicationRow
	APIs         []APIRow
	Answer
}

// ApplicationRow is a registered client.
type ApplicationRow struct {
	ID, Name                string
	Public, Trusted         bool
	RequireFlag, RequireACR string // or empty
	HomeURI, Logo           string // Logo is the hash of the picture; or empty
	RedirectURIs, Scopes    []string
	Optional                []string // scopes that a person may leave out
	Users                   int
	ManyUsers               bool // there are Users or more
	CreatedAt, LastUsedAt   time.Time
}

// APIRow is a registered API. Its clients are All, or those that Clients name.
type APIRow struct {
	APIItem
	Opaque, All bool
	Clients     []string
}

// Commands are what the operator changes it with, and asks how a request of it would be answered.
func (a ApplicationRow) Commands() []string {
	return []string{"cairn client update " + a.ID + " --help", "cairn client remove " + a.ID, "cairn explain URL"}
}

// AddCommand is what the operator registers one with.
func (AdminApplications) AddCommand() string { return "cairn client add --help" }

func (AdminApplications) page() (string, bool) { return "admin-applications", false }

// AdminAudit shows rows of the audit log: GET {base}/admin/audit with person, kind, from, to and cursor, and {base}/admin/audit.csv
// and .jsonl for all of them.
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
}

func (AdminAudit) page() (string, bool) { return "admin-audit", false }

// AdminSettings are the settings of the installation. Its forms post to {base}/admin/settings/…:
//
//	general      instance_name, accent_colour, contact, registration, max_users, invites_per_member
//	logo         logo (a file, multipart/form-data)
//	remove-logo  -
//	flags        known, description.FLAG, default, new_flag, new_description, remove
//	security     min_password_length, second_factor (repeatable), sign_out_on_flag_loss, audit_days
type AdminSettings struct {
	InstanceName, AccentColour, Contact, Registration string
	// Numbers as typed.
	MaxUsers, InvitesPerMember, MinPassword, AuditDays string
	SignOutOnFlagLoss                                  bool
	Flags                                              []FlagRow
	NewFlag, NewDescription                            string
	Logo                                               bool // there is one
	Answer
	// Faults are what is wrong with fields, by their names.
	Faults map[string]string
}

// FlagRow is an access flag.
type FlagRow struct {
	Name, Description              string
	BuiltIn, Default, SecondFactor bool
}

func (AdminSettings) page() (string, bool) { return "admin-settings", false }

func (p AdminSettings) fault(field string) (string, bool) { return p.Faults[field], false }
