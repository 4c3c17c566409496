package account

import (
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// Errors by meaning, to be compared with errors.Is. Each is also the response to the client, and
// none contains what the client sent.
var (
	ErrNotAuthenticated = web.NewProblem(401, "not_authenticated",
		"You are not signed in. Sign in and try again.").Interrupting()
	ErrAdminRequired      = web.NewProblem(403, "admin_required", "Only administrators can do this.").Interrupting()
	ErrInvalidCredentials = web.NewProblem(401, "invalid_credentials", "The user name or password is incorrect.")
	ErrWrongPassword      = ErrInvalidCredentials.With("The password is incorrect.") // for forms without a handle
	ErrSuspended          = web.NewProblem(403, "account_suspended",
		"This account is suspended. Ask an administrator of your club.")
	// ErrEnded is ErrSuspended for an account that has ended automatically.
	ErrEnded = ErrSuspended.With("This account has expired. Ask an administrator of your club.")

	// ErrSecondFactorRequired means that the password was right and a second factor is required.
	ErrSecondFactorRequired = web.NewProblem(401, "second_factor_required",
		"This account has a second factor. Enter the code from your authenticator app, or use a passkey or a "+
			"recovery code.")
	// ErrSecondFactorSetupRequired is returned by person.Service.CheckSecondFactor.
	ErrSecondFactorSetupRequired = web.NewProblem(403, "second_factor_setup_required",
		"Your account needs a second factor. Set it up on the security page of your account.")
	// ErrReauthenticationRequired means that ProofFresh is missing.
	ErrReauthenticationRequired = web.NewProblem(403, "reauthentication_required",
		"Confirm it’s you, then try again.").Interrupting()
	// ErrFactorDemanded means that the factor must not be removed: see OldFactor.
	ErrFactorDemanded = web.NewProblem(409, "second_factor_demanded",
		"Your account, or an application that you use, needs this second factor. Add another one first, or remove "+
			"the access of the application.")
	// ErrStepOfApp means that the second step stays on while there is an authenticator app.
	ErrStepOfApp = web.NewProblem(409, "second_step_of_app",
		"While you have an authenticator app, its code is asked for after your password. To stop that, remove the app.")
	// ErrNoStep means that there is nothing to choose: no factor, or no password that it would follow.
	ErrNoStep = web.NewProblem(409, "no_second_step",
		"A second step follows a password. Set up a passkey or an authenticator app first, or set a password.")

	// ErrLastWayIn means that nobody could sign in to the account any more.
	ErrLastWayIn = web.NewProblem(409, "last_way_in",
		"Keep this, or you could no longer sign in. Without a password, you need a passkey that works here, and "+
			"recovery codes.")

	// ErrInvalidOTP means that the code is wrong, used or expired.
	ErrInvalidOTP = web.ForField(401, "invalid_otp", "/otp",
		"This code is incorrect or was already used. Wait for the next one and try again.")
	// ErrSignInExpired means that the password was entered too long ago, or in another browser.
	ErrSignInExpired = web.NewProblem(401, "sign_in_expired",
		"It has been too long since you entered your password. Sign in again.")
	ErrFactorExists = web.NewProblem(409, "factor_exists",
		"You already have an authenticator app. Remove it to set up a different one.")
	ErrFactorNotFound = web.NewProblem(404, "factor_not_found", "This second factor does not exist.")
	// ErrFactorsNamed means that Audit.Remove names something else than young factors of other sessions, or the last
	// way in of the person who asks.
	ErrFactorsNamed = web.BadRequest("You can only remove what another session added in the last three days, and "+
		"never your last way to sign in. Nothing was changed.",
		web.FieldError{Pointer: "/remove_factors", Detail: "cannot be removed here"})
	// ErrEnrolmentExpired means that the secret was not made for this session, or too long ago.
	ErrEnrolmentExpired = web.ForField(400, "enrolment_expired", "/token",
		"This key is no longer valid. Start again with a new one.")

	ErrUserNotFound    = web.NewProblem(404, "user_not_found", "Nobody has this user name.")
	ErrSessionNotFound = web.NewProblem(404, "session_not_found", "This session does not exist.")
	ErrInviteNotFound  = web.NewProblem(404, "invite_not_found", "This invite does not exist.")
	ErrAppNotFound     = web.NewProblem(404, "app_not_found", "This application has no access to your account.")

	ErrInvalidHandle = web.ForField(400, "invalid_handle", "/handle",
		"Use 1 to 30 letters a-z, digits, dots, - or _ for the user name. Start and end with a letter or digit, and "+
			"do not put a dot next to another dot, - or _. A few names are reserved.")
	errInvalidDisplayName = web.ForField(400, "invalid_display_name", "/display_name",
		"Use 1 to 60 characters for the display name, without control characters.")
	ErrInvalidEmail = web.ForField(400, "invalid_email", "/email", "Enter an email address, such as ada@example.org.")
	ErrEmailTaken   = web.ForField(409, "email_taken", "/email",
		"Another account has already verified this email address.")
	ErrWeakPassword  = password.ErrWeak
	ErrInvalidText   = web.NewProblem(400, "invalid_text", "The text is too long or contains control characters.")
	ErrInvalidInvite = web.NewProblem(400, "invalid_invite",
		"This invite is unknown, used or expired. Ask the person who invited you for a new one.")
	// errAddressNotProven means that the invite is for certain addresses, and the link does not prove one.
	errAddressNotProven = web.ForField(400, "address_not_proven", "/email",
		"This invite is for certain addresses. Request the link on the page of the invite, then join with the link "+
			"in the email.")
	ErrInvalidResetCode = web.NewProblem(400, "invalid_reset_code",
		"The user name and the code do not match, or the code was used or has expired. Ask an administrator for a "+
			"new code.")
	ErrInvalidLink = web.NewProblem(400, "invalid_link",
		"This link no longer works. It is too old, was already used, or the address has changed since. If you need "+
			"help, ask an administrator.")
	ErrInvalidEmailCode = web.ForField(400, "invalid_email_code", "/code",
		"This is not the code from the latest email, or it is more than a day old.")
	ErrNoEmailToVerify = web.NewProblem(409, "no_email_to_verify", "You have no email address to verify.")
	ErrMailOff         = web.NewProblem(409, "mail_off",
		"This service does not send email. Ask an administrator of your club.")
	ErrInvalidPreference = web.NewProblem(400, "invalid_preference",
		"Preferences can have at most 100 keys of at most 64 bytes, and strings of at most 4,096 bytes.")
	ErrInvalidSettings = web.NewProblem(400, "invalid_settings", "These settings are invalid.")
	ErrUnknownFlag     = web.NewProblem(400, "unknown_flag",
		"This permission does not exist. An administrator can add it in the settings.")

	ErrPasskeysUnavailable = web.NewProblem(404, "passkeys_unavailable", "Passkeys are not available here.")
	ErrPasskeyNotFound     = web.NewProblem(404, "passkey_not_found", "This passkey does not exist.")
	ErrPasskeyExpired      = web.NewProblem(400, "passkey_expired",
		"This took too long or was already used. Try again.")
	ErrInvalidPasskey = web.NewProblem(401, "invalid_passkey",
		"This passkey was not accepted. Try again, or sign in another way.")
	ErrInvalidPasskeyName = web.ForField(400, "invalid_passkey_name", "/name",
		"Use 1 to 60 characters for the name, without control characters.")
	ErrPasskeyExists = web.NewProblem(409, "passkey_exists", "This passkey is already added.")
	ErrPasskeyLimit  = web.NewProblem(409, "passkey_limit_reached",
		"You have 20 passkeys. Remove one that you no longer use.")

	ErrHandleTaken  = web.NewProblem(409, "handle_taken", "This user name is taken. Choose another one.")
	ErrJoinNotFound = web.NewProblem(404, "join_request_not_found", "This request does not exist. Someone may "+
		"have decided already.")
	ErrJoinFull = web.NewProblem(409, "join_full", "Too many requests are waiting. Try this link again in a "+
		"few hours.")
	ErrRegistrationFull = web.NewProblem(403, "registration_full",
		"No more members can join at the moment.")
	ErrInviteLimit = web.NewProblem(403, "invite_limit_reached", "You have no invites left.")
	ErrInviteUsed  = web.NewProblem(409, "invite_used", "This invite has been used and cannot be removed.")
	ErrLastAdmin   = web.NewProblem(409, "last_admin",
		"This is the last active administrator without an expiry date. Make someone else an administrator first.")
	ErrInvalidEnd = web.NewProblem(400, "invalid_end", "Enter the last day as a date, such as 2030-12-24.")
	ErrEndPast    = web.NewProblem(400, "end_past", "This date is in the past. To close an account now, suspend it.")
	ErrOwnAccount = web.NewProblem(409, "own_account",
		"You cannot do this to your own account here. Use your account pages instead.")
	ErrNotInitialized = web.NewProblem(503, "not_initialized", "This service is not set up yet.")

	// A Store wraps its failures with ErrUnavailable. It returns ErrInvalidCursor for a cursor that
	// is not a place in the list.
	ErrUnavailable   = web.ErrUnavailable
	ErrInvalidCursor = web.ErrInvalidCursor
)
