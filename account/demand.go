package account

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// NeedsSecondFactor tells whether the user has a flag whose holders must have a second
// factor.
func (s Settings) NeedsSecondFactor(u User) bool {
	return slices.ContainsFunc(s.SecondFactorFlags, u.Has)
}

// NeedsSecondFactor is that of the settings.
func (s *Service) NeedsSecondFactor(ctx context.Context, u User) (bool, error) {
	v, err := s.sharedSettings(ctx)
	return v.NeedsSecondFactor(u), err
}

// OfferSecondFactor tells whether administrators can do without a second factor: worth a
// word to them.
func (a *Administration) OfferSecondFactor(ctx context.Context) (bool, error) {
	v, err := a.Settings(ctx)
	return !slices.Contains(v.SecondFactorFlags, FlagAdmin), err
}

// CheckSecondFactor is what keeps a session of somebody who needs a second factor from all
// else: ErrSecondFactorSetupRequired where they have none, and ErrSecondFactorRequired where
// the session is from before they had.
func (s *Service) CheckSecondFactor(ctx context.Context, id *Identity) error {
	if slices.Contains(id.Session.AMR, MethodMultiFactor) {
		return nil
	}
	switch need, err := s.NeedsSecondFactor(ctx, id.User); {
	case err != nil || !need:
		return err
	case id.User.SecondFactor:
		return ErrSecondFactorRequired
	}
	return ErrSecondFactorSetupRequired
}

// factorPaths are where a second factor is set up, with all below them.
var factorPaths = []string{
	"/account/security", "/account/passkeys", "/account/confirm", "/api/me/factors", "/api/me/totp", "/api/me/passkeys", "/api/me/recovery-codes", "/api/auth/confirm",
}

// forFactors tells whether a request is about setting up a second factor, or changes
// nothing there.
func (s *Service) forFactors(r *http.Request, refusal error) bool {
	path := strings.TrimPrefix(r.URL.Path, s.Path(""))
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if path == "/api/me" {
		return reads
	}
	return (reads || errors.Is(refusal, ErrSecondFactorSetupRequired)) && slices.ContainsFunc(factorPaths, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	})
}

// sendToFactor sends a page's visitor to where they can do what the refusal asks for.
func (s *Service) sendToFactor(w http.ResponseWriter, r *http.Request, refusal error) error {
	if errors.Is(refusal, ErrSecondFactorRequired) {
		return s.Redirect(w, r, "/login/?fresh="+FreshConfirm)
	}
	return s.Redirect(w, r, "/account/security")
}

// A browser that an application has sent here and whose person has to set up a factor
// first keeps the way back, with what is missing: "passkey." or "any.".
const (
	setUpLifetime  = 10 * time.Minute
	maxSetUpCookie = 3500 // browsers drop what has more than 4,096 bytes
)

func (s *Service) setUpCookie(value string, maxAge time.Duration) *http.Cookie {
	name := "cairn_set_up"
	if s.https {
		name = "__Host-" + name
	}
	c := s.cookie(name, value, "")
	c.MaxAge = int(maxAge / time.Second)
	return c
}

// SetUpFactor sends the browser to the page on which to set up a second factor, or a passkey,
// from which the continuation leads back.
func (s *Service) SetUpFactor(w http.ResponseWriter, r *http.Request, continuation string, passkey bool) {
	if len(continuation) <= maxSetUpCookie {
		http.SetCookie(w, s.setUpCookie(map[bool]string{true: "passkey.", false: "any."}[passkey]+continuation, setUpLifetime))
	}
	_ = s.Redirect(w, r, "/account/security")
}

// FactorSetUp forgets the way back of SetUpFactor.
func (s *Service) FactorSetUp(w http.ResponseWriter, r *http.Request) {
	if c := s.setUpCookie("", -time.Second); len(r.CookiesNamed(c.Name)) > 0 {
		http.SetCookie(w, c)
	}
}

// describeDemand says on the security page what is missing, and for whom.
func (s *Service) describeDemand(r *http.Request, page *templates.AccountSecurity) error {
	switch err := s.CheckSecondFactor(r.Context(), IdentityFrom(r.Context())); {
	case errors.Is(err, ErrSecondFactorSetupRequired):
		page.Demand.SetUp = true
	case errors.Is(err, ErrSecondFactorRequired):
		page.Demand.SignIn = true
	case err != nil:
		return err
	}
	c, err := r.Cookie(s.setUpCookie("", 0).Name)
	if err != nil || s.applications == nil {
		return nil
	}
	what, sealed, _ := strings.Cut(c.Value, ".")
	if name := s.applications(r.Context(), sealed); name != "" {
		page.Demand.Application, page.Demand.Continue, page.Demand.Passkey = name, sealed, what == "passkey"
	}
	return nil
}
