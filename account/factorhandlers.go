package account

import (
	"errors"
	"net/http"
	"strings"

	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

const (
	securityPath = "/account/security"
	totpPath     = securityPath + "/totp"
	passkeysPath = securityPath + "#passkeys"
)

func (s *Service) apiFactors(w http.ResponseWriter, r *http.Request) error {
	f, err := s.store.Factors(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, f.list())
}

func (s *Service) apiBeginTOTP(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	key, token, err := s.BeginTOTP(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"secret": key.Secret(), "uri": key.URL(), "token": token})
}

func (s *Service) apiConfirmTOTP(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Token string `json:"token"`
		Code  string `json:"code"`
		Keep  bool   `json:"keep_other_sessions"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	out, err := s.ConfirmTOTP(r.Context(), s.Caller(r), in.Token, in.Code, in.Keep)
	if p, _ := web.ProblemOf(err); errors.Is(err, ErrInvalidOTP) {
		p.Errors[0].Pointer = "/code"
		return p
	}
	if err != nil {
		return err
	}
	s.setCookies(w, out.SignedIn)
	return web.WriteJSON(w, http.StatusOK, struct {
		OK            bool     `json:"ok"`
		RecoveryCodes []string `json:"recovery_codes"` // null: there are some already
	}{true, out.Codes})
}

func (s *Service) totpPage(w http.ResponseWriter, r *http.Request) error {
	c := s.Caller(r)
	key, token, err := s.BeginTOTP(r.Context(), c)
	if errors.Is(err, ErrFactorExists) {
		return s.Redirect(w, r, securityPath)
	}
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK,
		templates.TOTP{Secret: key.Secret(), URI: key.URL(), Token: token, First: !c.User.SecondFactor})
	return nil
}

// totpForm turns the app on. After a wrong code it shows the same secret again.
func (s *Service) totpForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	c, token := s.Caller(r), r.PostForm.Get("token")
	out, err := s.ConfirmTOTP(r.Context(), c, token, r.PostForm.Get("code"), keepOthers(r))
	switch {
	case errors.Is(err, ErrEnrolmentExpired), errors.Is(err, ErrFactorExists), errors.Is(err, ErrNotAuthenticated):
		return s.Redirect(w, r, totpPath)
	case err == nil:
		return s.factorAdded(w, r, out, "totp-added")
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	key, err := s.openEnrolment(c, token)
	if err != nil {
		return err
	}
	s.Show(w, r, p.Status, templates.TOTP{
		Secret: key.Secret(), URI: key.URL(), Token: token, First: !c.User.SecondFactor, KeepOthers: keepOthers(r),
		Error: p.Detail, ErrorCode: p.Code,
	})
	return nil
}

// factorAdded shows the recovery codes of a first factor, or else the security page.
func (s *Service) factorAdded(w http.ResponseWriter, r *http.Request, out AddedFactor, done string) error {
	s.setCookies(w, out.SignedIn)
	if out.Codes == nil {
		return s.Redirect(w, r, securityPath+"?notice="+done+"#"+notices[done].section)
	}
	page := templates.RecoveryCodes{Codes: out.Codes, First: true}
	page.Application, page.Continue, _ = s.setUpFor(r)
	s.Show(w, r, http.StatusOK, page)
	return nil
}

func (s *Service) removeTOTP(_ http.ResponseWriter, r *http.Request) error {
	return s.RemoveTOTP(r.Context(), s.Caller(r), keepOthers(r))
}

// removeTOTPForm removes the app, or succeeds if it is already gone.
func (s *Service) removeTOTPForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.removeTOTP(w, r); !errors.Is(err, ErrFactorNotFound) {
		return err
	}
	return nil
}

func (s *Service) apiRecoveryCodes(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	codes, err := s.RenewRecoveryCodes(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]string{"recovery_codes": codes})
}

// recoveryCodesForm answers with the codes, which are shown only once.
func (s *Service) recoveryCodesForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	codes, err := s.RenewRecoveryCodes(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: codes})
	return nil
}

// passkeyEndpoints serves /.well-known/passkey-endpoints (W3C, A Well-Known URL for Relying Party
// Passkey Endpoints).
func (s *Service) passkeyEndpoints(w http.ResponseWriter, _ *http.Request) error {
	if s.passkeys.party == nil {
		return s.passkeys.unavailable
	}
	return web.WriteJSON(w, http.StatusOK,
		map[string]string{"enroll": s.URL(passkeysPath), "manage": s.URL(passkeysPath)})
}

func (s *Service) apiPasskeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.store.Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]passkeyEntry{"passkeys": passkeyEntries(keys)})
}

func (s *Service) apiBeginAddPasskey(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadOptionalJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	begun, err := s.BeginAddPasskey(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, begun)
}

func (s *Service) apiAddPasskey(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		passkeyAnswer
		Name string `json:"name"`
		Keep bool   `json:"keep_other_sessions"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	k, out, err := s.AddPasskey(r.Context(), s.Caller(r), in.answered(), in.Name, in.Keep)
	if err != nil {
		return err
	}
	s.setCookies(w, out.SignedIn)
	return web.WriteJSON(w, http.StatusCreated, struct {
		passkeyEntry
		RecoveryCodes []string `json:"recovery_codes"` // null: there are some already
	}{k.entry(), out.Codes})
}

