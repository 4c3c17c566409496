package site

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/templates"
)

// homePage is where a sign-in leads that no application asked for.
func (s *Site) homePage(r *http.Request, m templates.Member) (templates.Page, error) {
	u := IdentityFrom(r.Context()).User
	steps, passkeys, apps, err := s.stepsOf(r, u)
	page := templates.AccountHome{Member: m, Picture: s.PhotoOf(u), Email: u.Email, EmailVerified: u.EmailVerified,
		Passkeys: passkeys}
	page.Apps = entry.WithHome(apps)
	open := func(step templates.NextStep) bool { return !step.Done && step.Name != "applications" }
	if i := slices.IndexFunc(steps, open); i >= 0 {
		page.Step = &steps[i]
	}
	return page, err
}

// welcomePage is the first page after a registration that no application asked for.
func (s *Site) welcomePage(r *http.Request, m templates.Member) (templates.Page, error) {
	steps, _, apps, err := s.stepsOf(r, IdentityFrom(r.Context()).User)
	page := templates.AccountWelcome{Member: m, Steps: steps}
	kept := s.keptApp(r)
	for _, app := range entry.WithHome(apps) {
		if app.ClientID == kept {
			page.App = &app
		}
	}
	return page, err
}

// appCookie remembers the application to which a link to join leads, by its client id and never by an address: the
// page of welcome offers it to those who may use it. Days may pass until a request to join is answered.
const (
	appCookie   = "cairn_app"
	appLifetime = 14 * 24 * time.Hour
)

// keepApp remembers the application that the link in the address names.
func (s *Site) keepApp(w http.ResponseWriter, r *http.Request) {
	if id := text.Cut(mailedQuery(r).Get("app"), account.MaxClientID); id != "" {
		http.SetCookie(w, s.HostCookie(appCookie, url.QueryEscape(id), appLifetime))
	}
}

// keptApp returns the client id that keepApp remembers, or "".
func (s *Site) keptApp(r *http.Request) string {
	c, err := r.Cookie(s.hostOnly(appCookie))
	if err != nil {
		return ""
	}
	id, _ := url.QueryUnescape(c.Value)
	return id
}

// stepsOf returns what makes an account safer and more useful, with the number of its passkeys and the
// applications that the person may use.
func (s *Site) stepsOf(r *http.Request, u account.User) ([]templates.NextStep, int, []account.App, error) {
	l := templates.LanguageOf(r.Context())
	keys, err := s.Store().Passkeys(r.Context(), u.Sub)
	if err != nil {
		return nil, 0, nil, err
	}
	apps, err := s.AppsFor(r.Context(), u)
	if err != nil {
		return nil, 0, nil, err
	}
	used := func(a account.App) bool { return !a.GrantedAt.IsZero() }
	address := templates.NextStep{Name: "address", Text: l.Text("Add your email address, in case you forget your " +
		"password"), Path: "/account/profile#email", Done: u.EmailVerified}
	if u.Email != "" && s.MailEnabled() {
		address.Text, address.Path = l.Text("Verify your email address"), "/account/profile#verify-email"
	}
	steps := []templates.NextStep{
		{Name: "passkey", Text: l.Text("Add a passkey to sign in without a password"),
			Path: "/account/security#passkeys", Done: len(keys) > 0},
		address,
		{Name: "applications", Text: l.Text("See which applications you can use"), Path: "/account/apps",
			Done: slices.ContainsFunc(apps, used)},
	}
	shared, err := s.Shares(r.Context(), u)
	if shared {
		steps = slices.Delete(steps, 1, 2)
	}
	return steps, len(keys), apps, err
}
