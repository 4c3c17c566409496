package templates

// Consent asks whether an application may know the person: POST {base}/oauth2/consent with continue, token and
// decision=allow or decision=deny.
type Consent struct {
	// ClientName and ClientID are of the application; its name is its own choice, so the page also shows RedirectHost,
	// the host or scheme to which the answer goes.
	ClientName, ClientID string
	// Handle is of the person who decides.
	Handle string
	Scopes []ScopeItem
	// NewOnly says that Scopes holds only what was not allowed before.
	NewOnly bool
	// Continue and Token go back in hidden fields: the authorization request, and the proof that the form was shown to
	// this session.
	Continue, Token string
	RedirectHost    string
}

// ScopeItem is one scope and the sentence that says what it gives away; Detail is what goes with it, shown smaller.
type ScopeItem struct{ Name, Sentence, Detail string }

func (Consent) page() string       { return "consent" }
func (Consent) leavesOrigin() bool { return true }

// FormPost carries an authorization response to the application (OAuth 2.0 Form Post Response Mode). The script form-post.js
// sends it at once to an http or https target; otherwise, and without scripts, the person presses the button.
type FormPost struct {
	// RedirectURI is the validated redirect URI of the client, of any scheme that is not run by the browser itself:
	// for such a one Render fails.
	RedirectURI string
	// Parameters of the response, written in the order of their names.
	Parameters map[string]string
}

func (FormPost) page() string       { return "form-post" }
func (FormPost) leavesOrigin() bool { return true }

// Logout asks for confirmation before a session ends: POST to Action with the hidden fields.
type Logout struct {
	// Handle of the session that would end.
	Handle string
	// Hidden fields hand the logout request on, written in the order of their names.
	Hidden map[string]string
	// Action is a local path; "" means {base}/logout/.
	Action string
	// SignedIn false shows that there is nothing to end, without a form.
	SignedIn bool
	// Problem says what is invalid in an application's request to sign out, "" for nothing: the person can sign out
	// here all the same.
	Problem string
	// BackURL and BackName are of the application that asks, as in SignedOut.
	BackURL, BackName string
}

func (Logout) page() string       { return "logout" }
func (Logout) leavesOrigin() bool { return true }

// Back is BackURL as the page links it, nil when there is none that may be linked.
func (p Logout) Back() any { return linked(p.BackURL) }

// SignedOut says that the session has ended.
type SignedOut struct {
	// BackURL is a registered post-logout redirect URI of the application BackName, "" for none; anything a browser
	// would run is left out.
	BackURL, BackName string
	// Deleted says that the account itself is gone.
	Deleted bool
}

func (SignedOut) page() string       { return "signed-out" }
func (SignedOut) leavesOrigin() bool { return false }

// Back is BackURL as the page links it, nil when there is none that may be linked.
func (p SignedOut) Back() any { return linked(p.BackURL) }

func linked(uri string) any {
	if target, err := redirectTarget(uri); err == nil {
		return target
	}
	return nil
}
