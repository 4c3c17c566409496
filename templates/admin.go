package templates

import "time"

// AdminUsers is the list of people for administrators, searched by GET {base}/admin/ with query and cursor.
type AdminUsers struct {
	Query string
	Users []AdminUserRow
	// NextCursor leads to the next people of the same search, "" on the last page.
	NextCursor string
	Answer
}

// AdminUserRow is a person as administrators see them. A zero time is shown as "never".
type AdminUserRow struct {
	Sub, Handle, DisplayName, Email string
	// Flags are the access flags that are on.
	Flags                  []string
	Suspended              bool
	CreatedAt, LastLoginAt time.Time
	// InvitedBy is a handle, "" for a person who came without an invite.
	InvitedBy string
}

func (AdminUsers) page() (string, bool) { return "admin", false }

// AdminUser is one person for administrators. Its forms post to {base}/admin/users/{handle}/…:
//
//	profile              display_name, email, email_verified=true where it is ticked
//	suspend              reason
//	unsuspend            -
//	flags                flag (once for each that is ticked), known (once for each that was shown)
//	reset-password-code  -
//	delete               confirm (the handle, typed)
//
// Its sections can be linked by id: account, profile, access, password, sessions, apps, end.
//
// A flag in known but not in flag is to be turned off; one in neither was not on the page and is left unchanged.
type AdminUser struct {
	User AdminUserRow
	// Profile is what its form shows: what is stored, or what was typed and refused.
	Profile AdminProfile
	// Self says that the administrator looks at their own account: it can be neither suspended nor deleted here.
	Self bool
	// KnownFlags are the flags that can be ticked, in the order to show. A flag the person has beyond them is shown only.
	KnownFlags []string
	// FlagDescriptions say what a flag is for, where an administrator has written it.
	FlagDescriptions map[string]string
	// ResetCode and ResetURL are of the code just made. They are shown once, by the answer that made them.
	ResetCode, ResetURL string
	Sessions            []SessionRow
	MoreSessions        bool // there are others, which ?sessions=all shows
	Apps                []AppRow
	Answer
	// ErrorField is the field that the error is about: display_name, email, email_verified, reason or confirm.
	ErrorField string
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
