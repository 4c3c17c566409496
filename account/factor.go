package account

import (
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// What a sign-in can go on with after the password.
const (
	FactorTOTP         = "totp"
	FactorPasskey      = "passkey"
	FactorRecoveryCode = "recovery_code"
)

// methods are the ways in which the user can prove a second factor.
func (f Factors) methods() []string {
	methods := []string{}
	for _, m := range []struct {
		name string
		has  bool
	}{{FactorTOTP, f.TOTP != nil}, {FactorPasskey, f.Passkeys > 0}, {FactorRecoveryCode, f.RecoveryCodes > 0}} {
		if m.has {
			methods = append(methods, m.name)
		}
	}
	return methods
}

// recoveryCodes is how many a user gets at once.
const recoveryCodes = 10

// newRecoveryCodes draws codes of 80 bits, as they are shown, and what is stored of them.
func newRecoveryCodes() (shown []string, hashes [][]byte) {
	for range recoveryCodes {
		c := newCode(inviteCodeLength)
		shown, hashes = append(shown, grouped(c)), append(hashes, hashOf(c))
	}
	return shown, hashes
}

// useRecoveryCode spends a recovery code of the user, who is told.
func (s *Service) useRecoveryCode(r *http.Request, u User, typed string) (bool, error) {
	code := canonicalCode(typed, inviteCodeLength)
	if code == "" {
		return false, nil
	}
	a := ActorFor(r, u).Own(s.now(), "factor.recovery_code_used", "")
	a.Mails = s.notices(r.Context(), u, MailRecoveryCodeUsed)
	good, err := s.store.UseRecoveryCode(r.Context(), u.Sub, hashOf(code), s.now(), a)
	if good {
		web.Note(r.Context(), "recovery_code_used")
	}
	return good, err
}

// renewRecoveryCodes voids the recovery codes before. The user is told: each of the new
// ones opens the account as well as another factor.
func (s *Service) renewRecoveryCodes(r *http.Request) ([]string, error) {
	id := IdentityFrom(r.Context())
	codes, hashes := newRecoveryCodes()
	a := s.ownAudit(r, "factor.recovery_codes", "").with(s.notices(r.Context(), id.User, MailFactorAdded)...)
	if err := s.store.ReplaceRecoveryCodes(r.Context(), id.User.Sub, id.Session.ID, hashes, s.now(), a); err != nil {
		return nil, err
	}
	web.Note(r.Context(), "recovery_codes")
	return codes, nil
}

func (s *Service) apiRecoveryCodes(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	codes, err := s.renewRecoveryCodes(r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]string{"recovery_codes": codes})
}

// recoveryCodesForm answers with the codes themselves: they are shown this once.
func (s *Service) recoveryCodesForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	codes, err := s.renewRecoveryCodes(r)
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: codes})
	return nil
}

// factorAudit is the row of what the signed-in user did to a factor of their own, and the
// mail that tells of it.
func (s *Service) factorAudit(r *http.Request, action, mail, factor string) Audit {
	u := IdentityFrom(r.Context()).User
	a := s.ownAudit(r, action, factor)
	a.Mails = s.notices(r.Context(), u, mail, "factor", factor)
	return a
}

// factorList are the second factors of a user as they see them, and as the export has them.
type factorList struct {
	TOTP          *factorEntry `json:"totp"` // null: none
	Passkeys      int          `json:"passkeys"`
	RecoveryCodes int          `json:"recovery_codes"` // that are left
}

type factorEntry struct {
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

func (f Factors) list() factorList {
	out := factorList{Passkeys: f.Passkeys, RecoveryCodes: f.RecoveryCodes}
	if f.TOTP != nil {
		out.TOTP = &factorEntry{f.TOTP.CreatedAt.UTC(), TimeOrNull(f.TOTP.LastUsedAt)}
	}
	return out
}

func (s *Service) apiFactors(w http.ResponseWriter, r *http.Request) error {
	f, err := s.store.Factors(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, f.list())
}

// describeFactors fills in the sections of the security page.
func (s *Service) describeFactors(r *http.Request, page *templates.AccountSecurity) error {
	u := IdentityFrom(r.Context()).User
	f, err := s.store.Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	page.Factors = templates.SecondFactors{Any: u.SecondFactor, RecoveryCodes: f.RecoveryCodes}
	if f.TOTP != nil {
		page.Factors.TOTP, page.Factors.TOTPSince, page.Factors.TOTPLastUsed = true, f.TOTP.CreatedAt, f.TOTP.LastUsedAt
	}
	return nil
}
