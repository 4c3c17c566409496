package templates

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
	Problem Text
	// BackURL and BackName are of the application that asks, as in SignedOut.
	BackURL, BackName string
}

func (Logout) page() (string, bool) { return "logout", true }

// SignedOut says that the session has ended.
type SignedOut struct {
	// BackURL is a registered post-logout redirect URI of the application BackName, "" for none; anything a browser
	// would run is left out.
	BackURL, BackName string
	// Deleted says that the account was deleted.
	Deleted bool
}

func (SignedOut) page() (string, bool) { return "signed-out", false }
