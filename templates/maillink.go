package templates

// ForgotPassword is the page that asks for a reset code by mail: POST {base}/forgot-password/ with handle.
type ForgotPassword struct {
	Handle           string
	Error, ErrorCode string
	// Sent shows that a mail is on its way, if there is such an account.
	Sent bool
	// MailOff reports whether the service sends no mail. Contact is whom to ask instead, "" if unset.
	MailOff bool
	Contact string
	// Continue is the sealed authorization request that the sign-in link passes on, "" for none.
	Continue string
}

func (ForgotPassword) page() (string, bool) { return "forgot-password", false }

func (p ForgotPassword) fault(field string) (string, bool) { return "", false }

// LinkPage is the page that a link in a mail opens. Opening it changes nothing; its button does:
// POST to {base}/Name/ with link.
type LinkPage struct {
	// Name is verify-email, cancel-email, undo-email, not-me or confirm-join.
	Name string
	// Link is the sealed value of the link.
	Link string
	// Handle of the account, "" if the visitor may not know it; Email may be masked.
	Handle, Email string
	// EndsOthers reports whether the address takes the place of another, which signs other devices out.
	EndsOthers bool
	// Done shows the result.
	Done bool
	// Used is what somebody else signed in with: password, passkey or recovery_code, "" if it is not known.
	Used string
	// Removed has the factors that were removed. Added has the factors and addresses that were added since the reported
	// sign-in and stay, or if the account is Passwordless, all that it has.
	Removed, Added []FactorRow
	// Recent has those of Added that the form with the new password may remove.
	Recent       RecentFactors
	Passwordless bool
	// Administers reports whether the account has the power of an administrator, which somebody else may have used.
	Administers bool
	// Closed reports whether the account has no way in left.
	Closed bool
	// Code sets a new password of the account with Handle, "" for none. MinPassword is its shortest
	// length in runes.
	Code        string
	MinPassword int
	// Error is shown instead of the button. Contact is whom to ask, "" if unset.
	Error, ErrorCode, Contact string
}

func (p LinkPage) page() (string, bool) { return p.Name, false }
