package httpd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// activity is an application of somebody else: it verifies the session cookie
// with account/session and asks the service for nothing but keys and lists.
type activity struct {
	t      *testing.T
	server *httptest.Server
	lists  atomic.Int64                      // requests for a status list
	divert atomic.Pointer[http.RoundTripper] // instead of the network, for lists
	mu     sync.Mutex
	ahead  time.Duration // of the application's clock
}

// startActivity starts the application for a service; change adjusts how it
// learns of sessions taken back.
func startActivity(t *testing.T, s *service, change func(*session.RemoteStatusOptions)) *activity {
	t.Helper()
	a := &activity{t: t}
	o := session.RemoteStatusOptions{Issuer: s.URL, Now: a.now, Client: &http.Client{Transport: a}}
	v := &session.Verifier{Issuer: s.URL, Now: a.now}
	if s.key == "" {
		o.Secret, v.Secret = s.secret, s.secret
	} else {
		keys := session.NewRemoteKeySet(s.URL+"/.well-known/jwks.json", session.RemoteOptions{})
		o.Keys, v.Keys = keys, keys
	}
	if change != nil {
		change(&o)
	}
	lists := session.NewRemoteStatusList(o)
	v.Status = lists
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	a.server = httptest.NewServer(session.Middleware(v, nil)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		_, _ = w.Write([]byte(claims.Handle))
	})))
	t.Cleanup(func() {
		a.server.Close()
		_ = lists.Close() // else it would look for the service at an address that others have by then
	})
	return a
}

func (a *activity) now() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Add(a.ahead)
}

// wait lets the application's time pass.
func (a *activity) wait(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ahead += d
}

// RoundTrip implements http.RoundTripper for the lists.
func (a *activity) RoundTrip(r *http.Request) (*http.Response, error) {
	a.lists.Add(1)
	if other := a.divert.Load(); other != nil {
		return (*other).RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func ok(got response) error {
	if got.StatusCode/100 != 2 {
		return errors.New(got.Status + " " + got.Text)
	}
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (a *activity) through(f roundTripper) {
	var rt http.RoundTripper = f
	a.divert.Store(&rt)
}

// visit is a request of a browser that has the session cookie.
func (a *activity) visit(token string) int {
	a.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, a.server.URL, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "cairn_session", Value: token})
	got, err := a.server.Client().Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = got.Body.Close()
	return got.StatusCode
}

// Whatever takes a session back at the service, an application that verifies
// on its own refuses the cookie once its copy of the list is a ttl old, and it does not
// ask for each request.
func TestApplicationNeverAcceptsASessionLongerThanTheTTLAfterItsEnd(t *testing.T) {
	for name, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{HS256: hs})
			s.addUser("keeper", account.FlagAdmin)
			admin := s.browser()
			admin.signIn("keeper")
			bystander := admin.cookie("cairn_session")
			app := startActivity(t, s, nil)
			office := account.NewAdministration(s.store, nil)
			for deed, do := range map[string]func(b *browser, u account.User) error{
				"logout": func(b *browser, _ account.User) error { return ok(b.api("POST", "/api/auth/logout", nil)) },
				"end one": func(b *browser, _ account.User) error {
					id := b.api("GET", "/api/me", nil).JSON(t)["session"].(map[string]any)["id"].(string)
					return ok(b.api("DELETE", "/api/me/sessions/"+id, nil))
				},
				"end the others": func(_ *browser, u account.User) error {
					other := s.browser()
					other.signIn(u.Handle)
					return ok(other.api("POST", "/api/me/sessions/end-others", nil))
				},
				"password": func(_ *browser, u account.User) error {
					other := s.browser()
					other.signIn(u.Handle)
					return ok(other.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": password + " and far away"}))
				},
				"reset": func(_ *browser, u account.User) error {
					c, err := office.IssueResetCode(t.Context(), account.Operator(), u)
					if err != nil {
						return err
					}
					return ok(s.browser().api("POST", "/api/auth/reset-password", map[string]string{"handle": u.Handle, "code": c.Code, "password": password + " and far away"}))
				},
				"suspension": func(_ *browser, u account.User) error { return office.Suspend(t.Context(), account.Operator(), u, "") },
				"deletion":   func(_ *browser, u account.User) error { return office.Delete(t.Context(), account.Operator(), u) },
				"signed in again": func(b *browser, u account.User) error {
					b.signIn(u.Handle)
					return nil
				},
			} {
				u := s.addUser(strings.ReplaceAll(deed, " ", "-"))
				b := s.browser()
				b.signIn(u.Handle)
				token := b.cookie("cairn_session")
				app.wait(time.Minute) // its copy is renewed
				before := app.lists.Load()
				for range 20 {
					if got := app.visit(token); got != http.StatusOK {
						t.Fatalf("%s: before it: %d", deed, got)
					}
				}
				if asked := app.lists.Load() - before; asked > 1 {
					t.Errorf("%s: %d requests for lists in 20 visits", deed, asked)
				}
				if err := do(b, u); err != nil {
					t.Fatalf("%s: %v", deed, err)
				}
				app.wait(time.Minute)
				if got := app.visit(token); got != http.StatusUnauthorized {
					t.Errorf("%s: a ttl after it: %d", deed, got)
				}
				if got := app.visit(bystander); got != http.StatusOK {
					t.Errorf("%s: somebody else: %d", deed, got)
				}
			}
		})
	}
}

