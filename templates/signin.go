package templates

import "slices"

// Login is the sign-in page: POST {base}/login/ with handle, password and, when Continue is set, continue.
type Login struct {
	// Continue is the sealed authorization request to go on with; "" leaves the hidden field out.
	Continue string
	// ClientName is the application that asked for the sign-in, "" for none.
	ClientName string
	// Handle is what the visitor typed before, or the handle that must sign in again.
	Handle string
	// HandleFixed shows the handle as unchangeable: a signed-in person proves again who they are.
	HandleFixed bool
	// Error is a sentence for the person; ErrorCode is the service's code for it.
	Error, ErrorCode string
	// Ended says why the session that this browser had is over, "" when there was none.
	Ended string
	// SignedInAs is the handle of the session that this browser has, when another account may be used; "" for none.
	SignedInAs string
	// Fresh goes back in a hidden field: why a signed-in user signs in again.
	Fresh string
	// RegisterOpen shows the link for people with an invite.
	RegisterOpen bool
}

func (Login) page() (string, bool) { return "login", true }

// fault marks both fields for every error: on this page there is nothing else it could belong to.
func (p Login) fault(string) (string, bool) { return "", p.Error != "" }

// Register is the page of an invite: POST {base}/register/ with code, handle, display_name, email, password.
type Register struct {
	Code string
	// InvitedBy is the handle or name of the person whose invite it is and Note what they wrote; "" when not known.
	InvitedBy, Note            string
	Handle, DisplayName, Email string
	Error, ErrorCode           string
	// FieldErrors are sentences by field name (code, handle, display_name, email, password).
	FieldErrors map[string]string
	// Closed shows that registration is closed, without a form.
	Closed bool
	// MinPassword is the shortest password in runes.
	MinPassword int
	// Continue is the sealed authorization request to go on with.
	Continue string
}

// A new member who came from an application goes back to it by the answer's redirect.
func (p Register) page() (string, bool) { return "register", p.Continue != "" }

func (p Register) fault(field string) (string, bool) {
	if m := p.FieldErrors[field]; m != "" {
		return m, true
	}
	return "", p.Error != "" && blamed(p.ErrorCode, field)
}

// Focus is the field to start at: the first with an error, else the first required one that is empty.
func (p Register) Focus() string {
	return focus(p, [2]string{"code", p.Code}, [2]string{"handle", p.Handle}, [2]string{"display_name", "optional"}, [2]string{"email", "optional"})
}

// ResetPassword is the page for a reset code: POST {base}/reset-password/ with handle, code, password.
type ResetPassword struct {
	Handle, Code     string
	Error, ErrorCode string
	// Done shows that the password is changed and every session has ended.
	Done bool
	// MinPassword is the shortest password in runes.
	MinPassword int
	// Continue is the sealed authorization request the sign-in link hands on, "" for none.
	Continue string
	// Contact is whom to ask for a code, "" where the administrators have said nothing.
	Contact string
}

func (ResetPassword) page() (string, bool) { return "reset-password", false }

func (p ResetPassword) fault(field string) (string, bool) {
	return "", p.Error != "" && blamed(p.ErrorCode, field)
}

// Focus is the field to start at: the first with an error, else the first required one that is empty.
func (p ResetPassword) Focus() string {
	return focus(p, [2]string{"handle", p.Handle}, [2]string{"code", p.Code})
}

// focus goes through the fields and their values before the password, which is never filled in and so the last resort.
// The name is of a field, so a page has one field with the focus at most.
func focus(f form, fields ...[2]string) string {
	fields = append(fields, [2]string{"password", ""})
	i := slices.IndexFunc(fields, func(field [2]string) bool { return isInvalid(f, field[0]) })
	if i < 0 {
		i = slices.IndexFunc(fields, func(field [2]string) bool { return field[1] == "" })
	}
	return fields[i][0]
}
