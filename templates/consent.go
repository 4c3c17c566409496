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

// ScopeItem is one scope and the sentence that says what it gives away.
type ScopeItem struct{ Name, Sentence string }

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
	// SignedIn false shows that there is nothing to end; the form stays only to hand Hidden on.
	SignedIn bool
}

func (Logout) page() string       { return "logout" }
func (Logout) leavesOrigin() bool { return true }

// SignedOut says that the session has ended.
type SignedOut struct {
	// BackURL is a local path or a registered post-logout redirect URI, "" for none; anything a browser would run is
	// left out. BackName says where it leads.
	BackURL, BackName string
}

func (SignedOut) page() string       { return "signed-out" }
func (SignedOut) leavesOrigin() bool { return false }

// Back is BackURL as the page links it, nil when there is none that may be linked.
func (p SignedOut) Back() any {
	if isLocal(p.BackURL) {
		return p.BackURL
	}
	if target, err := redirectTarget(p.BackURL); err == nil {
		return target
	}
	return nil
}
