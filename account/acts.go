package account

import (
	"context"

	"github.com/cairn-id/cairn/templates"
)

// Proof is what a caller has to prove before an act.
type Proof int

// The proofs.
const (
	// ProofSession is a live session, or nothing for an act without a session.
	ProofSession Proof = iota
	// ProofSignIn is a password or passkey, and the second factor if the user has one.
	ProofSignIn
	// ProofCode is a code or link that was mailed, or given by an administrator or a member.
	ProofCode
	// ProofFresh is a recent proof of identity: see Caller.fresh.
	ProofFresh
	// ProofPassword is the current password, and ProofFresh too if the user has a second factor.
	ProofPassword
)

// Ending is what an act ends.
type Ending int

// The endings.
const (
	EndsNothing Ending = iota
	// EndsOthers ends the other sessions of the user, unless the person keeps them.
	EndsOthers
	// EndsOthersAndGrants ends the other sessions, every grant (offline_access too) and reset
	// codes.
	EndsOthersAndGrants
	// EndsOne ends one session, its codes and its grants without offline_access.
	EndsOne
	// EndsSignIn ends one session with every grant that it made (offline_access too), voids the
	// marks of the user's devices and forgets the session's address.
	EndsSignIn
	// EndsAccess ends every session and every grant (offline_access too).
	EndsAccess
	// EndsIfSet ends every session if the settings say so for the loss of a flag.
	EndsIfSet
)

// Act is a row of the table that decides what an operation on an account requires and causes. Each
// operation starts with Administration.begin, which reads it.
type Act struct {
	// Name is the action in the audit log; templates.AuditActions has its sentence.
	Name  string
	Proof Proof
	// Told is the kind of mail that is sent to the address that was verified before the act, "" for
	// none.
	Told string
	Ends Ending
	// Question is what a page asks before the act, "" for nothing.
	Question templates.Text
	// Routes are the methods and paths of the act. Without any it is part of another act.
	Routes []string
}

