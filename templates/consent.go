package templates

import (
	"slices"
	"time"
)

// Consent asks whether an application may know the person: POST {base}/oauth2/consent with continue, token and
// decision=allow or decision=deny, and scope for each optional one that is given.
type Consent struct {
	// ClientName and ClientID are of the application; its name is its own choice, so the page also shows RedirectHost,
	// the host or scheme to which the answer goes.
	ClientName, ClientID string
	// Logo is the hash of the application's logo, "" for none.
	Logo string
	// Handle is of the person who decides.
	Handle string
	Scopes []ScopeItem
	// APIs are those that it may use in the person's name.
	APIs []APIItem
	// NewOnly says that Scopes holds only what was not allowed before.
	NewOnly bool
	// Continue and Token go back in hidden fields: the authorization request, and the proof that the form was shown to
	// this session.
	Continue, Token string
	RedirectHost    string
	// DocumentHost is the host of an application that nobody here has registered: it brings its own description.
	DocumentHost string
	// StaysHere says that the answer of such an application goes to a program on the person's device.
	StaysHere bool
	// Device is where and when a device asked; nil for an application that the answer is sent to.
	Device *DeviceFacts
}

// DeviceFacts are what helps people to tell their own device from that of somebody who has sent them a code.
type DeviceFacts struct {
	Address   string
	StartedAt time.Time
}

// Device asks for the code that a device shows: POST {base}/device with user_code. Allowed and Denied are how it ended.
type Device struct {
	Code             string // canonical, or ""
	Error, ErrorCode string
	ClientName       string
	Allowed, Denied  bool
}

func (Device) page() (string, bool) { return "device", false }

func (d Device) fault(field string) (string, bool) {
	return d.Error, d.Error != "" && field == "user_code"
}

// ScopeItem is one scope and the sentence that says what it gives away; Detail is what goes with it, shown smaller.
type ScopeItem struct {
	Name, Sentence, Detail string
	Optional               bool // the person may leave it out
	Refused                bool // and did so before
}

// Application is what pages show of the application that a person is on the way to.
type Application struct {
	Name string
	Logo string // hash of its picture, "" for none
}

// Optional reports whether the person may leave something out.
func (p Consent) Optional() bool {
	return slices.ContainsFunc(p.Scopes, func(s ScopeItem) bool { return s.Optional })
}

// APIItem is an API of the operator's, with what is asked for of it; Name and the sentences are in the operator's language.
type APIItem struct {
	Name, URI string
	Scopes    []ScopeItem
}

func (Consent) page() (string, bool) { return "consent", true }

// FormPost carries an authorization response to the application (OAuth 2.0 Form Post Response Mode). The script form-post.js
// sends it at once to an http or https target; otherwise, and without scripts, the person presses the button.
type FormPost struct {
	// RedirectURI is the validated redirect URI of the client, of any scheme that is not run by the browser itself:
	// for such a one Render fails.
	RedirectURI string
	// Parameters of the response, written in the order of their names.
	Parameters map[string]string
}

func (FormPost) page() (string, bool) { return "form-post", true }
