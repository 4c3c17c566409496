package account_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/docs/openapitest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/templates"
)

const (
	password    = "seven rusty anchors"
	newPassword = "eleven quiet lanterns"
)

var sharedSecret = []byte("0123456789abcdef0123456789abcdef")

// clock is the time of a test; it moves only when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// world is an installation: a real store, the service and its router.
type world struct {
	t       testing.TB
	store   account.Store
	service *account.Service
	hasher  *passwords.Hasher
	router  http.Handler
	clock   *clock
	base    string
}

// newWorld makes an installation; change may alter its options.
func newWorld(t testing.TB, change ...func(*account.Options)) *world {
	t.Helper()
	w := &world{t: t, store: storetest.New(t), clock: &clock{t: time.Now().UTC().Truncate(time.Second)}}
	if _, err := w.store.Initialize(t.Context(), account.DefaultSettings(), map[string][]byte{account.SecretJWT: sharedSecret, account.SecretInstallation: sharedSecret}); err != nil {
		t.Fatal(err)
	}
	w.start(change...)
	return w
}

// start creates the service again on the same store, as a restart with other
// options would.
func (w *world) start(change ...func(*account.Options)) {
	w.t.Helper()
	hasher, err := passwords.NewTestHasher()
	if err != nil {
		w.t.Fatal(err)
	}
	w.hasher = hasher
	o := account.Options{
		Store: w.store, Issuer: "http://localhost:4040", Secret: sharedSecret, Key: sharedSecret, CookieName: "cairn_session",
		Hasher: hasher, Limits: web.NewLimits(nil, nil, nil, nil), Now: w.clock.Now, StatusTTL: time.Minute,
	}
	for _, c := range change {
		c(&o)
	}
	u, err := url.Parse(o.Issuer)
	if err != nil {
		w.t.Fatal(err)
	}
	w.base = u.Path
	if o.Pages, err = templates.New(templates.Options{BasePath: w.base, HTTPS: u.Scheme == "https"}); err != nil {
		w.t.Fatal(err)
	}
	if w.service, err = account.New(o); err != nil {
		w.t.Fatal(err)
	}
	m := mux.NewRouter().SkipClean(true)
	sub := m
	if w.base != "" {
		sub = m.PathPrefix(w.base).Subrouter()
	}
	w.service.Mount(sub)
	w.router = openapitest.Handler(w.t, w.base, m)
}

func withLimits(limits map[string]web.Rate) func(*account.Options) {
	return func(o *account.Options) { o.Limits = web.NewLimits(limits, nil, o.Now, o.Log) }
}

// addUser makes a member with the usual password.
func (w *world) addUser(handle string, flags ...string) account.User {
	w.t.Helper()
	hash, err := w.hasher.Hash(w.t.Context(), password)
	if err != nil {
		w.t.Fatal(err)
	}
	u := account.User{
		Sub: uuid.NewString(), Handle: handle, DisplayName: strings.ToUpper(handle[:1]) + handle[1:], PasswordHash: hash,
		Flags: flags, CreatedAt: w.clock.Now(), UpdatedAt: w.clock.Now(),
	}
	if err := w.store.CreateUser(w.t.Context(), u, account.Audit{At: w.clock.Now(), Actor: "operator", Action: "user.create", Target: handle}); err != nil {
		w.t.Fatal(err)
	}
	return w.user(handle)
}

