package templates

import (
	"slices"
	"strings"
	"time"
)

// Login is the sign-in page: POST {base}/login/ with handle, password and, when Continue is set, continue.
type Login struct {
	// Continue is the sealed authorization request to continue; "" omits the hidden field.
	Continue string
	// ClientName is the application that requested the sign-in, "" for none.
	ClientName string
	// ClientLogo is the hash of its logo, "" for none.
	ClientLogo string
	// Handle is what the visitor typed before, or the handle that must sign in again.
	Handle string
	// HandleFixed makes the handle read-only: a signed-in person confirms their identity.
	HandleFixed bool
	// Error is a sentence for the person; ErrorCode is the service's code for it.
	Error, ErrorCode string
	// Ended says why the browser's session has ended, "" if it had none.
	Ended string
	// SignedInAs is the handle of the browser's session if another account may be used, "" for none.
	SignedInAs string
	// SignedInName is the name of that account, and SelectToken that of the form that goes on with it: POST
	// {base}/oauth2/select-account with continue and token; "" for no such form.
	SignedInName, SelectToken string
	// Unsent says that a form was sent without a session, and is lost.
	Unsent bool
	// Fresh is a hidden field: why a signed-in user signs in again.
	Fresh string
	// Again is what was typed, hidden, if the service was too busy; the page sends it once more, after so
	// many seconds.
	Again      string
	AgainAfter int
	// Shared ticks the box for a shared computer, shared_computer.
	Shared bool
	// RegisterOpen shows the link for people with an invite.
	RegisterOpen bool
	// Passkeys offers to sign in with a passkey: passkey.js fills in state and credential in the same form.
	Passkeys bool
	// OlderPasskeys offers those that were made for another host, which still work here.
	OlderPasskeys bool
	Signals       []Signal
	// Mail reports whether a forgotten password is reset by mail. Without mail, an administrator
	// creates a code.
	Mail bool
}

func (Login) page() (string, bool) { return "login", true }

// fault marks both fields for every error, since the page has no others.
func (p Login) fault(string) (string, bool) { return "", p.Error != "" }

// SecondFactor is the second step of a sign-in: POST {base}/login/second-factor/ with otp, a code of
// an authenticator app or, with recovery set, a recovery code.
type SecondFactor struct {
	// Continue and Fresh are as in Login.
	Continue, Fresh string
	Handle          string
	// Methods has the person's factors: totp, passkey, recovery_code.
	Methods          []string
	Error, ErrorCode string
	// Recovery reports whether the error is about the recovery code.
	Recovery bool
	// NoPasskeys says why the person's passkeys cannot be used here, "" if they can.
	NoPasskeys string
	// Contact is whom to ask after losing the factors, "" if unset.
	Contact string
}

func (SecondFactor) page() (string, bool) { return "second-factor", true }

// fault marks one of the fields otp (of the app) and recovery_code.
func (p SecondFactor) fault(field string) (string, bool) {
	return "", p.ErrorCode == "invalid_otp" && (field == "recovery_code") == p.Recovery
}

// Confirm asks signed-in people to confirm their identity, or that they are sure, before an
// operation: POST {base}Action with the Fields and confirm_password, confirm_otp, or confirm_state
// and confirm_credential.
type Confirm struct {
	// Action is the local path of the original form, and Fields has all of its fields.
	Action string
	Fields []FormField
	// Stale asks people to confirm their identity, because they last did so too long ago.
	Stale bool
	// Question is asked first, "" for none.
	Question string
	// Person is the handle of another person whom the act is about, "" for none.
	Person string
	// Ends lists what an act ends, nil for nothing.
	Ends   *Ends
	Did    []ActRow
	Handle string
	// SecondFactor reports whether the password alone is not enough, Passwordless whether there is none.
	SecondFactor     bool
	Passwordless     bool
	Methods          []string // see SecondFactor
	Error, ErrorCode string
	// Status is the HTTP status of a refused confirmation, 0 for none.
	Status int
}

// Kinds of ActRow.
const (
	ActAccount    = "account" // that was added
	ActLift       = "lift"    // of a suspension
	ActReset      = "reset"   // a code that was used
	ActAddress    = "address" // of somebody, that was changed or verified
	ActPermission = "permission"
	ActCode       = "code" // or link, which the act itself voids
	ActSetting    = "setting"
	ActSuspension = "suspension" // that stands
	ActLoss       = "loss"       // of a permission
	ActOther      = "other"      // one action, to several people perhaps
)

// ActRow is something that an administrator did in the last seven days. With an ID there is a box to undo it: undo,
// with the ID.
type ActRow struct {
	ID, Kind, Name, Detail string
	By                     string // handle of whoever did it
	At                     time.Time
	Unjoined               bool // the address is of somebody who has no password yet
}

