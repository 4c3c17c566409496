package site

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// The doors of Device Bound Session Credentials (W3C, editor's draft of 2026-02-17), at which browsers knock by
// themselves. What they send is a proof, so neither its origin nor its type matters.
const (
	RegisterDevicePath = "/auth/device/register"
	RefreshDevicePath  = "/auth/device/refresh"
	// boundCookie begins the names of bound cookies, which are of https alone.
	boundCookie = "__Host-cairn_bound_"
)

// enter sets the cookies of a sign-in in a browser, and offers to bind the session to its device.
func (s *Site) enter(w http.ResponseWriter, in person.SignedIn) {
	s.setCookies(w, in)
	s.offerBinding(w, in)
}

// offerBinding asks a browser that can to register a key of its device.
func (s *Site) offerBinding(w http.ResponseWriter, in person.SignedIn) {
	if challenge, authorization := s.DeviceRegistration(in); challenge != "" {
		w.Header().Set("Secure-Session-Registration", fmt.Sprintf(`(ES256);path="%s";challenge="%s";authorization="%s"`,
			s.Path(RegisterDevicePath), challenge, authorization))
	}
}

// sfString returns a header that is a string of RFC 9651 section 3.3.3, or bare, as Chromium sends it.
func sfString(r *http.Request, name string) string { return strings.Trim(r.Header.Get(name), `"`) }

func (s *Site) registerDevice(w http.ResponseWriter, r *http.Request) error {
	b, err := s.RegisterDevice(r.Context(), s.Caller(r), sfString(r, "Secure-Session-Response"))
	return s.answerBound(w, b, err)
}

func (s *Site) refreshDevice(w http.ResponseWriter, r *http.Request) error {
	id := sfString(r, "Sec-Secure-Session-Id")
	b, err := s.RefreshDevice(r.Context(), id, sfString(r, "Secure-Session-Response"))
	if err != nil && b.Challenge != "" {
		w.Header().Set("Secure-Session-Challenge", fmt.Sprintf(`"%s";id="%s"`, b.Challenge, id))
	}
	return s.answerBound(w, b, err)
}

// boundSession is the JSON of section "Session Instructions".
type boundSession struct {
	ID         string            `json:"session_identifier"`
	Continue   *bool             `json:"continue,omitempty"`
	RefreshURL string            `json:"refresh_url,omitempty"`
	Scope      *boundScope       `json:"scope,omitempty"`
	Credential []boundCredential `json:"credentials,omitempty"`
	Initiators []string          `json:"allowed_refresh_initiators,omitempty"`
}

type boundScope struct {
	Origin      string      `json:"origin"`
	IncludeSite bool        `json:"include_site"`
	Rules       []boundRule `json:"scope_specification"`
}

type boundRule struct {
	Type   string `json:"type"`
	Domain string `json:"domain"`
	Path   string `json:"path"`
}

type boundCredential struct {
	Type       string `json:"type"`
	Name       string `json:"name"`
	Attributes string `json:"attributes"`
}

// answerBound answers a proof with the instructions for the browser and the bound cookie. A session whose binding has
// ended sets no cookie: that of a later one may be there.
func (s *Site) answerBound(w http.ResponseWriter, b person.Bound, err error) error {
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	if err != nil {
		return err
	}
	if b.Ended {
		return web.WriteJSON(w, http.StatusOK, boundSession{ID: b.ID, Continue: new(bool)})
	}
	c := s.cookie(boundCookie+b.Cookie, b.Value, "")
	c.MaxAge = int(b.Life.Seconds())
	http.SetCookie(w, c)
	issuer, err := url.Parse(s.URL(""))
	if err != nil {
		return err
	}
	rules := []boundRule{{"exclude", "*", s.Path("/static/")}, {"exclude", "*", s.Path("/theme/")}}
	if s.Path("") != "" {
		rules = append([]boundRule{{"exclude", "*", "/"}, {"include", "*", s.Path("/")}}, rules...)
	}
	return web.WriteJSON(w, http.StatusOK, boundSession{
		ID: b.ID, RefreshURL: s.Path(RefreshDevicePath),
		Scope:      &boundScope{Origin: issuer.Scheme + "://" + issuer.Host, Rules: rules},
		Credential: []boundCredential{{"cookie", c.Name, "Path=/; Secure; HttpOnly; SameSite=Lax"}},
		// Applications, mails and bookmarks of any site lead here. The session cookie is Lax: they can only navigate.
		Initiators: []string{"*"},
	})
}

// A page that a bound session opens without a proof loads again automatically: the browser proves its key before that.
// The cookie counts how often.
const (
	reloadCookie = "cairn_reload"
	maxReloads   = 2
)

// reloads returns how often a page was loaded again, maxReloads for what cannot be.
func (s *Site) reloads(r *http.Request) int {
	dest := r.Header.Get("Sec-Fetch-Dest")
	if r.Method != http.MethodGet || dest != "" && dest != "document" {
		return maxReloads
	}
	c, err := r.Cookie(s.hostOnly(reloadCookie))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(c.Value)
	if err != nil {
		return maxReloads
	}
	return n
}

// Do is web.Site.Do with Fail.
func (s *Site) Do(h web.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.Fail(w, r, err)
		}
	}
}

// Fail is web.Site.Fail, and loads a page again that lacks only the proof of the device.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if n := s.reloads(r); errors.Is(err, person.ErrDeviceProofRequired) && s.WantsPage(r) { // see Current
		c := s.cookie(s.hostOnly(reloadCookie), strconv.Itoa(n+1), "")
		c.MaxAge = 30
		http.SetCookie(w, c)
		w.Header().Set("Refresh", "1")
		s.Show(w, r, http.StatusUnauthorized, templates.Error{Waits: true, RequestID: web.RequestID(r.Context()),
			Detail: person.ErrDeviceProofRequired.In(templates.LanguageOf(r.Context())).Detail})
		return
	}
	s.Site.Fail(w, r, err)
}
