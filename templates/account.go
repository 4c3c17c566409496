package templates

import "time"

// Account is a person's own page. Its forms:
//
//	POST {base}/account/profile              display_name, email
//	POST {base}/account/password             current_password, new_password
//	POST {base}/account/sessions/end         id
//	POST {base}/account/sessions/end-others  -
//	POST {base}/account/invites              note
//	POST {base}/account/invites/delete       code
//	POST {base}/account/apps/remove          client_id
//	POST {base}/account/delete               password
//	POST {base}/logout/                      -
//
// Its sections can be linked by id: profile, password, sessions, invites, apps, data.
type Account struct {
	Handle, DisplayName, Email string
	EmailVerified, Admin       bool
	// Flags are the access flags that are on.
	Flags []string
	Answer
	// ErrorField is the field the error is about (display_name, email, current_password, new_password, note, password);
	// "" lets ErrorCode say: weak_password is about new_password, invalid_credentials about current_password.
	ErrorField string
	Sessions   []SessionRow
	// MoreSessions says that there are others, which ?sessions=all shows.
	MoreSessions bool
	Invites      []InviteRow
	// InvitesRemaining is how many invites the person may still make; -1 is without limit.
	InvitesRemaining int
	Apps             []AppRow
	// MinPassword is the shortest password in runes.
	MinPassword int
}

// SessionRow is one signed-in browser. A zero time is shown as "never".
type SessionRow struct {
	ID string
	// Device is a short name for the browser; Address the network address it was last seen at.
	Device, Address                  string
	CreatedAt, LastSeenAt, ExpiresAt time.Time
	// Current is the session that asks for the page.
	Current bool
}

// InviteRow is one invite of the person. URL is absolute: it is text to copy, never a link of the page.
type InviteRow struct {
	Code, URL, Note      string
	CreatedAt, ExpiresAt time.Time
	Used                 bool
	// UsedBy is the handle of the person who came by it.
	UsedBy  string
	Expired bool
}

// AppRow is an application that the person lets in.
type AppRow struct {
	ClientID, Name string
	Scopes         []string
	GrantedAt      time.Time
}

func (Account) page() (string, bool) { return "account", false }

func (p Account) fault(field string) (string, bool) {
	if p.Error == "" {
		return "", false
	}
	at := p.ErrorField
	if at == "" {
		at = map[string]string{"weak_password": "new_password", "invalid_credentials": "current_password"}[p.ErrorCode]
	}
	return "", at == field
}

// OtherSessions says that there is a session to end besides the one that asks.
func (p Account) OtherSessions() bool {
	for _, s := range p.Sessions {
		if !s.Current {
			return true
		}
	}
	return false
}
