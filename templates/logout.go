package templates

// Logout asks for confirmation before a session ends: POST to Action with the hidden fields.
type Logout struct {
	// Handle of the session that would end.
	Handle string
	// Hidden has the fields of the logout request, written in the order of their names.
	Hidden map[string]string
	// Action is a local path; "" means {base}/logout/.
	Action string
	// SignedIn reports whether there is a session to end. Without one the page has no form.
	SignedIn bool
	// Problem says what is invalid in an application's logout request, "" for nothing. The person
	// can sign out here anyway.
	Problem Text
	// BackURL and BackName belong to the requesting application, as in SignedOut.
	BackURL, BackName string
}

func (Logout) page() (string, bool) { return "logout", true }

// GoBack is the last page of a sign-in that cannot lead back to the application automatically.
type GoBack struct {
	ClientName string
	// URL is an address of the application. Answered reports whether it contains the answer to its
	// request, which only its program on this device can open; else the person starts anew there.
	URL      string
	Answered bool
}

func (GoBack) page() (string, bool) { return "go-back", false }

// SignedOut says that the session has ended.
type SignedOut struct {
	// BackURL is a registered post-logout redirect URI of the application BackName, "" for none. A
	// URI that the browser would run is not linked.
	BackURL, BackName string
	// Deleted reports whether the account was deleted.
	Deleted bool
}

func (SignedOut) page() (string, bool) { return "signed-out", false }
