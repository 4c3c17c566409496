package site

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

const (
	securityPath = "/account/security"
	totpPath     = securityPath + "/totp"
	stepPath     = securityPath + "/second-step"
	passkeysPath = securityPath + "#passkeys"
)

func (s *Site) apiFactors(w http.ResponseWriter, r *http.Request) error {
	u := IdentityFrom(r.Context()).User
	f, err := s.Store().Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	recent, err := s.Store().RecentFactors(r.Context(), u.Sub, IdentityFrom(r.Context()).Session.ID, s.Now())
	return web.Answer(w, http.StatusOK, struct {
		entry.Factors
		Recent []account.MadeFactor `json:"recent_factors"` // of other sessions
	}{entry.FactorsOf(f, u), recent}, err)
}

func (s *Site) apiBeginTOTP(w http.ResponseWriter, r *http.Request) error {
	key, token, err := s.BeginTOTP(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, map[string]string{"secret": key.Secret(), "uri": key.URL(), "token": token})
}

func (s *Site) apiConfirmTOTP(w http.ResponseWriter, r *http.Request, in struct {
	account.Keep
	Token string `json:"token"`
	Code  string `json:"code"`
}) error {
	out, err := s.ConfirmTOTP(r.Context(), s.Caller(r), in.Token, in.Code, in.Keep)
	if p, _ := web.ProblemOf(err); errors.Is(err, account.ErrInvalidOTP) {
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

func (s *Site) totpPage(w http.ResponseWriter, r *http.Request) error {
	c := s.Caller(r)
	key, token, err := s.BeginTOTP(r.Context(), c)
	if errors.Is(err, account.ErrFactorExists) {
		return s.Redirect(w, r, securityPath)
	}
	if err != nil {
		return err
	}
	return s.showTOTP(w, r, http.StatusOK, templates.TOTP{Secret: key.Secret(), URI: key.URL(), Token: token})
}

func (s *Site) showTOTP(w http.ResponseWriter, r *http.Request, status int, page templates.TOTP) (err error) {
	if page.Ends, err = s.endsWithSecondStep(r, true); err == nil {
		s.Show(w, r, status, page)
	}
	return err
}

// endsWithSecondStep lists what ends with the other sessions of a person who switches the second step on; nil
// for others. optional is that of endsWithOthers.
func (s *Site) endsWithSecondStep(r *http.Request, optional bool) (*templates.Ends, error) {
	if IdentityFrom(r.Context()).User.SecondFactor {
		return nil, nil
	}
	return s.endsWithOthers(r, optional)
}

// totpForm turns the app on. After a wrong code it shows the same secret again.
func (s *Site) totpForm(w http.ResponseWriter, r *http.Request) error {
	c, token := s.Caller(r), r.PostForm.Get("token")
	out, err := s.ConfirmTOTP(r.Context(), c, token, r.PostForm.Get("code"), kept(r))
	switch {
	case errors.Is(err, account.ErrEnrolmentExpired), errors.Is(err, account.ErrFactorExists):
		return s.Redirect(w, r, totpPath)
	case err == nil:
		return s.factorAdded(w, r, out, "totp-added")
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	key, err := s.OpenEnrolment(c, token)
	if err != nil {
		return err
	}
	return s.showTOTP(w, r, p.Status,
		templates.TOTP{Secret: key.Secret(), URI: key.URL(), Token: token, Error: p.Detail, ErrorCode: p.Code})
}

func (s *Site) apiSecondStep(w http.ResponseWriter, r *http.Request, in struct {
	account.Keep
	On *bool `json:"on"`
}) error {
	if in.On == nil {
		return web.BadRequest("A member has the wrong type.",
			web.FieldError{Pointer: "/on", Detail: "must be a boolean"})
	}
	out, err := s.ChooseSecondStep(r.Context(), s.Caller(r), in.Keep, *in.On)
	s.setCookies(w, out.SignedIn)
	return web.Answer(w, http.StatusOK, struct {
		OK            bool     `json:"ok"`
		RecoveryCodes []string `json:"recovery_codes"` // null: none are new
	}{true, out.Codes}, err)
}

func (s *Site) secondStepForm(w http.ResponseWriter, r *http.Request) error {
	out, err := s.ChooseSecondStep(r.Context(), s.Caller(r), keptUnlessTicked(r), true)
	s.setCookies(w, out.SignedIn)
	if err != nil || out.Codes == nil {
		return err
	}
	return s.showCodes(w, r, templates.RecoveryCodes{Codes: out.Codes})
}

func (s *Site) dropSecondStepForm(w http.ResponseWriter, r *http.Request) error {
	out, err := s.ChooseSecondStep(r.Context(), s.Caller(r), kept(r), false)
	s.setCookies(w, out.SignedIn)
	return err
}

// factorAdded shows the recovery codes of a first factor, or else the security page.
func (s *Site) factorAdded(w http.ResponseWriter, r *http.Request, out person.AddedFactor, done string) error {
	s.setCookies(w, out.SignedIn)
	if out.Codes == nil {
		if _, next, missing := s.setUpFor(r); next != "" && missing != setUpRecovered {
			return s.afterSignIn(w, r, IdentityFrom(r.Context()).User, next)
		}
		return s.Redirect(w, r, securityPath+"?notice="+done+"#"+notices[done].section)
	}
	_ = s.showCodes(w, r, templates.RecoveryCodes{Codes: out.Codes})
	return nil
}

// errShown is what an operation of a form returns that has shown a page.
var errShown = errors.New("a page is shown")

// showCodes shows the first recovery codes of a person, and returns errShown.
func (s *Site) showCodes(w http.ResponseWriter, r *http.Request, page templates.RecoveryCodes) error {
	page.First = true
	page.Application, page.Continue, _ = s.setUpFor(r)
	s.Show(w, r, http.StatusOK, page)
	return errShown
}

func (s *Site) removeTOTP(w http.ResponseWriter, r *http.Request, keep account.Keep) error {
	out, err := s.RemoveTOTP(r.Context(), s.Caller(r), keep)
	s.setCookies(w, out)
	return err
}

// removeTOTPForm removes the app, or succeeds if it is already gone.
func (s *Site) removeTOTPForm(w http.ResponseWriter, r *http.Request, keep account.Keep) error {
	if err := s.removeTOTP(w, r, keep); !errors.Is(err, account.ErrFactorNotFound) {
		return err
	}
	return nil
}

func (s *Site) apiRecoveryCodes(w http.ResponseWriter, r *http.Request) error {
	codes, err := s.RenewRecoveryCodes(r.Context(), s.Caller(r))
	return web.Answer(w, http.StatusOK, map[string][]string{"recovery_codes": codes}, err)
}

// recoveryCodesForm answers with the codes, which are shown only once.
func (s *Site) recoveryCodesForm(w http.ResponseWriter, r *http.Request) error {
	codes, err := s.RenewRecoveryCodes(r.Context(), s.Caller(r))
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK, templates.RecoveryCodes{Codes: codes})
	return nil
}

// describeFactors fills in the sections of the security page.
func (s *Site) describeFactors(r *http.Request, page *templates.AccountSecurity) error {
	u := IdentityFrom(r.Context()).User
	f, err := s.Store().Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	page.Factors = templates.SecondFactors{Any: u.SecondFactor, Passkey: s.CountUsablePasskeys(f) > 0,
		RecoveryCodes: f.RecoveryCodes}
	if page.Factors.Required, err = s.NeedsSecondFactor(r.Context(), u); err != nil {
		return err
	}
	page.Removable = !u.Passwordless() && page.Factors.Passkey
	if f.TOTP != nil {
		page.Factors.TOTP, page.Factors.TOTPSince, page.Factors.TOTPLastUsed = true, f.TOTP.CreatedAt,
			f.TOTP.LastUsedAt
	}
	return nil
}

// describeRequiredFactor adds to the security page which factor is missing, and for which application.
func (s *Site) describeRequiredFactor(r *http.Request, page *templates.AccountSecurity) error {
	switch err := s.CheckSecondFactor(r.Context(), IdentityFrom(r.Context())); {
	case errors.Is(err, account.ErrSecondFactorSetupRequired):
		page.Demand.SetUp = true
	case errors.Is(err, account.ErrSecondFactorRequired):
		page.Demand.SignIn = true
	case err != nil:
		return err
	}
	var missing string
	page.Demand.Application, page.Demand.Continue, missing = s.setUpFor(r)
	page.Demand.Passkey, page.Demand.Recovered = missing == setUpPasskey, missing == setUpRecovered
	return nil
}

// setUpFor returns the application that sent the browser here to set up a factor: see SetUpFactor.
func (s *Site) setUpFor(r *http.Request) (application, sealed, missing string) {
	c, err := r.Cookie(s.setUpCookie("", 0).Name)
	if err != nil {
		return "", "", ""
	}
	missing, sealed, _ = strings.Cut(c.Value, ".")
	if application = s.applications(r.Context(), sealed).Name; application == "" {
		return "", "", ""
	}
	return application, sealed, missing
}

// securityPage has sections that other files describe.
func (s *Site) securityPage(r *http.Request, m templates.Member) (templates.Page, error) {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	page := templates.AccountSecurity{Member: m, MinPassword: settings.MinPassword}
	for _, describe := range []func(*http.Request, *templates.AccountSecurity) error{s.describeRequiredFactor,
		s.describePasskeys, s.describeFactors, s.describeHistory} {
		if err := describe(r, &page); err != nil {
			return nil, err
		}
	}
	id := IdentityFrom(r.Context())
	recent, err := s.RecentFactorRows(r.Context(), id.User, id.Session.ID)
	if err != nil {
		return nil, err
	}
	page.Recent = templates.RecentFactors{Rows: recent, Remove: kept(r).Remove}
	if id.User.Has(account.FlagAdmin) {
		ends, err := s.endsWithOthers(r, false)
		if err != nil {
			return nil, err
		}
		page.Given = ends.Given
	}
	if r.URL.Query().Get("notice") == "password-changed" {
		made, err := s.Store().MadeByOthers(r.Context(), IdentityFrom(r.Context()).User.Sub, "", s.Now())
		if err != nil {
			return nil, err
		}
		page.OpenInvites = made.Invites
		u, err := s.Store().UserBySub(r.Context(), id.User.Sub)
		if err != nil {
			return nil, err
		}
		ways, err := s.WaysIn(r.Context(), u)
		if err != nil {
			return nil, err
		}
		page.OwnAddress = slices.DeleteFunc(ways, func(f templates.FactorRow) bool { return f.Kind != "email" })
	}
	return page, nil
}

// shownHistory is how many rows the page shows. It may show fewer, because only rows about this
// person are taken from the readHistory rows read.
const shownHistory, readHistory = 20, 100

// describeHistory adds the recent activity on the account to the page.
func (s *Site) describeHistory(r *http.Request, page *templates.AccountSecurity) error {
	rows, err := s.Store().AuditLog(r.Context(), account.AuditQuery{Person: page.Handle, Limit: readHistory})
	for _, a := range rows {
		if a.Target != page.Handle || len(page.History) == shownHistory {
			continue
		}
		if a.Actor != page.Handle && a.Actor != "" {
			a.Address = "" // the address of another person
		}
		row := a.Row(s.Zone(r.Context()))
		row.Reader = page.Handle
		page.History = append(page.History, row)
	}
	return err
}

// The set-up cookie keeps the way back of a browser that an application sent here to set up a
// factor, and what is missing: "passkey." or "any.".
const (
	setUpLifetime  = time.Hour
	maxSetUpCookie = 3500 // browsers drop what has more than 4,096 bytes
)

func (s *Site) setUpCookie(value string, maxAge time.Duration) *http.Cookie {
	c := s.cookie(s.hostOnly("cairn_set_up"), value, "")
	c.MaxAge = int(maxAge / time.Second)
	return c
}

// SetUpFactor redirects to the page where the user can set up a second factor, or a passkey, and
// from there to the continuation.
func (s *Site) SetUpFactor(w http.ResponseWriter, r *http.Request, continuation string, passkey bool) {
	missing := "any"
	if passkey {
		missing = setUpPasskey
	}
	s.keepWay(w, continuation, missing)
	_ = s.Redirect(w, r, securityPath)
}

// keepWay sets the cookie with the way back to an application.
func (s *Site) keepWay(w http.ResponseWriter, continuation, missing string) {
	if len(continuation) <= maxSetUpCookie {
		http.SetCookie(w, s.setUpCookie(missing+"."+continuation, setUpLifetime))
	}
}

// What is missing to a browser with the set-up cookie.
const (
	setUpPasskey   = "passkey"
	setUpRecovered = "recovered" // nothing: it has used a recovery code
)

// FactorSetUp clears the cookie of SetUpFactor.
func (s *Site) FactorSetUp(w http.ResponseWriter, r *http.Request) {
	if c := s.setUpCookie("", -time.Second); len(r.CookiesNamed(c.Name)) > 0 {
		http.SetCookie(w, c)
	}
}
