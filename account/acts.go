package account

import (
	"time"

	"github.com/cairn-id/cairn/templates"
)

// Proof is what a caller has to prove before an act.
type Proof int

// The proofs. The zero Proof is none: an act without one is refused.
const (
	// ProofSession is a live session, or nothing for an act without a session.
	ProofSession Proof = iota + 1
	// ProofSignIn is a password or passkey, and the second factor if the user has one.
	ProofSignIn
	// ProofCode is a code or link that was mailed, or given by an administrator or a member.
	ProofCode
	// ProofFresh is a recent proof of identity: see Caller.Fresh.
	ProofFresh
	// ProofAdministrator is ProofFresh of somebody who is an administrator.
	ProofAdministrator
	// ProofPassword is the current password, and ProofFresh too if the user has chosen a second step. Without
	// a password it is ProofFresh.
	ProofPassword
	// ProofOperator is the command line, or the service itself.
	ProofOperator
)

// Act is a row of the policy: what an operation on an account requires and causes. Each operation
// starts with Base.Begin, which reads it.
type Act struct {
	// Action is the action in the audit log; templates.AuditActions has its sentence.
	Action string
	Proof  Proof
	// Told is the kind of mail that is sent to the address that was verified before the act, "" for
	// none.
	Told string
	// Ends is what the act ends. The store does what it says, in the transaction of the act.
	Ends Ending
	// Question is what a page asks before the act, "" for nothing.
	Question templates.Text
	// Routes are the methods and paths of the act. Without any it is part of another act.
	Routes []string
	// Silent acts write no audit row.
	Silent bool
}

// Recently is how long ago a thief may have been at work before somebody who lost the password
// proves the account anew.
const Recently = 7 * 24 * time.Hour

// Endings that several acts have.
var (
	endsOne = Ending{Sessions: OneSession, Grants: OnlineGrants, Invites: StaleInvites,
		Addresses: SessionAddresses, Pending: SessionPending}
	// endsOthers ends the others with everything that they made, and an address that waits: a copy of the cookie
	// may have asked for it.
	endsOthers = Ending{Sessions: OtherSessions, Grants: SessionGrants, Invites: SessionInvites,
		Addresses: SessionAddresses, Pending: AllPending, Factors: NamedFactors, Codes: true}
	// endsDisowned ends what somebody who is not the owner may hold, and what they made.
	endsDisowned = endsRecent.disowning().voiding(RecentGiven)
	// endsAccess ends everything that somebody else may hold.
	endsAccess = Ending{Sessions: AllSessions, Grants: AllGrants, Invites: AllInvites, Addresses: AllAddresses,
		Pending: AllPending, Consents: true, Marks: true, Codes: true}
	// endsRecent is endsAccess, but leaves invites that were made before.
	endsRecent = Ending{Sessions: AllSessions, Grants: AllGrants, Invites: RecentInvites, Addresses: AllAddresses,
		Pending: AllPending, Consents: true, Marks: true, Codes: true}
	// EndsAtReturn is what EndAccount leaves of endsAccess but for consents, because a clock that is right again could
	// not give it back. It ends when somebody lets in again who had ended.
	EndsAtReturn = Ending{Invites: AllInvites, Addresses: AllAddresses, Pending: AllPending, Marks: true,
		Codes: true}
)

// Acts is the policy, in the order in which it is written: the endings come first. docs/threat-model.md shows it.
var Acts []Act

func act(a Act) Act {
	Acts = append(Acts, a)
	return a
}

