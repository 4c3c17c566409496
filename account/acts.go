package account

import (
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

// The acts.
var (
	SignIn = Act{Action: "session.create", Proof: ProofSignIn, Told: MailNewDevice, Routes: []string{
		"POST /api/auth/login", "POST /api/auth/passkey/begin", "POST /api/auth/passkey/finish", "POST /login/",
		"POST /login/second-factor/", "POST /api/auth/recover", "POST /recover/",
	}}
	SignInAgain     = Act{Action: "session.reauthenticate", Proof: ProofSignIn, Told: MailNewDevice}
	ConfirmIdentity = Act{Action: "session.confirm", Proof: ProofSignIn, Told: MailNewDevice, Routes: []string{
		"POST /api/auth/confirm", "POST /account/confirm",
	}}
	EndSession = Act{Action: "session.end", Proof: ProofFresh, Ends: endsOne, Routes: []string{
		"DELETE /api/me/sessions/{id}", "POST /account/sessions/end",
	}}
	SignOut = Act{Action: "session.sign_out", Proof: ProofSession, Ends: Ending{
		Sessions: OneSession, Grants: OnlineGrants,
	}, Routes: []string{
		"POST /api/auth/logout", "POST /logout/",
	}}
	EndOtherSessions = Act{Action: "session.end_others", Proof: ProofFresh, Ends: endsOthers,
		Question: "Sign out everywhere else?", Routes: []string{
			"POST /api/me/sessions/end-others", "POST /account/sessions/end-others",
		}}
	DisownSession = Act{Action: "session.not_me", Proof: ProofCode, Told: MailDisowned,
		Ends: endsDisowned.unverifying(), Routes: []string{"POST /not-me/"}}
	// BindDevice and RefuseDevice are the service's own: see Service.RegisterDevice and Identify.
	BindDevice      = Act{Action: "session.bind", Proof: ProofSignIn}
	RefuseDevice    = Act{Action: "session.copied", Proof: ProofSignIn, Told: MailNewDevice}
	RefuseSuspended = Act{Action: "session.refused", Proof: ProofSignIn}
	LimitSignIns    = Act{Action: "session.limited", Proof: ProofSignIn}
	Register        = Act{Action: "user.register", Proof: ProofCode, Routes: []string{
		"POST /api/register", "POST /register/", "POST /api/register/passkey/begin",
	}}
	AskToJoin = Act{Action: "join.mail", Proof: ProofSession, Silent: true, Routes: []string{
		"POST /api/join", "POST /join/",
	}}
	ConfirmJoin = Act{Action: "join.ask", Proof: ProofCode, Routes: []string{
		"POST /confirm-join/",
	}}
	AcceptJoin = Act{Action: "join.accept", Proof: ProofAdministrator, Routes: []string{
		"POST /api/admin/join-requests/{id}/accept", "POST /admin/join-requests",
	}}
	RefuseJoin = Act{Action: "join.refuse", Proof: ProofAdministrator, Routes: []string{
		"POST /api/admin/join-requests/{id}/refuse", "POST /admin/join-requests",
	}}
	ChangeProfile = Act{Action: "profile.change", Proof: ProofSession, Routes: []string{
		"PATCH /api/me", "POST /account/profile", "PUT /api/me/prefs",
	}}
	SetPicture = Act{Action: "profile.picture", Proof: ProofSession, Routes: []string{
		"POST /account/picture",
	}}
	RemovePicture = Act{Action: "profile.picture_remove", Proof: ProofSession, Routes: []string{
		"POST /account/picture/remove",
	}}
	// ChangeEmail counts at once. Where mail is on and the address is verified, RequestEmail makes the new one wait, and
	// ReplaceEmail is done by its link.
	ChangeEmail = Act{Action: "email.change", Proof: ProofFresh, Told: MailEmailChanged, Ends: endsOthers,
		Routes: []string{"PATCH /api/me", "POST /account/profile"}}
	RequestEmail = Act{Action: "email.request", Proof: ProofFresh, Told: MailEmailRequested,
		Ends: Ending{Factors: NamedFactors}, Routes: []string{"PATCH /api/me", "POST /account/profile"}}
	CancelEmail = Act{Action: "email.cancel", Proof: ProofSession, Routes: []string{
		"DELETE /api/me/email/pending", "POST /account/cancel-email",
	}}
	RefuseEmail  = Act{Action: "email.refuse", Proof: ProofCode, Routes: []string{"POST /cancel-email/"}}
	ReplaceEmail = Act{Action: "email.replace", Proof: ProofCode, Told: MailEmailChanged, Ends: endsOthers,
		Routes: []string{"POST /api/me/email/verify", "POST /account/verify-email", "POST /verify-email/"}}
	AskVerification = Act{Action: "email.ask", Proof: ProofSession, Routes: []string{
		"POST /api/me/email/send-verification", "POST /account/send-verification",
	}}
	VerifyEmail = Act{Action: "email.verify", Proof: ProofCode, Routes: []string{
		"POST /api/me/email/verify", "POST /account/verify-email", "POST /verify-email/",
	}}
	UndoEmailChange = Act{Action: "email.undo", Proof: ProofCode, Told: MailEmailChanged, Ends: endsDisowned,
		Routes: []string{"POST /undo-email/"}}
	ChangePassword = Act{Action: "password.change", Proof: ProofPassword, Told: MailPasswordChanged, Ends: Ending{
		Sessions: OtherSessions, Grants: AllGrants, Invites: StaleInvites, Addresses: SessionAddresses,
		Pending: SessionPending, Factors: NamedFactors, Marks: true, Codes: true,
	}, Routes: []string{
		"PUT /api/me/password", "POST /account/password",
	}}
	RemovePassword = Act{Action: "password.remove", Proof: ProofFresh, Told: MailPasswordRemoved, Ends: endsOthers,
		Question: "Remove your password?", Routes: []string{
			"DELETE /api/me/password", "POST /account/password/remove",
		}}
	ForgetPassword = Act{Action: "password.forgot", Proof: ProofSession, Silent: true, Routes: []string{
		"POST /api/auth/forgot-password", "POST /forgot-password/",
	}}
	ResetPassword = Act{Action: "password.reset", Proof: ProofCode, Told: MailPasswordChanged,
		Ends: endsRecent.unverifying().naming(), Routes: []string{
			"POST /api/auth/reset-password", "POST /reset-password/", "POST /api/auth/reset-password/passkey/begin",
			"POST /api/auth/reset-password/factors",
		}}
	LimitResets = Act{Action: "password.limited", Proof: ProofCode}
	AddFactor   = Act{Action: "factor.add", Proof: ProofFresh, Told: MailFactorAdded, Ends: endsOthers,
		Routes: []string{
			"POST /api/me/totp", "POST /api/me/totp/confirm", "POST /account/security/totp",
			"POST /api/me/passkeys/begin", "POST /api/me/passkeys", "POST /account/passkeys",
		}}
	RemoveFactor = Act{Action: "factor.remove", Proof: ProofFresh, Told: MailFactorRemoved, Ends: endsOthers,
		Question: "Remove this way to sign in?", Routes: []string{
			"DELETE /api/me/totp", "POST /account/security/totp/remove", "DELETE /api/me/passkeys/{id}",
			"POST /account/passkeys/remove",
		}}
	AskSecondStep = Act{Action: "factor.second_step_on", Proof: ProofFresh, Told: MailFactorAdded, Ends: endsOthers,
		Routes: []string{"PUT /api/me/second-step", "POST /account/security/second-step"}}
	DropSecondStep = Act{Action: "factor.second_step_off", Proof: ProofFresh, Told: MailFactorRemoved,
		Question: "Remove the second step after your password?",
		Routes:   []string{"PUT /api/me/second-step", "POST /account/security/second-step/off"}}
	RenamePasskey = Act{Action: "factor.rename", Proof: ProofSession, Routes: []string{
		"PATCH /api/me/passkeys/{id}", "POST /account/passkeys/rename",
	}}
	NoticeCounter      = Act{Action: "factor.counter", Proof: ProofSignIn, Told: MailFactorCounter}
	RenewRecoveryCodes = Act{Action: "factor.recovery_codes", Proof: ProofFresh, Told: MailFactorAdded,
		Routes: []string{"POST /api/me/recovery-codes", "POST /account/security/recovery-codes"}}
	UseRecoveryCode = Act{Action: "factor.recovery_code_used", Proof: ProofSignIn, Told: MailRecoveryCodeUsed}
	RefuseFactor    = Act{Action: "factor.refused", Proof: ProofSignIn}
	ExportAccount   = Act{Action: "account.export", Proof: ProofFresh, Told: MailExported, Routes: []string{
		"GET /api/me/export", "POST /api/me/export", "POST /account/export",
	}}
	DeleteAccount = Act{Action: "account.delete", Proof: ProofPassword, Told: MailDeleted, Ends: endsAccess,
		Routes: []string{"DELETE /api/me", "POST /account/delete"}}
	AllowApp = Act{Action: "app.allow", Proof: ProofSession, Routes: []string{
		"POST /oauth2/consent",
	}}
	// GiveLastingAccess needs no new proof while the application has such access.
	GiveLastingAccess = Act{Action: "app.lasting", Proof: ProofFresh, Told: MailLastingAccess}
	RemoveApp         = Act{Action: "app.remove", Proof: ProofSession,
		Question: "Remove the access of {app} to your account?", Routes: []string{
			"DELETE /api/me/apps/{client_id}", "POST /account/apps/remove",
		}}
	CreateInvite = Act{Action: "invite.create", Proof: ProofSession, Routes: []string{
		"POST /api/invites", "POST /account/invites",
	}}
	// CreateWideInvite is CreateInvite for what only an administrator may make.
	CreateWideInvite = Act{Action: "invite.create_wide", Proof: ProofFresh, Told: MailWideInvite, Routes: []string{
		"POST /api/invites", "POST /account/invites",
	}}
	MailInviteLink = Act{Action: "invite.mail", Proof: ProofCode, Silent: true, Routes: []string{
		"POST /api/register/address", "POST /register/address",
	}}
	DeleteInvite = Act{Action: "invite.delete", Proof: ProofSession, Routes: []string{
		"DELETE /api/invites/{code}", "POST /account/invites/delete",
	}}
	AddUser = Act{Action: "user.create", Proof: ProofAdministrator, Routes: []string{
		"POST /api/admin/users", "POST /admin/users/",
	}}
	AmendUser = Act{Action: "user.amend", Proof: ProofAdministrator, Told: MailEmailChanged, Routes: []string{
		"PATCH /api/admin/users/{handle}", "POST /admin/users/{handle}/profile",
	}}
	SetFlags = Act{Action: "user.flags", Proof: ProofAdministrator, Told: MailFlagsChanged, Ends: Ending{
		Sessions: AllSessions, Grants: GroupGrants,
	}, Routes: []string{
		"PUT /api/admin/users/{handle}/flags", "POST /admin/users/{handle}/flags", "POST /admin/users/selected",
	}}
	Suspend = Act{Action: "user.suspend", Proof: ProofAdministrator, Told: MailSuspended,
		Ends: endsAccess.voiding(AllGiven), Question: "Suspend @{handle} and end all sessions?",
		Routes: []string{
			"POST /api/admin/users/{handle}/suspend", "POST /admin/users/{handle}/suspend",
			"POST /admin/users/selected",
		}}
	Unsuspend = Act{Action: "user.unsuspend", Proof: ProofAdministrator, Told: MailUnsuspended, Routes: []string{
		"POST /api/admin/users/{handle}/unsuspend", "POST /admin/users/{handle}/unsuspend",
	}}
	SetEnd = Act{Action: "user.end", Proof: ProofAdministrator, Told: MailEndChanged, Routes: []string{
		"PUT /api/admin/users/{handle}/end", "POST /admin/users/{handle}/end", "POST /admin/users/selected",
	}}
	// EndAccount and EndFlags happen by themselves: see EndStore.
	EndAccount = Act{Action: "user.ended", Proof: ProofOperator, Ends: Ending{
		Sessions: AllSessions, Grants: AllGrants,
	}}
	EndFlags   = Act{Action: "user.flags_ended", Proof: ProofOperator, Ends: SetFlags.Ends}
	UnlockUser = Act{Action: "user.unlock", Proof: ProofAdministrator, Routes: []string{
		"POST /api/admin/users/{handle}/unlock", "POST /admin/users/{handle}/unlock",
	}}
	// InviteUser mails the link to choose a password again.
	InviteUser = Act{Action: "user.invite", Proof: ProofAdministrator, Routes: []string{
		"POST /admin/users/selected",
	}}
	IssueResetCode = Act{Action: "user.reset_code", Proof: ProofAdministrator, Told: MailResetCodeMade,
		Routes: []string{
			"POST /api/admin/users/{handle}/reset-password-code", "POST /admin/users/{handle}/reset-password-code",
		}}
	ResetFactors = Act{Action: "user.reset_factors", Proof: ProofAdministrator, Told: MailFactorsReset, Ends: Ending{
		Sessions: AllSessions, Grants: AllGrants, Invites: StaleInvites, Pending: AllPending, Marks: true, Codes: true,
	},
		Question: "Remove all second factors of @{handle}?", Routes: []string{
			"POST /api/admin/users/{handle}/reset-factors", "POST /admin/users/{handle}/reset-factors",
		}}
	EndUserSession = Act{Action: "user.end_session", Proof: ProofAdministrator, Told: MailSessionsEnded, Ends: endsOne,
		Routes: []string{"DELETE /api/admin/users/{handle}/sessions/{id}", "POST /admin/users/{handle}/end-session"}}
	EndUserSessions = Act{Action: "user.end_sessions", Proof: ProofAdministrator, Told: MailSessionsEnded,
		Ends: endsRecent.naming(), Routes: []string{
			"POST /api/admin/users/{handle}/sessions/end-all", "POST /admin/users/{handle}/end-sessions",
		}}
	DeleteUser = Act{Action: "user.delete", Proof: ProofAdministrator, Told: MailDeleted,
		Ends:   endsAccess.voiding(AllGiven),
		Routes: []string{"DELETE /api/admin/users/{handle}", "POST /admin/users/{handle}/delete"}}
	RevokeInvite = Act{Action: "invite.revoke", Proof: ProofAdministrator, Routes: []string{
		"DELETE /api/admin/invites/{code}", "POST /admin/invites/revoke",
	}}
	RevokeBranch = Act{Action: "invite.revoke_branch", Proof: ProofAdministrator, Routes: []string{
		"POST /api/admin/invites/revoke", "POST /admin/invites/revoke",
	}}
	UpdateSettings = Act{Action: "settings.update", Proof: ProofAdministrator, Routes: []string{
		"PUT /api/admin/settings", "POST /admin/settings/general", "POST /admin/settings/flags",
		"POST /admin/settings/security", "POST /admin/settings/joining", "POST /admin/settings/advanced",
	}}
	CloseNextSteps = Act{Action: "settings.steps", Proof: ProofAdministrator, Routes: []string{
		"POST /admin/steps",
	}}
	TestMail = Act{Action: "mail.test", Proof: ProofAdministrator, Routes: []string{"POST /admin/test-mail"}}
	SetLogo  = Act{Action: "settings.logo", Proof: ProofAdministrator, Routes: []string{
		"POST /admin/settings/logo", "POST /admin/settings/remove-logo",
	}}
	ImportUsers = Act{Action: "user.import", Proof: ProofAdministrator, Routes: []string{
		"POST /admin/users/paste",
	}}
	ExportUsers     = Act{Action: "user.export", Proof: ProofSession}
	ExportAudit     = Act{Action: "audit.export", Proof: ProofSession}
	SealKeys        = Act{Action: "keys.seal", Proof: ProofOperator}
	RetireSecret    = Act{Action: "keys.migrate", Proof: ProofOperator}
	Restore         = Act{Action: "installation.restore", Proof: ProofOperator}
	AllowClients    = Act{Action: "client.allow", Proof: ProofOperator}
	DisallowClients = Act{Action: "client.disallow", Proof: ProofOperator}
	RegisterClient  = Act{Action: "client.create", Proof: ProofOperator}
	UpdateClient    = Act{Action: "client.update", Proof: ProofOperator}
	RenewClient     = Act{Action: "client.rotate_secret", Proof: ProofOperator}
	RemoveClient    = Act{Action: "client.remove", Proof: ProofOperator}
	RegisterAPI     = Act{Action: "api.create", Proof: ProofOperator}
	UpdateAPI       = Act{Action: "api.update", Proof: ProofOperator}
	RenewAPI        = Act{Action: "api.rotate_secret", Proof: ProofOperator}
	RemoveAPI       = Act{Action: "api.remove", Proof: ProofOperator}
	GiveUpMail      = Act{Action: "mail.failed", Proof: ProofOperator}
)

// Acts is the policy. docs/threat-model.md shows it.
var Acts = []Act{
	SignIn, SignInAgain, ConfirmIdentity, EndSession, SignOut, EndOtherSessions, DisownSession,
	BindDevice, RefuseDevice,
	RefuseSuspended, LimitSignIns, Register, AskToJoin, ConfirmJoin, AcceptJoin, RefuseJoin, ChangeProfile, SetPicture,
	RemovePicture, ChangeEmail, RequestEmail, CancelEmail, RefuseEmail, ReplaceEmail, AskVerification,
	VerifyEmail,
	UndoEmailChange, ChangePassword, RemovePassword, ForgetPassword, ResetPassword, LimitResets, AddFactor,
	RemoveFactor, AskSecondStep, DropSecondStep, RenamePasskey, NoticeCounter, RenewRecoveryCodes, UseRecoveryCode, RefuseFactor, ExportAccount,
	DeleteAccount, AllowApp, GiveLastingAccess, RemoveApp, CreateInvite, CreateWideInvite, MailInviteLink, DeleteInvite,
	AddUser, AmendUser, SetFlags,
	Suspend, Unsuspend, SetEnd, EndAccount, EndFlags, UnlockUser, InviteUser, IssueResetCode, ResetFactors,
	EndUserSession, EndUserSessions, DeleteUser, RevokeInvite,
	RevokeBranch, UpdateSettings, CloseNextSteps, TestMail, SetLogo, ImportUsers, ExportUsers, ExportAudit, SealKeys, RetireSecret,
	Restore, AllowClients, DisallowClients, RegisterClient, UpdateClient, RenewClient, RemoveClient, RegisterAPI,
	UpdateAPI, RenewAPI, RemoveAPI, GiveUpMail,
}
