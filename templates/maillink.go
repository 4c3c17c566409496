package templates

// ForgotPassword is the page that asks for a reset code by mail: POST {base}/forgot-password/ with handle.
type ForgotPassword struct {
	Handle           string
	Error, ErrorCode string
	// Sent shows that a mail is on its way, if there is such an account.
	Sent bool
	// MailOff says that no mail is sent; Contact is whom to ask, "" where the administrators have said nothing.
	MailOff bool
	Contact string
	// Continue is the sealed authorization request the sign-in link hands on, "" for none.
	Continue string
}

func (ForgotPassword) page() (string, bool) { return "forgot-password", false }

func (p ForgotPassword) fault(field string) (string, bool) { return "", false }

// LinkPage is the page behind a link of a mail. What the mail is about is done by its button alone: POST to {base}/Name/
// with link.
type LinkPage struct {
	// Name is verify-email, undo-email or not-me.
	Name string
	// Link is the sealed value of the link.
	Link string
	// Handle of the account, "" where the visitor may not know it, and the address it is about, perhaps masked.
	Handle, Email string
	// Done shows that it has been done.
	Done bool
	// Added are the factors and addresses that were added since the sign-in that was reported.
	Added []FactorRow
	// Error is shown instead of the button.
	Error, ErrorCode string
}

func (p LinkPage) page() (string, bool) { return p.Name, false }
