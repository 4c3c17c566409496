package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
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
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/docs/openapitest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/templates"
)

const password = "seven rusty anchors"

var start = time.Now().UTC().Truncate(time.Second)

// world is an installation with its administration, on a real store.
type world struct {
	t       *testing.T
	store   account.Store
	service *account.Service
	hash    string
	router  *mux.Router
	handler http.Handler // the router, held to openapi.yaml
	clients []templates.ApplicationRow
	options admin.Options

	keyCreated time.Time

	backedUp time.Time
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: storetest.New(t), keyCreated: start, now: start}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	_, err := w.store.Initialize(t.Context(), account.DefaultSettings(), map[string][]byte{account.SecretJWT: secret, account.SecretInstallation: secret})
	must(err)
	hasher, err := passwords.NewTestHasher()
	must(err)
	pages, err := templates.New(templates.Options{BasePath: "/id"})
	must(err)
	w.hash, err = hasher.Hash(t.Context(), password)
	must(err)
	w.service, err = account.New(account.Options{
		Store: w.store, Issuer: "http://localhost:4040/id", Secret: secret, Key: secret, CookieName: "cairn_session", Hasher: hasher, Pages: pages,
		Now: func() time.Time { return w.now }, StatusTTL: time.Minute,
	})
	must(err)
	m := mux.NewRouter().SkipClean(true)
	sub := m.PathPrefix("/id").Subrouter()
	w.service.Mount(sub)
	pages.SetLook(w.service.Look)
	w.options.Applications = func(context.Context) ([]templates.ApplicationRow, error) { return w.clients, nil }
	w.backedUp = w.now
	w.options.LastBackup = func(context.Context) (time.Time, error) { return w.backedUp, nil }
	w.options.KeyCreated = func() (time.Time, error) { return w.keyCreated, nil }
	admin.New(w.service, w.options).Mount(sub)
	w.router, w.handler = m, openapitest.Handler(w.t, "/id", m)
	return w
}

func (w *world) addUser(handle string, flags ...string) account.User {
	w.t.Helper()
	u := account.User{Sub: uuid.NewString(), Handle: handle, DisplayName: "Name of " + handle, PasswordHash: w.hash, Flags: flags, CreatedAt: start, UpdatedAt: start}
	if err := w.store.CreateUser(w.t.Context(), u, account.Audit{At: start, Actor: "operator", Action: "user.create", Target: handle}); err != nil {
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

// browser is a browser with at most one cookie.
type browser struct {
	w      *world
	cookie string
}

func (w *world) browser() *browser { return &browser{w: w} }

func (w *world) signedIn(handle string) *browser {
	w.t.Helper()
	b := w.browser()
	b.call("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password}).is(200)
	return b
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (b *browser) send(method, path, contentType, body string, headers ...string) *answer {
	b.w.t.Helper()
	r := httptest.NewRequestWithContext(b.w.t.Context(), method, "/id"+path, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if b.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "cairn_session", Value: b.cookie})
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("X-Request-Id", "req-1") // as the middleware does
	b.w.handler.ServeHTTP(rec, r.WithContext(web.WithRequestInfo(r.Context(), &web.RequestInfo{ID: "req-1"})))
	for _, c := range (&http.Response{Header: rec.Header()}).Cookies() {
		if c.Name == "cairn_session" {
			b.cookie = c.Value
		}
	}
	return &answer{b.w.t, rec.Code, rec.Header(), rec.Body.String()}
}

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

// page gets or, with fields, posts a form.
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

func (b *browser) isSignedIn() bool { return b.call("GET", "/api/me", nil).status == 200 }

func (a *answer) is(status int, code ...string) *answer {
	a.t.Helper()
	if a.status != status || (len(code) > 0 && a.json()["code"] != code[0]) {
		a.t.Fatalf("got %d, want %d %q; body: %.400s", a.status, status, code, a.body)
	}
	return a
}

func (a *answer) json() map[string]any {
	a.t.Helper()
	m := map[string]any{}
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		a.t.Fatalf("not a JSON object: %.200s", a.body)
	}
	return m
}

func (a *answer) redirectsTo(path string) {
	a.t.Helper()
	if got := a.header.Get("Location"); a.status != http.StatusSeeOther || got != path {
		a.t.Fatalf("got %d to %q, want 303 to %q; body: %.400s", a.status, got, path, a.body)
	}
}

func (a *answer) shows(texts ...string) *answer {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Fatalf("answer %d does not show %q: %s", a.status, text, a.body)
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

// parallel runs f n times at once and counts the statuses.
func parallel(n int, f func(i int) int) map[int]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			status := f(i)
			mu.Lock()
			counts[status]++
			mu.Unlock()
		})
	}
	close(gate)
	wg.Wait()
	return counts
}