// The acts.
var (
	SignIn = act(Act{Action: "session.create", Proof: ProofSignIn, Told: MailNewDevice,
		Routes: []string{"POST /api/auth/login", "POST /api/auth/passkey/begin", "POST /api/auth/passkey/finish",
			"POST /login/", "POST /login/second-factor/", "POST /api/auth/recover", "POST /recover/"}})
	SignInAgain     = act(Act{Action: "session.reauthenticate", Proof: ProofSignIn, Told: MailNewDevice})
	ConfirmIdentity = act(Act{Action: "session.confirm", Proof: ProofSignIn, Told: MailNewDevice,
		Routes: []string{"POST /api/auth/confirm", "POST /account/confirm"}})
	EndSession = act(Act{Action: "session.end", Proof: ProofFresh, Ends: endsOne,
		Routes: []string{"DELETE /api/me/sessions/{id}", "POST /account/sessions/end"}})
	SignOut = act(Act{Action: "session.sign_out", Proof: ProofSession,
		Ends:   Ending{Sessions: OneSession, Grants: OnlineGrants},
		Routes: []string{"POST /api/auth/logout", "POST /logout/"}})
	EndOtherSessions = act(Act{Action: "session.end_others", Proof: ProofFresh, Ends: endsOthers,
		Question: "Sign out everywhere else?",
		Routes:   []string{"POST /api/me/sessions/end-others", "POST /account/sessions/end-others"}})
	DisownSession = act(Act{Action: "session.not_me", Proof: ProofCode, Told: MailDisowned,
		Ends: endsDisowned.unverifying(), Routes: []string{"POST /not-me/"}})
	// BindDevice and RefuseDevice are the service's own: see person.Service.
	BindDevice      = act(Act{Action: "session.bind", Proof: ProofSignIn})
	RefuseDevice    = act(Act{Action: "session.copied", Proof: ProofSignIn, Told: MailNewDevice})
	RefuseSuspended = act(Act{Action: "session.refused", Proof: ProofSignIn})
	LimitSignIns    = act(Act{Action: "session.limited", Proof: ProofSignIn})
	Register        = act(Act{Action: "user.register", Proof: ProofCode,
		Routes: []string{"POST /api/register", "POST /register/", "POST /api/register/passkey/begin"}})
	AskToJoin = act(Act{Action: "join.mail", Proof: ProofSession, Silent: true,
		Routes: []string{"POST /api/join", "POST /join/"}})
	ConfirmJoin = act(Act{Action: "join.ask", Proof: ProofCode, Routes: []string{"POST /confirm-join/"}})
	AcceptJoin  = act(Act{Action: "join.accept", Proof: ProofAdministrator,
		Routes: []string{"POST /api/admin/join-requests/{id}/accept", "POST /admin/join-requests"}})
	RefuseJoin = act(Act{Action: "join.refuse", Proof: ProofAdministrator,
		Routes: []string{"POST /api/admin/join-requests/{id}/refuse", "POST /admin/join-requests"}})
	ChangeProfile = act(Act{Action: "profile.change", Proof: ProofSession,
		Routes: []string{"PATCH /api/me", "POST /account/profile", "PUT /api/me/prefs"}})
	SetPicture    = act(Act{Action: "profile.picture", Proof: ProofSession, Routes: []string{"POST /account/picture"}})
	RemovePicture = act(Act{Action: "profile.picture_remove", Proof: ProofSession,
		Routes: []string{"POST /account/picture/remove"}})
	// ChangeEmail counts at once. Where mail is on and the address is verified, RequestEmail makes the new one wait,
	// and ReplaceEmail is done by its link.
	ChangeEmail = act(Act{Action: "email.change", Proof: ProofFresh, Told: MailEmailChanged, Ends: endsOthers,
		Routes: []string{"PATCH /api/me", "POST /account/profile"}})
	RequestEmail = act(Act{Action: "email.request", Proof: ProofFresh, Told: MailEmailRequested,
		Ends: Ending{Factors: NamedFactors}, Routes: []string{"PATCH /api/me", "POST /account/profile"}})
	CancelEmail = act(Act{Action: "email.cancel", Proof: ProofFresh,
		Routes: []string{"DELETE /api/me/email/pending", "POST /account/cancel-email"}})
	RefuseEmail  = act(Act{Action: "email.refuse", Proof: ProofCode, Routes: []string{"POST /cancel-email/"}})
	ReplaceEmail = act(Act{Action: "email.replace", Proof: ProofCode, Told: MailEmailChanged, Ends: endsOthers,
		Routes: []string{"POST /api/me/email/verify", "POST /account/verify-email", "POST /verify-email/"}})
	AskVerification = act(Act{Action: "email.ask", Proof: ProofSession,
		Routes: []string{"POST /api/me/email/send-verification", "POST /account/send-verification"}})
	VerifyEmail = act(Act{Action: "email.verify", Proof: ProofCode,
		Routes: []string{"POST /api/me/email/verify", "POST /account/verify-email", "POST /verify-email/"}})
	UndoEmailChange = act(Act{Action: "email.undo", Proof: ProofCode, Told: MailEmailChanged, Ends: endsDisowned,
		Routes: []string{"POST /undo-email/"}})
	ChangePassword = act(Act{Action: "password.change", Proof: ProofPassword, Told: MailPasswordChanged,
		Ends: Ending{Sessions: OtherSessions, Grants: AllGrants, Invites: StaleInvites, Addresses: SessionAddresses,
			Pending: AllPending, Consents: true, Factors: NamedFactors,
			Marks: true, Codes: true}, Routes: []string{"PUT /api/me/password", "POST /account/password"}})
	RemovePassword = act(Act{Action: "password.remove", Proof: ProofFresh, Told: MailPasswordRemoved,
		Ends: endsOthers, Question: "Remove your password?",
		Routes: []string{"DELETE /api/me/password", "POST /account/password/remove"}})
	ForgetPassword = act(Act{Action: "password.forgot", Proof: ProofSession, Silent: true,
		Routes: []string{"POST /api/auth/forgot-password", "POST /forgot-password/"}})
	ResetPassword = act(Act{Action: "password.reset", Proof: ProofCode, Told: MailPasswordChanged,
		Ends: endsRecent.unverifying().naming(), Routes: []string{"POST /api/auth/reset-password",
			"POST /reset-password/", "POST /api/auth/reset-password/passkey/begin",
			"POST /api/auth/reset-password/factors"}})
	LimitResets = act(Act{Action: "password.limited", Proof: ProofCode})
	AddFactor   = act(Act{Action: "factor.add", Proof: ProofFresh, Told: MailFactorAdded, Ends: endsOthers,
		Routes: []string{"POST /api/me/totp", "POST /api/me/totp/confirm", "POST /account/security/totp",
			"POST /api/me/passkeys/begin", "POST /api/me/passkeys", "POST /account/passkeys"}})
	RemoveFactor = act(Act{Action: "factor.remove", Proof: ProofFresh, Told: MailFactorRemoved, Ends: endsOthers,
		Question: "Remove this way to sign in?", Routes: []string{"DELETE /api/me/totp",
			"POST /account/security/totp/remove", "DELETE /api/me/passkeys/{id}", "POST /account/passkeys/remove"}})
	AskSecondStep = act(Act{Action: "factor.second_step_on", Proof: ProofFresh, Told: MailFactorAdded,
		Ends: endsOthers, Routes: []string{"PUT /api/me/second-step", "POST /account/security/second-step"}})
	DropSecondStep = act(Act{Action: "factor.second_step_off", Proof: ProofFresh, Told: MailFactorRemoved,
		Question: "Remove the second step after your password?",
		Routes:   []string{"PUT /api/me/second-step", "POST /account/security/second-step/off"}})
	RenamePasskey = act(Act{Action: "factor.rename", Proof: ProofFresh,
		Routes: []string{"PATCH /api/me/passkeys/{id}", "POST /account/passkeys/rename"}})
	NoticeCounter      = act(Act{Action: "factor.counter", Proof: ProofSignIn, Told: MailFactorCounter})
	RenewRecoveryCodes = act(Act{Action: "factor.recovery_codes", Proof: ProofFresh, Told: MailFactorAdded,
		Routes: []string{"POST /api/me/recovery-codes", "POST /account/security/recovery-codes"}})
	UseRecoveryCode = act(Act{Action: "factor.recovery_code_used", Proof: ProofSignIn, Told: MailRecoveryCodeUsed})
	RefuseFactor    = act(Act{Action: "factor.refused", Proof: ProofSignIn})
	ExportAccount   = act(Act{Action: "account.export", Proof: ProofFresh, Told: MailExported,
		Routes: []string{"GET /api/me/export", "POST /api/me/export", "POST /account/export"}})
	DeleteAccount = act(Act{Action: "account.delete", Proof: ProofPassword, Told: MailDeleted,
		Ends: endsAccess.voiding(AllGiven), Routes: []string{"DELETE /api/me", "POST /account/delete"}})
	AllowApp = act(Act{Action: "app.allow", Proof: ProofSession, Routes: []string{"POST /oauth2/consent"}})
	// GiveLastingAccess needs no new proof while the application has such access.
	GiveLastingAccess = act(Act{Action: "app.lasting", Proof: ProofFresh, Told: MailLastingAccess})
	RemoveApp         = act(Act{Action: "app.remove", Proof: ProofSession,
		Question: "Remove the access of {app} to your account?",
		Routes:   []string{"DELETE /api/me/apps/{client_id}", "POST /account/apps/remove"}})
	CreateInvite = act(Act{Action: "invite.create", Proof: ProofSession,
		Routes: []string{"POST /api/invites", "POST /account/invites"}})
	// CreateWideInvite is CreateInvite for what only an administrator may make.
	CreateWideInvite = act(Act{Action: "invite.create_wide", Proof: ProofFresh, Told: MailWideInvite,
		Routes: []string{"POST /api/invites", "POST /account/invites"}})
	MailInviteLink = act(Act{Action: "invite.mail", Proof: ProofCode, Silent: true,
		Routes: []string{"POST /api/register/address", "POST /register/address"}})
	DeleteInvite = act(Act{Action: "invite.delete", Proof: ProofSession,
		Routes: []string{"DELETE /api/invites/{code}", "POST /account/invites/delete"}})
	AddUser = act(Act{Action: "user.create", Proof: ProofAdministrator,
		Routes: []string{"POST /api/admin/users", "POST /admin/users/"}})
	AmendUser = act(Act{Action: "user.amend", Proof: ProofAdministrator, Told: MailEmailChanged,
		Routes: []string{"PATCH /api/admin/users/{handle}", "POST /admin/users/{handle}/profile"}})
	SetFlags = act(Act{Action: "user.flags", Proof: ProofAdministrator, Told: MailFlagsChanged,
		Ends: Ending{Sessions: AllSessions, Grants: GroupGrants},
		Routes: []string{"PUT /api/admin/users/{handle}/flags", "POST /admin/users/{handle}/flags",
			"POST /admin/users/selected"}})
	Suspend = act(Act{Action: "user.suspend", Proof: ProofAdministrator, Told: MailSuspended,
		Ends: endsAccess.voiding(AllGiven), Question: "Suspend @{handle} and end all sessions?",
		Routes: []string{"POST /api/admin/users/{handle}/suspend", "POST /admin/users/{handle}/suspend",
			"POST /admin/users/selected"}})
	Unsuspend = act(Act{Action: "user.unsuspend", Proof: ProofAdministrator, Told: MailUnsuspended,
		Routes: []string{"POST /api/admin/users/{handle}/unsuspend", "POST /admin/users/{handle}/unsuspend"}})
	SetEnd = act(Act{Action: "user.end", Proof: ProofAdministrator, Told: MailEndChanged,
		Routes: []string{"PUT /api/admin/users/{handle}/end", "POST /admin/users/{handle}/end",
			"POST /admin/users/selected"}})
	// EndAccount and EndFlags happen by themselves: see EndStore.
	EndAccount = act(Act{Action: "user.ended", Proof: ProofOperator,
		Ends: Ending{Sessions: AllSessions, Grants: AllGrants}})
	EndFlags   = act(Act{Action: "user.flags_ended", Proof: ProofOperator, Ends: SetFlags.Ends})
	UnlockUser = act(Act{Action: "user.unlock", Proof: ProofAdministrator,
		Routes: []string{"POST /api/admin/users/{handle}/unlock", "POST /admin/users/{handle}/unlock"}})
	// InviteUser mails the link to choose a password again.
	InviteUser = act(Act{Action: "user.invite", Proof: ProofAdministrator,
		Routes: []string{"POST /admin/users/selected"}})
	IssueResetCode = act(Act{Action: "user.reset_code", Proof: ProofAdministrator, Told: MailResetCodeMade,
		Routes: []string{"POST /api/admin/users/{handle}/reset-password-code",
			"POST /admin/users/{handle}/reset-password-code"}})
	ResetFactors = act(Act{Action: "user.reset_factors", Proof: ProofAdministrator, Told: MailFactorsReset,
		Ends: Ending{Sessions: AllSessions, Grants: AllGrants, Invites: StaleInvites, Pending: AllPending,
			Consents: true, Unverify: true, Marks: true, Codes: true},
		Question: "Remove all second factors of @{handle}?",
		Routes: []string{"POST /api/admin/users/{handle}/reset-factors",
			"POST /admin/users/{handle}/reset-factors"}})
	EndUserSession = act(Act{Action: "user.end_session", Proof: ProofAdministrator, Told: MailSessionsEnded,
		Ends: endsOne, Routes: []string{"DELETE /api/admin/users/{handle}/sessions/{id}",
			"POST /admin/users/{handle}/end-session"}})
	EndUserSessions = act(Act{Action: "user.end_sessions", Proof: ProofAdministrator, Told: MailSessionsEnded,
		Ends: endsRecent.unverifying().naming(), Routes: []string{"POST /api/admin/users/{handle}/sessions/end-all",
			"POST /admin/users/{handle}/end-sessions"}})
	DeleteUser = act(Act{Action: "user.delete", Proof: ProofAdministrator, Told: MailDeleted,
		Ends:   endsAccess.voiding(AllGiven),
		Routes: []string{"DELETE /api/admin/users/{handle}", "POST /admin/users/{handle}/delete"}})
	RevokeInvite = act(Act{Action: "invite.revoke", Proof: ProofAdministrator,
		Routes: []string{"DELETE /api/admin/invites/{code}", "POST /admin/invites/revoke"}})
	RevokeBranch = act(Act{Action: "invite.revoke_branch", Proof: ProofAdministrator,
		Routes: []string{"POST /api/admin/invites/revoke", "POST /admin/invites/revoke"}})
	UpdateSettings = act(Act{Action: "settings.update", Proof: ProofAdministrator,
		Routes: []string{"PUT /api/admin/settings", "POST /admin/settings/general", "POST /admin/settings/flags",
			"POST /admin/settings/security", "POST /admin/settings/joining", "POST /admin/settings/advanced"}})
	CloseNextSteps = act(Act{Action: "settings.steps", Proof: ProofAdministrator,
		Routes: []string{"POST /admin/steps"}})
	TestMail = act(Act{Action: "mail.test", Proof: ProofAdministrator, Routes: []string{"POST /admin/test-mail"}})
	SetLogo  = act(Act{Action: "settings.logo", Proof: ProofAdministrator,
		Routes: []string{"POST /admin/settings/logo", "POST /admin/settings/remove-logo",
			"POST /admin/settings/dark-logo", "POST /admin/settings/remove-dark-logo"}})
	ImportUsers = act(Act{Action: "user.import", Proof: ProofAdministrator,
		Routes: []string{"POST /admin/users/paste"}})
	ExportUsers     = act(Act{Action: "user.export", Proof: ProofSession})
	ExportAudit     = act(Act{Action: "audit.export", Proof: ProofSession})
	SealKeys        = act(Act{Action: "keys.seal", Proof: ProofOperator})
	RetireSecret    = act(Act{Action: "keys.migrate", Proof: ProofOperator})
	Restore         = act(Act{Action: "installation.restore", Proof: ProofOperator})
	AllowClients    = act(Act{Action: "client.allow", Proof: ProofOperator})
	DisallowClients = act(Act{Action: "client.disallow", Proof: ProofOperator})
	RegisterClient  = act(Act{Action: "client.create", Proof: ProofOperator})
	UpdateClient    = act(Act{Action: "client.update", Proof: ProofOperator})
	RenewClient     = act(Act{Action: "client.rotate_secret", Proof: ProofOperator})
	RemoveClient    = act(Act{Action: "client.remove", Proof: ProofOperator})
	RegisterAPI     = act(Act{Action: "api.create", Proof: ProofOperator})
	UpdateAPI       = act(Act{Action: "api.update", Proof: ProofOperator})
	RenewAPI        = act(Act{Action: "api.rotate_secret", Proof: ProofOperator})
	RemoveAPI       = act(Act{Action: "api.remove", Proof: ProofOperator})
	GiveUpMail      = act(Act{Action: "mail.failed", Proof: ProofOperator})
)
