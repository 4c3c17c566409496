package templates

import (
	"slices"
	"strings"
	"time"
)

// Login is the sign-in page: POST {base}/login/ with handle, password and, when Continue is set, continue.
type Login struct {
	// Continue is the sealed authorization request to go on with; "" leaves the hidden field out.
	Continue string
	// ClientName is the application that asked for the sign-in, "" for none.
	ClientName string
	// ClientLogo is the hash of its logo, "" for none.
	ClientLogo string
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
	// Passkeys offers to sign in with a passkey: the same form with state and credential, which passkey.js fills in.
	Passkeys bool
	// Mail says that a forgotten password is set anew by mail, and not by an administrator's code.
	Mail bool
}

func (Login) page() (string, bool) { return "login", true }

// fault marks both fields for every error: on this page there is nothing else it could belong to.
func (p Login) fault(string) (string, bool) { return "", p.Error != "" }

// SecondFactor is the second step of a sign-in: POST {base}/login/second-factor/ with otp, which is a code of an
// authenticator app or, with recovery, a recovery code.
type SecondFactor struct {
	// Continue and Fresh are as in Login.
	Continue, Fresh string
	Handle          string
	// Methods are what the person has: totp, passkey, recovery_code.
	Methods          []string
	Error, ErrorCode string
	// Recovery says that the error is about the recovery code.
	Recovery bool
	// NoPasskeys says why the passkeys that the person has are of no use here, "" where they are.
	NoPasskeys string
	// Contact is whom to ask who has lost the factors, "" where the administrators have said nothing.
	Contact string
}

func (SecondFactor) page() (string, bool) { return "second-factor", true }

// Only one of the fields otp (of the app) and recovery_code is at fault.
func (p SecondFactor) fault(field string) (string, bool) {
	return "", p.ErrorCode == "invalid_otp" && (field == "recovery_code") == p.Recovery
}

// Confirm asks a signed-in person to prove again who they are, or whether they are sure, before something is done:
// POST {base}Action with the Fields and confirm_password, confirm_otp, or confirm_state and confirm_credential.
type Confirm struct {
	// Action is the local path of the form that is carried on, and Fields all that it has.
	Action string
	Fields []FormField
	// Stale asks for the proof.
	Stale bool
	// Question is asked first, "" for none; Keep offers to keep the other sessions.
	Question Text
	Keep     bool
	Handle   string
	// SecondFactor says that the password alone is not enough.
	SecondFactor     bool
	Methods          []string // see SecondFactor
	Error, ErrorCode string
	// Status is that of a refused proof, 0 for none.
	Status int
}

// FormField is a field of a form that is carried on.
type FormField struct{ Name, Value string }

func (Confirm) page() (string, bool) { return "confirm", false }

func (p Confirm) fault(field string) (string, bool) {
	codes := map[string]string{"confirm_password": "invalid_credentials", "confirm_otp": "invalid_otp"}
	return "", p.Error != "" && p.ErrorCode == codes[field]
}

// Code reports whether a code of an app or a recovery code can be entered.
func (p Confirm) Code() bool {
	return p.SecondFactor && (slices.Contains(p.Methods, "totp") || slices.Contains(p.Methods, "recovery_code"))
}

// FactorRow is a second factor of an account, or an address of it.
type FactorRow struct {
	// Kind is totp, passkey, recovery_code or email; Name is that of a passkey, or the address.
	Kind, Name string
	CreatedAt  time.Time
}

// TOTP is the page where an authenticator app is set up: POST {base}/account/security/totp with token and code.
type TOTP struct {
	// Secret is base32, URI what a QR code has; Token brings the secret back, sealed.
	Secret, URI, Token string
	// First says that it is the first second factor: the other sessions end with it.
	First bool
	// KeepOthers is the choice, in a form that was refused, that they stay.
	KeepOthers       bool
	Error, ErrorCode string
}

func (TOTP) page() (string, bool) { return "account-totp", false }

func (p TOTP) fault(field string) (string, bool) { return "", p.Error != "" && field == "code" }

// Groups are the secret in groups of four, to type.
func (p TOTP) Groups() string {
	var groups []string
	for g := range slices.Chunk([]byte(p.Secret), 4) {
		groups = append(groups, string(g))
	}
	return strings.Join(groups, " ")
}

// RecoveryCodes shows recovery codes, which is possible this once.
type RecoveryCodes struct {
	Codes []string
	// First says that they come with the first second factor, which has just been added.
	First bool
	// Application has asked for the factor, and Continue leads back to it; "" for none.
	Application, Continue string
}

func (RecoveryCodes) page() (string, bool) { return "account-recovery-codes", false }

// Text is what the button copies: a code a line.
func (p RecoveryCodes) Text() string { return strings.Join(p.Codes, "\n") }

// Register is the page of an invite: POST {base}/register/ with code, handle, display_name, email, password.
type Register struct {
	Code string
	// InvitedBy is the handle or name of the person whose invite it is and Note what they wrote; "" when not known.
	InvitedBy, Note            string
	Handle, DisplayName, Email string
	Error, ErrorCode           string
	// FieldErrors are sentences by field name (code, handle, display_name, email, password).
	FieldErrors map[string]string
	// SignedInAs is the handle of the session that this browser has, "" for none.
	SignedInAs string
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
	// Mail says that a link can be had by mail; Mailed that Code came by one, and works for an hour.
	Mail, Mailed bool
	// Factors are the second factors that the account has when it is done.
	Factors []FactorRow
}

func (ResetPassword) page() (string, bool) { return "reset-password", false }

func (p ResetPassword) fault(field string) (string, bool) {
	return "", p.Error != "" && blamed(p.ErrorCode, field)
}

// Lacking reports whether a code has to be had first.
func (p ResetPassword) Lacking() bool { return p.Code == "" || p.ErrorCode == "invalid_reset_code" }

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