// An application that waits for changes knows of one when it happens.
func TestWaitingApplicationNeverNeedsTheTTL(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	b := s.browser()
	b.signIn("ada")
	token := b.cookie("cairn_session")
	app := startActivity(t, s, func(o *session.RemoteStatusOptions) { o.Wait = 25 * time.Second; o.Now = nil })
	if got := app.visit(token); got != http.StatusOK {
		t.Fatal(got)
	}
	b.api("POST", "/api/auth/logout", nil)
	began := time.Now()
	for app.visit(token) == http.StatusOK {
		if time.Since(began) > 20*time.Second { // far from the ttl of a minute
			t.Fatal("a waiting application learns of the end no sooner than another one")
		}
	}
	t.Logf("known after %v", time.Since(began))
}

// With the endpoint down the last good list counts until its exp, then what the
// application has chosen.
func TestApplicationNeverForgetsItsPolicyWhenTheListIsDown(t *testing.T) {
	var passed atomic.Int64 // also at the service
	s := startService(t, serviceOptions{Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }})
	s.addUser("ada")
	b, gone := s.browser(), s.browser()
	b.signIn("ada")
	gone.signIn("ada")
	token, revoked := b.cookie("cairn_session"), gone.cookie("cairn_session")
	gone.api("POST", "/api/auth/logout", nil)
	down := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") })
	for open, afterwards := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusOK} {
		app := startActivity(t, s, func(o *session.RemoteStatusOptions) { o.FailOpen = open })
		app.wait(time.Duration(passed.Load()))
		cold := startActivity(t, s, func(o *session.RemoteStatusOptions) { o.FailOpen = open })
		cold.wait(time.Duration(passed.Load()))
		cold.through(down)
		if got := cold.visit(token); got != afterwards {
			t.Errorf("open %t, never had a list: %d", open, got)
		}
		if got := app.visit(token); got != http.StatusOK {
			t.Fatal(got)
		}
		app.through(down)
		for range 11 {
			app.wait(time.Hour)
			if got := app.visit(token); got != http.StatusOK {
				t.Errorf("open %t, with a list that counts: %d", open, got)
			}
			if got := app.visit(revoked); got != http.StatusUnauthorized {
				t.Errorf("open %t, a session known to be over: %d", open, got)
			}
		}
		app.wait(2 * time.Hour)
		if got := app.visit(token); got != afterwards {
			t.Errorf("open %t, the list has expired: %d", open, got)
		}
		app.divert.Store(nil)
		passed.Add(int64(13 * time.Hour))
		for _, want := range []struct {
			token string
			code  int
		}{{token, http.StatusOK}, {revoked, http.StatusUnauthorized}} {
			for began := time.Now(); app.visit(want.token) != want.code; app.wait(time.Second) {
				if time.Since(began) > 20*time.Second {
					t.Fatalf("open %t: the endpoint is back, and the answer is not %d", open, want.code)
				}
			}
		}
	}
}

// Two instances behind one address: the session is ended at one, the list is
// fetched from the other.
func TestListOfAnotherInstanceNeverMissesARevocation(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		one := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		two := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Issuer = one.URL }})
		one.addUser("ada")
		b := one.browser()
		b.signIn("ada")
		token := b.cookie("cairn_session")
		app := startActivity(t, one, nil)
		app.through(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.URL.Host = strings.TrimPrefix(two.URL, "http://")
			return http.DefaultTransport.RoundTrip(r)
		})
		if got := app.visit(token); got != http.StatusOK {
			t.Fatal(got)
		}
		b.api("POST", "/api/auth/logout", nil)
		app.wait(time.Minute)
		if got := app.visit(token); got != http.StatusUnauthorized {
			t.Errorf("after the end: %d", got)
		}
	})
}
