package templates

import (
	"slices"
	"time"
)

// Consent asks the person to allow an application: POST {base}/oauth2/consent with continue, token,
// decision=allow or decision=deny, and scope for each optional scope granted.
type Consent struct {
	// ClientName and ClientID identify the application. It chooses its own name, so the page also
	// shows RedirectHost, the host or scheme that receives the response.
	ClientName, ClientID string
	// Logo is the hash of the application's logo, "" for none.
	Logo string
	// Handle belongs to the person who decides.
	Handle string
	Scopes []ScopeItem
	// APIs are those that the application asks to use on the person's behalf.
	APIs []APIItem
	// NewOnly reports whether Scopes holds only those that were not allowed before.
	NewOnly bool
	// Again says why the person is asked again, "" if they are not.
	Again Text
	// NoEmail is set if the application asks for an address; see AccessDenied.
	NoEmail NoEmail
	Mail    bool
	// Continue and Token go back in hidden fields: the authorization request, and the proof that
	// the form was shown to this session.
	Continue, Token string
	RedirectHost    string
	// DocumentHost is the host of an unregistered application that publishes its own description.
	DocumentHost string
	// StaysHere reports whether the response to such an application goes to a program on the
	// person's device.
	StaysHere bool
	// Device is set if a device started the request, and nil otherwise.
	Device *DeviceFacts
}

// DeviceFacts help people to tell their own device from that of somebody who has sent them a code.
type DeviceFacts struct {
	Code      string // that the device shows, as it was typed in this browser
	Address   string
	StartedAt time.Time
}

// Device asks for the code that a device shows: POST {base}/device with user_code. Allowed or Denied
// is set after the decision.
type Device struct {
	Code             string // canonical, or ""
	Error, ErrorCode string
	ClientName       string
	Allowed, Denied  bool
}

func (Device) page() (string, bool) { return "device", false }

func (d Device) fault(field string) (string, bool) {
	return "", d.Error != "" && field == "user_code"
}

// AccessDenied says that the application is not for this person, before the application is told.
type AccessDenied struct {
	ClientName, Logo string // Logo as in Consent
	Handle           string
	// Flags are those that the application requires, one of them or, with All, all.
	Flags []RequiredFlag
	All   bool
	// NoEmail is why, if not for flags, and Mail reports whether people can verify their address by mail.
	NoEmail NoEmail
	Mail    bool
	// Contact is whom to ask, "" if unset.
	Contact string
	// Continue is the sealed authorization request, with which the link back answers the
	// application; "" for a device, which has its answer.
	Continue  string
	RequestID string // as in Error
}

// NoEmail is what a person's address lacks for applications.
type NoEmail string

// Values of NoEmail; "" for a verified address.
const (
	EmailMissing    NoEmail = "missing"
	EmailUnverified NoEmail = "unverified"
)

// RequiredFlag is a flag with what it is for, or "".
type RequiredFlag struct{ Name, Description string }

// Flag returns the only flag, or "" if there are several.
func (p AccessDenied) Flag() string {
	if len(p.Flags) == 1 {
		return p.Flags[0].Name
	}
	return ""
}

func (AccessDenied) page() (string, bool) { return "access-denied", false }

// ScopeItem is a scope with a sentence that says what it shares. Detail is shown smaller.
type ScopeItem struct {
	Name, Sentence, Detail string
	Optional               bool // the person may leave it out
	Refused                bool // the person left it out before
}

// Application is the application that a person is signing in to.
type Application struct {
	Name string
	Logo string // hash of its picture, "" for none
	// Device reports whether another device waits for the sign-in, and Gone whether the request is too old
	// to go on.
	Device, Gone bool
	// SecondStep demands more than the password of people who have a factor.
	SecondStep bool
}

// Optional reports whether the person may leave a scope out.
func (p Consent) Optional() bool {
	all := slices.Clone(p.Scopes)
	for _, api := range p.APIs {
		all = append(all, api.Scopes...)
	}
	return slices.ContainsFunc(all, func(s ScopeItem) bool { return s.Optional })
}

// APIItem is a registered API with the scopes requested for it. Name and the sentences are in the
// operator's language.
type APIItem struct {
	Name, URI string
	Scopes    []ScopeItem
}

func (Consent) page() (string, bool) { return "consent", true }

// FormPost carries an authorization response to the application (OAuth 2.0 Form Post Response
// Mode). The script form-post.js submits it immediately to an http or https target; otherwise, and
// without scripts, the person presses the button.
type FormPost struct {
	// RedirectURI is the validated redirect URI of the client. Render fails for a scheme that the
	// browser runs itself.
	RedirectURI string
	// Parameters of the response, written in the order of their names.
	Parameters map[string]string
}

func (FormPost) page() (string, bool) { return "form-post", true }