// Audit returns the audit row of an ActOther, to all of its people.
func (r ActRow) Audit() AuditRow { return AuditRow{Actor: r.By, Action: r.Detail, Target: r.Name} }

// Ends lists what an act ends with the other sessions.
type Ends struct {
	Sessions, Invites int
	Apps              []AppRow // each may be kept
	Recent            RecentFactors
	// Optional reports whether the sessions may be kept too.
	Optional bool
	// KeepSessions and KeepApps (client ids) are the choices in a refused form.
	KeepSessions bool
	KeepApps     []string
	Given        Given
}

// Given lists what an administrator gave others in other sessions: user names, and addresses that may join. Void are
// those that a refused form names.
type Given struct {
	Names, Void []string
	Theirs      bool // the reader is another administrator
}

// FormField is a field of the original form.
type FormField struct{ Name, Value string }

func (Confirm) page() (string, bool) { return "confirm", false }

func (p Confirm) fault(field string) (string, bool) {
	codes := map[string]string{"confirm_password": "invalid_credentials", "confirm_otp": "invalid_otp"}
	return "", p.Error != "" && p.ErrorCode == codes[field]
}

// Code reports whether the person can enter a code of an app or a recovery code.
func (p Confirm) Code() bool {
	return p.SecondFactor && (slices.Contains(p.Methods, "totp") || slices.Contains(p.Methods, "recovery_code"))
}

// RecentFactors has factors that may be removed in a form: remove_factor, which may be repeated, with their ids. Remove
// are those that are ticked.
type RecentFactors struct {
	Rows   []FactorRow
	Remove []string
}

// FactorRow is a second factor or an email address of an account.
type FactorRow struct {
	// ID names it in a form that removes it, "" where there is none.
	ID string
	// Kind is totp, passkey, recovery_code, second_step or email. Name is the name of a passkey, or the address.
	Kind, Name string
	CreatedAt  time.Time
}

// TOTP is the page where an authenticator app is set up: POST {base}/account/security/totp with token and code.
type TOTP struct {
	// Secret is base32, URI the content of the QR code. Token is the sealed secret; the form sends it back.
	Secret, URI, Token string
	// Ends lists what ends with the first second factor, nil for a further one.
	Ends             *Ends
	Error, ErrorCode string
}

func (TOTP) page() (string, bool) { return "account-totp", false }

func (p TOTP) fault(field string) (string, bool) { return "", p.Error != "" && field == "code" }

// Groups returns the secret in groups of four, for typing.
func (p TOTP) Groups() string {
	var groups []string
	for g := range slices.Chunk([]byte(p.Secret), 4) {
		groups = append(groups, string(g))
	}
	return strings.Join(groups, " ")
}

// RecoveryCodes shows recovery codes, which can be shown only once.
type RecoveryCodes struct {
	Codes []string
	// First reports whether the first second factor has just been added.
	First bool
	// Passwordless reports whether the person has joined with a passkey, without a password.
	Passwordless bool
	// Application required the factor, and Continue leads back to it; "" for none.
	Application, Continue string
}

func (RecoveryCodes) page() (string, bool) { return "account-recovery-codes", false }

// Text returns what the button copies: one code per line.
func (p RecoveryCodes) Text() string { return strings.Join(p.Codes, "\n") }

// Register is the page of an invite: POST {base}/register/ with code, handle, display_name, email, password.
type Register struct {
	Code string
	// InvitedBy is the handle or name of the inviter, and Note what they wrote; "" if unknown.
	InvitedBy, Note            string
	Handle, DisplayName, Email string
	// Mailed is the sealed value of the link in a mailed invite, which proves Email; "" for none.
	Mailed string
	// SharedAddress reports whether another account has verified Email, which this one has unverified.
	SharedAddress bool
	// Fixed makes the address read-only: the invite is for it.
	Fixed            bool
	Error, ErrorCode string
	// FieldErrors has error sentences by field name (code, handle, display_name, email, password).
	FieldErrors map[string]string
	// Linked reports whether Code came by a link, so that the form has no field for it.
	Linked bool
	// SignedInAs is the handle of the browser's session, "" for none.
	SignedInAs string
	// Shared is as in Login.
	Shared bool
	// Contact is whom to ask instead of the inviter, "" if unset.
	Contact string
	// Closed shows that registration is closed, without a form.
	Closed bool
	// MinPassword is the shortest password in runes.
	MinPassword int
	// Passkeys offers to join with a passkey, without a password.
	Passkeys bool
	Signals  []Signal
	// Continue is the sealed authorization request to continue.
	Continue string
}

