package site

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Forward authentication: before each request to an application, a reverse proxy asks whether the
// visitor is signed in, and passes on the headers of the response.

// returnAddress is sealed into the address of the sign-in page.
type returnAddress struct {
	URL string `json:"url"`
}

// apiVerify answers a proxy: 200 with the user, 401 with the sign-in page as Location, 403 if a
// flag or a second factor is missing. With redirect=1, for proxies that pass the response on, a
// browser is redirected to the sign-in page instead. With encode=percent the name is percent-encoded,
// for applications that read headers as Latin-1. Unknown parameters are refused, because a
// typing error such as flag= for flags= would let everybody in.
func (s *Site) apiVerify(w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	known := err == nil
	for name, values := range q {
		known = known && (name == "flag" || len(values) == 1 &&
			(name == "redirect" && values[0] == "1" || name == "encode" && values[0] == "percent"))
	}
	address := web.LimitKey{Name: web.LimitAll, Key: web.ClientAddress(r)}
	if !known {
		if err := s.Limits().Count(r.Context(), address); err != nil {
			return err
		}
		return web.BadRequest(
			"Use the parameters flag=NAME (which may be repeated), redirect=1 and encode=percent.")
	}
	// Requests of members belong to their applications. Only the others are counted, and refused
	// before a signature is verified.
	b := s.sessionCookies(r)
	if err := s.Limits().Blocked(r.Context(), address); err != nil && !slices.ContainsFunc(b.Tokens, s.IsProven) {
		return err
	}
	id, err := s.CheckAccess(r.Context(), b, q["flag"])
	if err == nil {
		h := w.Header()
		name := id.User.DisplayName
		if q.Has("encode") {
			name = text.Percent(name)
		}
		email := "" // always present, so that the proxy overwrites a header of the client
		if id.User.EmailVerified {
			email = id.User.EmailClaim()
		}
		for name, value := range map[string]string{
			"Remote-User": id.User.Handle, "Remote-Name": name,
			"Remote-Groups": strings.Join(id.User.Flags, ","),
			"Remote-Sub":    id.User.Sub, "Remote-Email": email,
		} {
			h.Set(name, value)
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
	if err := s.Limits().Count(r.Context(), address); err != nil {
		return err
	}
	next := ""
	switch {
	case errors.Is(err, account.ErrNotAuthenticated):
		next = s.signInAddress(r, url.Values{})
	case errors.Is(err, account.ErrSecondFactorRequired):
		next = s.signInAddress(r, url.Values{"fresh": {FreshConfirm}})
	case errors.Is(err, account.ErrSecondFactorSetupRequired):
		next = s.URL("/account/security")
	}
	if next != "" {
		w.Header().Set("Location", next)
	}
	method := r.Header.Get("X-Forwarded-Method")
	browser := q.Has("redirect") && strings.Contains(r.Header.Get("Accept"), "text/html") &&
		(method == "" || method == http.MethodGet || method == http.MethodHead)
	switch p, _ := web.ProblemOf(err); {
	case browser && next != "":
		w.WriteHeader(http.StatusSeeOther)
		return nil
	case browser && p.Status == http.StatusForbidden:
		// Plain text, because the style sheet of a page is at another host.
		l := templates.LanguageOf(r.Context())
		web.Note(r.Context(), p.Code)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		templates.SetLanguageHeaders(w.Header(), l)
		w.WriteHeader(p.Status)
		_, _ = w.Write([]byte(p.In(l).Detail + "\n"))
		return nil
	}
	return err
}

// signInAddress returns the address of the sign-in page, from which the browser returns to the
// address that it asked the proxy for.
func (s *Site) signInAddress(r *http.Request, q url.Values) string {
	if back, ok := s.returnTo(askedFor(r)); ok {
		if sealed, err := s.Sealer().Seal(person.PurposeReturn, returnAddress{back}); err == nil {
			q.Set("continue", sealed)
		}
	}
	if len(q) == 0 {
		return s.URL("/login/")
	}
	return s.URL("/login/?" + q.Encode())
}

// askedFor returns the address that the browser asked the proxy for, or "" if no trusted proxy
// sends it.
func askedFor(r *http.Request) string {
	if !web.FromProxy(r.Context()) {
		return ""
	}
	switch original := r.Header.Values("X-Original-Url"); len(original) {
	case 0:
	case 1:
		return original[0]
	default:
		return ""
	}
	uri := r.Header.Get("X-Forwarded-Uri")
	if !strings.HasPrefix(uri, "/") {
		return ""
	}
	return r.Header.Get("X-Forwarded-Proto") + "://" + r.Header.Get("X-Forwarded-Host") + uri
}

var hostForm = regexp.MustCompile(`^([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?$`)

const maxReturn = 2048

// returnTo returns the address if a sign-in may lead there: with the scheme of this service, on a
// host that gets the session cookie.
func (s *Site) returnTo(address string) (string, bool) {
	for i := range len(address) {
		if c := address[i]; c <= ' ' || c > '~' || strings.IndexByte(`\"<>`, c) >= 0 {
			return "", false
		}
	}
	u, err := url.Parse(address)
	if err != nil || len(address) > maxReturn || u.User != nil || u.Fragment != "" ||
		!strings.HasPrefix(address, u.Scheme+"://"+u.Host) {
		return "", false
	}
	own, err := url.Parse(s.URL(""))
	host := hostForm.FindStringSubmatch(strings.ToLower(u.Host))
	if err != nil || u.Scheme != own.Scheme || host == nil {
		return "", false
	}
	domain := s.Cookies().Domain
	if domain == "" {
		return address, host[1] == own.Hostname()
	}
	return address, host[1] == domain || strings.HasSuffix(host[1], "."+domain)
}

// wouldReturn reports whether a browser that is signed in here would be sent straight back by an
// application behind a proxy. It has lost the session token, which a new sign-in sets again.
func (s *Site) wouldReturn(r *http.Request, continuation string) bool {
	if _, ok := s.openReturn(continuation); !ok {
		return false
	}
	_, err := s.ByToken(r.Context(), s.sessionCookies(r))
	return errors.Is(err, account.ErrNotAuthenticated)
}

// openReturn returns the address of a continuation of this kind. It checks the address again, because
// the cookie domain may have changed.
func (s *Site) openReturn(continuation string) (string, bool) {
	var to returnAddress
	if continuation == "" || s.Sealer().Open(person.PurposeReturn, continuation, &to) != nil {
		return "", false
	}
	return s.returnTo(to.URL)
}