// Acts is the table. docs/threat-model.md shows it.
var Acts = []Act{
	{Name: "session.create", Proof: ProofSignIn, Told: MailNewDevice, Routes: []string{
		"POST /api/auth/login", "POST /api/auth/passkey/begin", "POST /api/auth/passkey/finish", "POST /login/",
		"POST /login/second-factor/",
	}},
	{Name: "session.reauthenticate", Proof: ProofSignIn, Told: MailNewDevice},
	{Name: "session.confirm", Proof: ProofSignIn, Told: MailNewDevice, Routes: []string{
		"POST /api/auth/confirm", "POST /account/confirm",
	}},
	{Name: "session.end", Proof: ProofFresh, Ends: EndsOne, Routes: []string{
		"DELETE /api/me/sessions/{id}", "POST /account/sessions/end",
	}},
	{Name: "session.sign_out", Ends: EndsOne, Routes: []string{
		"POST /api/auth/logout", "POST /logout/",
	}},
	{Name: "session.end_others", Proof: ProofFresh, Ends: EndsOthers, Routes: []string{
		"POST /api/me/sessions/end-others", "POST /account/sessions/end-others",
	}},
	{Name: "session.not_me", Proof: ProofCode, Ends: EndsSignIn, Routes: []string{
		"POST /not-me/",
	}},
	{Name: "session.refused", Proof: ProofSignIn},
	{Name: "session.limited"},

	{Name: "user.register", Proof: ProofCode, Routes: []string{
		"POST /api/register", "POST /register/",
	}},
	{Name: "profile.change", Routes: []string{
		"PATCH /api/me", "POST /account/profile", "PUT /api/me/prefs",
	}},
	{Name: "email.change", Proof: ProofFresh, Told: MailEmailChanged, Ends: EndsOthers, Routes: []string{
		"PATCH /api/me", "POST /account/profile",
	}},
	{Name: "email.ask", Routes: []string{
		"POST /api/me/email/send-verification", "POST /account/send-verification",
	}},
	{Name: "email.verify", Proof: ProofCode, Routes: []string{
		"POST /api/me/email/verify", "POST /account/verify-email", "POST /verify-email/",
	}},
	{Name: "email.undo", Proof: ProofCode, Told: MailEmailChanged, Ends: EndsAccess, Routes: []string{
		"POST /undo-email/",
	}},
	{Name: "password.change", Proof: ProofPassword, Told: MailPasswordChanged, Ends: EndsOthersAndGrants,
		Routes: []string{
			"PUT /api/me/password", "POST /account/password",
		}},
	{Name: "password.forgot", Routes: []string{
		"POST /api/auth/forgot-password", "POST /forgot-password/",
	}},
	{Name: "password.reset", Proof: ProofCode, Told: MailPasswordChanged, Ends: EndsAccess, Routes: []string{
		"POST /api/auth/reset-password", "POST /reset-password/",
	}},
	{Name: "password.limited"},
	{Name: "factor.add", Proof: ProofFresh, Told: MailFactorAdded, Ends: EndsOthers, Routes: []string{
		"POST /api/me/totp", "POST /api/me/totp/confirm", "POST /account/security/totp",
		"POST /api/me/passkeys/begin", "POST /api/me/passkeys", "POST /account/passkeys",
	}},
	{
		Name: "factor.remove", Proof: ProofFresh, Told: MailFactorRemoved, Ends: EndsOthers,
		Question: "Remove this way to sign in?", Routes: []string{
			"DELETE /api/me/totp", "POST /account/security/totp/remove",
			"DELETE /api/me/passkeys/{id}", "POST /account/passkeys/remove",
		},
	},
	{Name: "factor.rename", Routes: []string{
		"PATCH /api/me/passkeys/{id}", "POST /account/passkeys/rename",
	}},
	{Name: "factor.counter", Proof: ProofSignIn, Told: MailFactorCounter},
	{Name: "factor.recovery_codes", Proof: ProofFresh, Told: MailFactorAdded, Routes: []string{
		"POST /api/me/recovery-codes", "POST /account/security/recovery-codes",
	}},
	{Name: "factor.recovery_code_used", Proof: ProofSignIn, Told: MailRecoveryCodeUsed},
	{Name: "factor.refused", Proof: ProofSignIn},
	{Name: "account.export", Proof: ProofFresh, Told: MailExported, Routes: []string{
		"GET /api/me/export", "POST /account/export",
	}},
	{Name: "account.delete", Proof: ProofPassword, Told: MailDeleted, Ends: EndsAccess, Routes: []string{
		"DELETE /api/me", "POST /account/delete",
	}},
	{Name: "app.allow", Routes: []string{"POST /oauth2/consent"}},
	{Name: "app.remove", Routes: []string{
		"DELETE /api/me/apps/{client_id}", "POST /account/apps/remove",
	}},
	{Name: "invite.create", Routes: []string{
		"POST /api/invites", "POST /account/invites",
	}},
	{Name: "invite.delete", Routes: []string{
		"DELETE /api/invites/{code}", "POST /account/invites/delete",
	}},

	{Name: "user.create", Proof: ProofFresh, Routes: []string{
		"POST /api/admin/users", "POST /admin/users/",
	}},
	{Name: "user.amend", Proof: ProofFresh, Told: MailEmailChanged, Routes: []string{
		"PATCH /api/admin/users/{handle}", "POST /admin/users/{handle}/profile",
	}},
	{Name: "user.flags", Proof: ProofFresh, Told: MailFlagsChanged, Ends: EndsIfSet, Routes: []string{
		"PUT /api/admin/users/{handle}/flags", "POST /admin/users/{handle}/flags",
	}},
	{Name: "user.suspend", Proof: ProofFresh, Told: MailSuspended, Ends: EndsAccess, Routes: []string{
		"POST /api/admin/users/{handle}/suspend", "POST /admin/users/{handle}/suspend",
	}},
	{Name: "user.unsuspend", Proof: ProofFresh, Told: MailUnsuspended, Routes: []string{
		"POST /api/admin/users/{handle}/unsuspend", "POST /admin/users/{handle}/unsuspend",
	}},
	{Name: "user.reset_code", Proof: ProofFresh, Told: MailResetCodeMade, Routes: []string{
		"POST /api/admin/users/{handle}/reset-password-code", "POST /admin/users/{handle}/reset-password-code",
	}},
	{
		Name: "user.reset_factors", Proof: ProofFresh, Told: MailFactorsReset, Ends: EndsAccess,
		Question: "Remove every second factor of this account?", Routes: []string{
			"POST /api/admin/users/{handle}/reset-factors", "POST /admin/users/{handle}/reset-factors",
		},
	},
	{Name: "user.end_session", Proof: ProofFresh, Told: MailSessionsEnded, Ends: EndsOne, Routes: []string{
		"DELETE /api/admin/users/{handle}/sessions/{id}", "POST /admin/users/{handle}/end-session",
	}},
	{Name: "user.end_sessions", Proof: ProofFresh, Told: MailSessionsEnded, Ends: EndsAccess, Routes: []string{
		"POST /api/admin/users/{handle}/sessions/end-all", "POST /admin/users/{handle}/end-sessions",
	}},
	{Name: "user.delete", Proof: ProofFresh, Told: MailDeleted, Ends: EndsAccess, Routes: []string{
		"DELETE /api/admin/users/{handle}", "POST /admin/users/{handle}/delete",
	}},
	{Name: "invite.revoke", Proof: ProofFresh, Routes: []string{
		"DELETE /api/admin/invites/{code}", "POST /admin/invites/revoke",
	}},
	{Name: "invite.revoke_branch", Proof: ProofFresh, Routes: []string{
		"POST /api/admin/invites/revoke", "POST /admin/invites/revoke",
	}},
	{Name: "settings.update", Proof: ProofFresh, Routes: []string{
		"PUT /api/admin/settings", "POST /admin/settings/general", "POST /admin/settings/flags",
		"POST /admin/settings/security",
	}},
	{Name: "settings.steps", Proof: ProofFresh, Routes: []string{"POST /admin/steps"}},
	{Name: "settings.logo", Proof: ProofFresh, Routes: []string{
		"POST /admin/settings/logo", "POST /admin/settings/remove-logo",
	}},
}