func (s *Service) addPasskeyForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	in, _ := passkeyInForm(r, "")
	const done = "passkey-added"
	if in.State == "" && len(in.Credential) == 0 { // the script sends these for the proof alone
		if err := s.allow(s.Caller(r), "factor.add"); err != nil {
			return err
		}
		m := s.member(r)
		m.PasskeyName = text.Cut(r.PostForm.Get("name"), 60)
		return s.showMember(w, r, http.StatusOK, notices[done].page, m)
	}
	_, out, err := s.AddPasskey(r.Context(), s.Caller(r), in, r.PostForm.Get("name"), keepOthers(r))
	if err != nil {
		return s.accountRefused(w, r, notices[done].page, notices[done].section, err)
	}
	return s.factorAdded(w, r, out, done)
}

func (s *Service) apiRenamePasskey(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name string `json:"name"`
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	k, err := s.RenamePasskey(r.Context(), s.Caller(r), parameter(r, "id"), in.Name)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, k.entry())
}

func (s *Service) renamePasskeyForm(_ http.ResponseWriter, r *http.Request) error {
	_, err := s.RenamePasskey(r.Context(), s.Caller(r), r.PostForm.Get("id"), r.PostForm.Get("name"))
	return err
}

func (s *Service) removePasskey(_ http.ResponseWriter, r *http.Request) error {
	return s.RemovePasskey(r.Context(), s.Caller(r), parameter(r, "id"), keepOthers(r))
}

// describePasskeys fills in the passkey section of the page.
func (s *Service) describePasskeys(r *http.Request, page *templates.AccountSecurity) error {
	keys, err := s.store.Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	page.Passkeys.Full = len(keys) >= maxPasskeys
	if s.passkeys.party == nil {
		page.Passkeys.Unavailable = s.passkeys.unavailable.In(templates.LanguageOf(r.Context())).Detail
	}
	for _, k := range keys {
		page.Passkeys.Rows = append(page.Passkeys.Rows,
			templates.PasskeyRow{ID: k.shownID(), Name: k.Name, Synced: k.BackupState, CreatedAt: k.CreatedAt,
				LastUsedAt: k.LastUsedAt})
	}
	return nil
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
		page.Factors.TOTP, page.Factors.TOTPSince, page.Factors.TOTPLastUsed = true, f.TOTP.CreatedAt,
			f.TOTP.LastUsedAt
	}
	return nil
}

// describeRequiredFactor adds to the security page which factor is missing, and for which application.
func (s *Service) describeRequiredFactor(r *http.Request, page *templates.AccountSecurity) error {
	switch err := s.CheckSecondFactor(r.Context(), IdentityFrom(r.Context())); {
	case errors.Is(err, ErrSecondFactorSetupRequired):
		page.Demand.SetUp = true
	case errors.Is(err, ErrSecondFactorRequired):
		page.Demand.SignIn = true
	case err != nil:
		return err
	}
	page.Demand.Application, page.Demand.Continue, page.Demand.Passkey = s.setUpFor(r)
	return nil
}

// setUpFor returns the application that sent the browser here to set up a factor: see SetUpFactor.
func (s *Service) setUpFor(r *http.Request) (application, sealed string, passkey bool) {
	c, err := r.Cookie(s.setUpCookie("", 0).Name)
	if err != nil || s.applications == nil {
		return "", "", false
	}
	missing, sealed, _ := strings.Cut(c.Value, ".")
	if application = s.applications(r.Context(), sealed).Name; application == "" {
		return "", "", false
	}
	return application, sealed, missing == "passkey"
}
