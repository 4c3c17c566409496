package account

import (
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
)

// Errors by meaning, to be compared with errors.Is. Each is also the response to the client, and
// none contains what the client sent.
var (
	ErrNotAuthenticated   = web.NewProblem(401, "not_authenticated", "You are not signed in. Sign in and try again.")
	ErrAdminRequired      = web.NewProblem(403, "admin_required", "Only an administrator can do this.")
	ErrInvalidCredentials = web.NewProblem(401, "invalid_credentials", "The handle or the password is not right.")
	ErrWrongPassword      = ErrInvalidCredentials.With("The password is not right.") // for forms without a handle
	ErrSuspended          = web.NewProblem(403, "account_suspended",
		"This account is suspended. Ask an administrator of your community.")
	// ErrEnded is ErrSuspended for an account that has ended by itself.
	ErrEnded = ErrSuspended.With("This account has ended. Ask an administrator of your community.")

	// ErrPasswordDisowned comes only after the right password, which somebody else knows: see NotMeLinked.
	ErrPasswordDisowned = web.NewProblem(403, "password_disowned",
		"This password was reported as known to somebody else, and opens nothing any more. Set a new one with "+
			"“Forgot your password?”, or ask an administrator of your community.")

	// ErrSecondFactorRequired means that the password was right and a second factor is required.
	ErrSecondFactorRequired = web.NewProblem(401, "second_factor_required",
		"This account has a second factor. Enter the code of your authenticator app, use a passkey or a recovery code.")
	// ErrSecondFactorSetupRequired is returned by Service.CheckSecondFactor.
	ErrSecondFactorSetupRequired = web.NewProblem(403, "second_factor_setup_required",
		"Your account needs a second factor. Set one up on the security page of your account.")
	// ErrReauthenticationRequired means that ProofFresh is missing.
	ErrReauthenticationRequired = web.NewProblem(403, "reauthentication_required",
		"Confirm it’s you, then try again.").Interrupting()
	// ErrFactorDemanded means that the factor must not be removed: see OldFactor.
	ErrFactorDemanded = web.NewProblem(409, "second_factor_demanded",
		"Your account needs this second factor, or an application that you use asks for it. Add another one first, "+
			"or remove the access of the application.")

	// ErrLastWayIn means that nobody could sign in to the account any more.
	ErrLastWayIn = web.NewProblem(409, "last_way_in",
		"Without this you could not sign in any more. An account without a password needs a passkey that works here, "+
			"and recovery codes.")
	// ErrInvalidRecovery is the refusal of Service.Recover, whatever is wrong.
	ErrInvalidRecovery = web.ForField(401, "invalid_recovery_code", "/code",
		"The handle and the code do not go together, the code was already used, or the account has a password.")

	// ErrInvalidOTP means that the code is wrong, used or expired.
	ErrInvalidOTP = web.ForField(401, "invalid_otp", "/otp",
		"This code is not right, or it was already used. Wait for the next one and try again.")
	// ErrSignInExpired means that the password was entered too long ago, or in another browser.
	ErrSignInExpired = web.NewProblem(401, "sign_in_expired",
		"You entered your password too long ago. Sign in again.")
	ErrFactorExists = web.NewProblem(409, "factor_exists",
		"You already have an authenticator app. Remove it to set up another one.")
	ErrFactorNotFound = web.NewProblem(404, "factor_not_found", "There is no such second factor.")
	// ErrEnrolmentExpired means that the secret was not made for this session, or too long ago.
	ErrEnrolmentExpired = web.ForField(400, "enrolment_expired", "/token",
		"This secret is no longer valid. Start again with a new one.")

	ErrUserNotFound    = web.NewProblem(404, "user_not_found", "There is no user with this handle.")
	ErrSessionNotFound = web.NewProblem(404, "session_not_found", "There is no such session.")
	ErrInviteNotFound  = web.NewProblem(404, "invite_not_found", "There is no such invite.")
	ErrAppNotFound     = web.NewProblem(404, "app_not_found", "This application has no access to your account.")

	ErrInvalidHandle = web.ForField(400, "invalid_handle", "/handle",
		"A handle has 1 to 30 letters a-z, digits, dots, - or _, begins and ends with a letter or digit, and has one "+
			"on each side of a dot. A few names are reserved.")
	ErrInvalidDisplayName = web.ForField(400, "invalid_display_name", "/display_name",
		"A display name has 1 to 60 characters and no control characters.")
	ErrInvalidEmail = web.ForField(400, "invalid_email", "/email", "This is not an email address.")
	ErrEmailTaken   = web.ForField(409, "email_taken", "/email",
		"Another account has verified this email address.")
	ErrWeakPassword  = password.ErrWeak
	ErrInvalidText   = web.NewProblem(400, "invalid_text", "The text is too long or has control characters.")
	ErrInvalidInvite = web.NewProblem(400, "invalid_invite",
		"This invite is unknown, used or expired. Ask the person who invited you for a new one.")
	// ErrAddressNotProven means that the invite is for certain addresses, and the link does not prove one.
	ErrAddressNotProven = web.ForField(400, "address_not_proven", "/email",
		"This invite is for certain addresses. Ask for the link on the page of the invite, and join by the link in the mail.")
	ErrInvalidResetCode = web.NewProblem(400, "invalid_reset_code",
		"The handle and the code do not go together, or the code is used or expired. Ask an administrator for a new "+
			"one.")
	ErrInvalidLink = web.NewProblem(400, "invalid_link",
		"This link can no longer be used: it is too old, was used, or the address has changed since.")
	ErrInvalidEmailCode = web.ForField(400, "invalid_email_code", "/code",
		"This is not the code of the latest mail, or it is older than a day.")
	ErrNoEmailToVerify = web.NewProblem(409, "no_email_to_verify", "There is no email address to verify.")
	ErrMailOff         = web.NewProblem(409, "mail_off",
		"This service sends no mail. Ask an administrator of your community.")
	ErrInvalidPreference = web.NewProblem(400, "invalid_preference",
		"Preferences are at most 100 keys of at most 64 bytes with strings of at most 4,096 bytes.")
	ErrInvalidSettings = web.NewProblem(400, "invalid_settings", "These settings are not valid.")
	ErrUnknownFlag     = web.NewProblem(400, "unknown_flag",
		"There is no such access flag. An administrator can add flags in the settings.")

	ErrPasskeysUnavailable = web.NewProblem(404, "passkeys_unavailable", "There are no passkeys here.")
	ErrPasskeyNotFound     = web.NewProblem(404, "passkey_not_found", "There is no such passkey.")
	ErrPasskeyExpired      = web.NewProblem(400, "passkey_expired",
		"This took too long, or was already used. Try again.")
	ErrInvalidPasskey = web.NewProblem(401, "invalid_passkey",
		"This passkey was not accepted. Try again, or use another way to sign in.")
	ErrInvalidPasskeyName = web.ForField(400, "invalid_passkey_name", "/name",
		"A name has 1 to 60 characters and no control characters.")
	ErrPasskeyExists = web.NewProblem(409, "passkey_exists", "This passkey has already been added.")
	ErrPasskeyLimit  = web.NewProblem(409, "passkey_limit_reached",
		"You have 20 passkeys. Remove one that you no longer use.")

	ErrHandleTaken      = web.NewProblem(409, "handle_taken", "This handle is taken. Choose another one.")
	ErrJoinNotFound     = web.NewProblem(404, "join_request_not_found", "There is no such request. It may have been decided already.")
	ErrJoinFull         = web.NewProblem(409, "join_full", "Too many requests are waiting for a decision. Try this link again in a few hours.")
	ErrRegistrationFull = web.NewProblem(403, "registration_full",
		"No further members can register here at this time.")
	ErrInviteLimit = web.NewProblem(403, "invite_limit_reached", "You have no invites left.")
	ErrInviteUsed  = web.NewProblem(409, "invite_used", "This invite has been used and cannot be removed.")
	ErrLastAdmin   = web.NewProblem(409, "last_admin",
		"This is the last active administrator without an end. Make somebody else an administrator first.")
	ErrInvalidEnd = web.NewProblem(400, "invalid_end", "An end is a date, as 2030-12-24: the last day.")
	ErrEndPast    = web.NewProblem(400, "end_past", "This end is in the past. To end an account now, suspend it.")
	ErrOwnAccount = web.NewProblem(409, "own_account",
		"You cannot do this to your own account here. Use the pages of your account.")
	ErrNotInitialized = web.NewProblem(503, "not_initialized", "This installation is not set up yet.")

	// A Store wraps its failures with ErrUnavailable. It returns ErrInvalidCursor for a cursor that
	// is not a place in the list.
	ErrUnavailable   = web.ErrUnavailable
	ErrInvalidCursor = web.ErrInvalidCursor
)