var ActsByName = func() map[string]Act {
	all := make(map[string]Act, len(Acts))
	for _, a := range Acts {
		all[a.Name] = a
	}
	return all
}()

// begin starts an operation on the account of u. It checks that the caller has given the proof that
// the act requires, and returns the audit row with the mails that notify the owner. detail must not
// contain a secret or a code; data are pairs for the mails. ErrReauthenticationRequired.
func (a *Administration) begin(
	ctx context.Context, by Caller, name string, u User, detail string, data ...string,
) (Audit, error) {
	act := ActsByName[name]
	if err := a.Allow(by, name); err != nil {
		return Audit{}, err
	}
	row := by.Audit(a.Now(), name, u.Handle, detail)
	if act.Told == "" {
		return row, nil
	}
	mails, err := a.notices(ctx, u, act.Told, data...)
	return row.with(mails...), err
}

// Allow returns ErrReauthenticationRequired if the caller has not given the proof that the named
// act requires.
func (a *Administration) Allow(by Caller, name string) error {
	act := ActsByName[name]
	fresh := act.Proof == ProofFresh || act.Proof == ProofPassword && by.User.SecondFactor
	if fresh && !by.Fresh(a.Now()) {
		return ErrReauthenticationRequired
	}
	return nil
}

// begin calls Administration.begin for an operation of the caller on their own account.
func (s *Service) begin(ctx context.Context, c Caller, name, detail string, data ...string) (Audit, error) {
	return s.Administration().begin(ctx, c, name, c.User, detail, data...)
}

// Allow calls Administration.Allow for the first step of an act.
func (s *Service) Allow(c Caller, name string) error {
	return s.Administration().Allow(c, name)
}