// Spent reports whether the link that was opened works no longer.
func (p Register) Spent() bool { return p.Linked && p.ErrorCode == "invalid_invite" }

// page lets the response redirect a new member back to the application.
func (p Register) page() (string, bool) { return "register", p.Continue != "" }

func (p Register) fault(field string) (string, bool) {
	if m := p.FieldErrors[field]; m != "" {
		return m, true
	}
	return "", p.Error != "" && blamed(p.ErrorCode, field)
}

// Focus returns the field to start at: the first with an error, else the first required one that is
// empty.
func (p Register) Focus() string {
	return focus(p, [2]string{"code", p.Code}, [2]string{"display_name", p.DisplayName},
		[2]string{"handle", p.Handle}, [2]string{"email", "optional"})
}

// Join is the page of people who must prove an address before they can join: POST {base}/register/address with code and
// email, or, without Code, {base}/join/ with name, email and reason.
type Join struct {
	// Code is that of an invite for certain addresses, "" for somebody who asks to join.
	Code                   string
	Visitor, Email, Reason string
	Continue               string
	// SignedInAs is as in Register.
	SignedInAs       string
	Error, ErrorCode string
	// FieldErrors has error sentences by field name.
	FieldErrors map[string]string
	// Sent shows that a mail is on its way, and Later that it waits for its turn.
	Sent, Later bool
}

func (Join) page() (string, bool) { return "join", false }

func (p Join) fault(field string) (string, bool) {
	return p.FieldErrors[field], p.FieldErrors[field] != ""
}

// Recover is the page of people without a password who have lost their passkeys: POST {base}/recover/ with
// handle, code and, when Continue is set, continue.
type Recover struct {
	Handle, Continue string
	Error, ErrorCode string
	// Shared is as in Login.
	Shared bool
	// Contact is whom to ask without a code, "" if unset.
	Contact string
	// Mail reports whether a forgotten password is reset by mail.
	Mail bool
}

func (Recover) page() (string, bool) { return "recover", true }

func (p Recover) fault(string) (string, bool) { return "", p.ErrorCode == "invalid_recovery_code" }

// ResetPassword is the page for a reset code: POST {base}/reset-password/ with handle, code, password.
type ResetPassword struct {
	Handle, Code     string
	Error, ErrorCode string
	// Done shows that the password is changed and every session has ended.
	Done bool
	// FieldErrors has error sentences by field name.
	FieldErrors map[string]string
	// MinPassword is the shortest password in runes.
	MinPassword int
	// Continue is the sealed authorization request that the sign-in link passes on, and ClientName its
	// application; "" for none.
	Continue, ClientName string
	// Contact is whom to ask for a code, "" if unset.
	Contact string
	// Linked reports whether Handle and Code came by a link, so that the form has no fields for them.
	Linked bool
	// Mail reports whether a link can be mailed, Mailed whether Code came by mail and so is valid
	// for an hour.
	Mail, Mailed bool
	// Welcome shows the page to somebody who was added and never had a password. Passkeys offers a passkey instead.
	Welcome, Passkeys bool
	// Shared is as in Login.
	Shared  bool
	Signals []Signal
	// Recent has the factors of the last days, shown with the form.
	Recent RecentFactors
	// Factors has the account's second factors, and the address if its owner changed it, shown when
	// Done is set. Unverified is that address if it no longer counts as verified.
	Factors    []FactorRow
	Unverified string
}

func (ResetPassword) page() (string, bool) { return "reset-password", false }

func (p ResetPassword) fault(field string) (string, bool) {
	if m := p.FieldErrors[field]; m != "" {
		return m, true
	}
	return "", p.Error != "" && blamed(p.ErrorCode, field)
}

// Spent reports whether the link that was opened works no longer.
func (p ResetPassword) Spent() bool { return p.Linked && p.ErrorCode == "invalid_reset_code" }

// Lacking reports whether the person has to get a code first.
func (p ResetPassword) Lacking() bool { return p.Code == "" || p.ErrorCode == "invalid_reset_code" }

// Focus returns the field to start at: the first with an error, else the first required one that is
// empty.
func (p ResetPassword) Focus() string {
	return focus(p, [2]string{"handle", p.Handle}, [2]string{"code", p.Code})
}

// focus returns the first field with an error, else the first empty one. Each of fields is a name
// and its value. The password comes last; it is always empty.
func focus(f form, fields ...[2]string) string {
	fields = append(fields, [2]string{"password", ""})
	i := slices.IndexFunc(fields, func(field [2]string) bool { return isInvalid(f, field[0]) })
	if i < 0 {
		i = slices.IndexFunc(fields, func(field [2]string) bool { return field[1] == "" })
	}
	return fields[i][0]
}