func (w *world) user(handle string) account.User {
	w.t.Helper()
	u, err := w.store.UserByHandle(w.t.Context(), handle)
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func (w *world) saveSettings(change func(*account.Settings)) {
	w.t.Helper()
	v := account.DefaultSettings()
	change(&v)
	all := account.SettingsChange{}
	for _, m := range account.SettingsMembers {
		all[m.Name] = m.Value(v)
	}
	if _, err := w.service.ChangeSettings(w.t.Context(), account.Operator(), all); err != nil {
		w.t.Fatal(err)
	}
}

// invite makes an invite of the operator.
func (w *world) invite() account.Invite {
	w.t.Helper()
	i, err := account.NewInvite("", "", w.clock.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.CreateInvite(w.t.Context(), i, -1, account.Operator().Audit(i.CreatedAt, "invite.create", "", "")); err != nil {
		w.t.Fatal(err)
	}
	return i
}

// resetCode issues a reset code for a user.
func (w *world) resetCode(handle string) string {
	w.t.Helper()
	c, err := w.service.Administration().WithMail(false).IssueResetCode(w.t.Context(), account.Operator(), w.user(handle))
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Code
}

// suspend suspends a user as the operator does.
func (w *world) suspend(handle string) {
	w.t.Helper()
	if err := w.service.Administration().Suspend(w.t.Context(), account.Operator(), w.user(handle), "", false); err != nil {
		w.t.Fatal(err)
	}
}

// browser keeps cookies and an address.
type browser struct {
	w       *world
	cookies map[string]string
	addr    string
}

func (w *world) browser() *browser {
	return &browser{w: w, cookies: map[string]string{}, addr: "192.0.2.1"}
}

func (w *world) browserAt(addr string) *browser {
	b := w.browser()
	b.addr = addr
	return b
}

func (b *browser) clone() *browser { return &browser{b.w, maps.Clone(b.cookies), b.addr} }

// signedIn is a browser in which the user has signed in.
func (w *world) signedIn(handle string) *browser {
	w.t.Helper()
	b := w.browser()
	if a := b.login(handle, password); a.status != 200 {
		w.t.Fatalf("sign in as %s: %d %s", handle, a.status, a.body)
	}
	return b
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
	set    []*http.Cookie
}

// send makes a request of exactly this body and content type.
func (b *browser) send(method, path, contentType, body string, headers ...string) *answer {
	b.w.t.Helper()
	r := httptest.NewRequestWithContext(b.w.t.Context(), method, b.w.base+path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return b.serve(r)
}

func (b *browser) serve(r *http.Request) *answer {
	b.w.t.Helper()
	addr, err := netip.ParseAddr(b.addr)
	if err != nil {
		b.w.t.Fatal(err)
	}
	r = r.WithContext(web.WithRequestInfo(r.Context(), &web.RequestInfo{ID: "req-1", Address: addr}))
	rec := httptest.NewRecorder()
	rec.Header().Set("X-Request-Id", "req-1") // as the middleware does
	b.w.router.ServeHTTP(rec, r)
	a := &answer{t: b.w.t, status: rec.Code, header: rec.Header(), body: rec.Body.String(), set: rec.Result().Cookies()} //nolint:bodyclose // a recorder's
	for _, c := range a.set {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return a
}

// call sends JSON; a nil body sends none.
func (b *browser) call(method, path string, body any) *answer {
	b.w.t.Helper()
	if body == nil {
		return b.send(method, path, "", "")
	}
	raw, err := json.Marshal(body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return b.send(method, path, "application/json", string(raw))
}

// page gets or, with fields, posts as a person's browser does.
func (b *browser) page(path string, fields ...string) *answer {
	b.w.t.Helper()
	if len(fields) == 0 {
		return b.send("GET", path, "", "", "Accept", "text/html")
	}
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return b.send("POST", path, "application/x-www-form-urlencoded", form.Encode(), "Accept", "text/html")
}

func (b *browser) login(handle, password string) *answer {
	b.w.t.Helper()
	return b.call("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password})
}

// is fails the test unless the status and, for a problem, its code are these.
func (a *answer) is(status int, code ...string) *answer {
	a.t.Helper()
	got := ""
	if len(code) > 0 {
		got, _ = a.json()["code"].(string)
	}
	if a.status != status || (len(code) > 0 && got != code[0]) {
		a.t.Fatalf("got %d %q, want %d %q; body: %.400s", a.status, got, status, code, a.body)
	}
	return a
}

func (a *answer) json() map[string]any {
	a.t.Helper()
	m := map[string]any{}
	d := json.NewDecoder(bytes.NewBufferString(a.body))
	if err := d.Decode(&m); err != nil {
		a.t.Fatalf("not a JSON object: %.200s", a.body)
	}
	return m
}

func (a *answer) redirectsTo(path string) *answer {
	a.t.Helper()
	if got := a.header.Get("Location"); a.status != http.StatusSeeOther || got != path {
		a.t.Fatalf("got %d to %q, want 303 to %q", a.status, got, path)
	}
	return a
}

func (a *answer) shows(texts ...string) *answer {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("page %d does not show %q: %s", a.status, text, a.body)
		}
	}
	return a
}

func (a *answer) hides(texts ...string) *answer {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			a.t.Fatalf("answer %d shows %q: %s", a.status, text, a.body)
		}
	}
	return a
}

// isSignedIn reports whether the browser's cookies open the account.
func (b *browser) isSignedIn() bool {
	b.w.t.Helper()
	a := b.call("GET", "/api/me", nil)
	if a.status != 200 && a.status != 401 {
		b.w.t.Fatalf("me: %d %s", a.status, a.body)
	}
	return a.status == 200
}

// parallel runs f n times at once and counts the statuses.
func parallel(n int, f func(i int) int) map[int]int {
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

func address(i int) string { return fmt.Sprintf("198.51.100.%d", i+1) }

// newChunked is a request whose length is not known beforehand.
func newChunked(t *testing.T, method, path, contentType, body string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), method, path, struct{ *strings.Reader }{strings.NewReader(body)})
	r.ContentLength = -1
	r.Header.Set("Content-Type", contentType)
	return r
}

// brokenCounters are counters whose database is away.
type brokenCounters struct{}

var errAway = errors.New("connection refused")

func (brokenCounters) Take(context.Context, web.Counter, time.Time, bool) (bool, error) {
	return false, errAway
}

func (brokenCounters) Settle(context.Context, web.Counter, time.Time, bool) error {
	return errAway
}

func (brokenCounters) Counts(context.Context, web.Counter, time.Time) (web.Counts, error) {
	return web.Counts{}, errAway
}

func withLog(to io.Writer) func(*account.Options) {
	return func(o *account.Options) { o.Log = slog.New(slog.NewTextHandler(to, nil)) }
}
