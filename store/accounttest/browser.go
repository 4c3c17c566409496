package accounttest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/templates"
)

// Browser keeps cookies and an address.
type Browser struct {
	W       *World
	Cookies map[string]string
	Address string
}

// Browser is a browser without cookies.
func (w *World) Browser() *Browser {
	return &Browser{W: w, Cookies: map[string]string{}, Address: "192.0.2.1"}
}

// BrowserAt is Browser with an address.
func (w *World) BrowserAt(addr string) *Browser {
	b := w.Browser()
	b.Address = addr
	return b
}

// Clone is another browser with the same cookies.
func (b *Browser) Clone() *Browser { return &Browser{b.W, maps.Clone(b.Cookies), b.Address} }

// SignedIn is a browser in which the user has signed in.
func (w *World) SignedIn(handle string) *Browser {
	w.T.Helper()
	b := w.Browser()
	if a := b.Login(handle, Password); a.Status != 200 {
		w.T.Fatalf("sign in as %s: %d %s", handle, a.Status, a.Body)
	}
	return b
}

// Answer is what came back.
type Answer struct {
	browser.Answer
	T          testing.TB
	SetCookies []*http.Cookie
}

// Send makes a request of exactly this body and content type.
func (b *Browser) Send(method, path, contentType, body string, headers ...string) *Answer {
	b.W.T.Helper()
	return b.Stream(method, path, contentType, strings.NewReader(body), headers...)
}

// Stream is Send of a body that is read while the request is served; its length is known only where it is a
// *strings.Reader.
func (b *Browser) Stream(method, path, contentType string, body io.Reader, headers ...string) *Answer {
	b.W.T.Helper()
	addr, err := netip.ParseAddr(b.Address)
	if err != nil {
		b.W.T.Fatal(err)
	}
	ctx := web.WithRequestInfo(b.W.T.Context(), &web.RequestInfo{ID: "req-1", Address: addr})
	r := httptest.NewRequestWithContext(ctx, method, b.W.Base+path, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	r = r.WithContext(templates.WithAcceptLanguage(ctx, r.Header.Get("Accept-Language"))) // as the middleware does
	rec := httptest.NewRecorder()
	rec.Header().Set("X-Request-Id", "req-1")
	b.W.Router.ServeHTTP(rec, r)
	a := &Answer{Answer: browser.Answer{Status: rec.Code, Header: rec.Header(), Body: rec.Body.String()}, T: b.W.T}
	a.SetCookies = rec.Result().Cookies() //nolint:bodyclose // a recorder's
	for _, c := range a.SetCookies {
		if c.MaxAge < 0 {
			delete(b.Cookies, c.Name)
		} else {
			b.Cookies[c.Name] = c.Value
		}
	}
	return a
}

// Call sends JSON; a nil body sends none.
func (b *Browser) Call(method, path string, body any) *Answer {
	b.W.T.Helper()
	contentType, text := browser.JSON(body)
	return b.Send(method, path, contentType, text)
}

// Page gets or, with fields, posts as a person's browser does.
func (b *Browser) Page(path string, fields ...string) *Answer {
	b.W.T.Helper()
	if len(fields) == 0 {
		return b.Send("GET", path, "", "", "Accept", "text/html")
	}
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.Send("POST", path, browser.FormType, form.Encode(), "Accept", "text/html")
}

// Post sends a form of a page.
func (b *Browser) Post(f *browser.Form) *Answer {
	b.W.T.Helper()
	path, _, _ := strings.Cut(f.Action, "#")
	path = strings.TrimPrefix(path, b.W.Base)
	return b.Send("POST", path, browser.FormType, f.Values.Encode(), "Accept", "text/html")
}

// Login signs in by the API.
func (b *Browser) Login(handle, password string) *Answer {
	b.W.T.Helper()
	return b.Call("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
}

// Is fails the test unless the status and, for a problem, its code are these.
func (a *Answer) Is(status int, code ...string) *Answer {
	a.T.Helper()
	got := ""
	if len(code) > 0 {
		got = a.Str("code")
	}
	if a.Status != status || (len(code) > 0 && got != code[0]) {
		a.T.Fatalf("got %d %q, want %d %q; body: %.400s", a.Status, got, status, code, a.Body)
	}
	return a
}

// JSON decodes the body, an object.
func (a *Answer) JSON() map[string]any {
	a.T.Helper()
	m := a.Answer.JSON()
	if m == nil {
		a.T.Fatalf("not a JSON object: %.200s", a.Body)
	}
	return m
}

// RedirectsTo fails the test unless the answer is 303 to the path.
func (a *Answer) RedirectsTo(path string) *Answer {
	a.T.Helper()
	if got := a.Header.Get("Location"); a.Status != http.StatusSeeOther || got != path {
		a.T.Fatalf("got %d to %q, want 303 to %q", a.Status, got, path)
	}
	return a
}

// Shows fails the test unless the body has the texts.
func (a *Answer) Shows(texts ...string) *Answer {
	a.T.Helper()
	for _, text := range texts {
		if !strings.Contains(a.Body, text) {
			a.T.Fatalf("page %d does not show %q: %s", a.Status, text, a.Body)
		}
	}
	return a
}

// Hides fails the test if the body has one of the texts.
func (a *Answer) Hides(texts ...string) *Answer {
	a.T.Helper()
	for _, text := range texts {
		if strings.Contains(a.Body, text) {
			a.T.Fatalf("answer %d shows %q: %s", a.Status, text, a.Body)
		}
	}
	return a
}

// IsSignedIn reports whether the browser's cookies open the account.
func (b *Browser) IsSignedIn() bool {
	b.W.T.Helper()
	a := b.Call("GET", "/api/me", nil)
	if a.Status != 200 && a.Status != 401 {
		b.W.T.Fatalf("me: %d %s", a.Status, a.Body)
	}
	return a.Status == 200
}

// Parallel runs f n times at once and counts the statuses.
func Parallel(n int, f func(i int) int) map[int]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			status := f(i)
			mu.Lock()
			counts[status]++
			mu.Unlock()
		})
	}
	close(start)
	wg.Wait()
	return counts
}

// SessionIDs are the ids of the live sessions of the signed-in user.
func (b *Browser) SessionIDs() (current string, others []string) {
	b.W.T.Helper()
	for _, s := range b.Call("GET", "/api/me/sessions", nil).Is(200).JSON()["sessions"].([]any) {
		m := s.(map[string]any)
		if m["current"] == true {
			current = m["id"].(string)
		} else {
			others = append(others, m["id"].(string))
		}
	}
	return current, others
}
