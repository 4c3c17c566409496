package httpd

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/statuslist"
	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// statusBit fetches the list that a session token names and returns its bit.
func statusBit(t *testing.T, b *browser, token string, header ...string) (bit int, answer response) {
	t.Helper()
	ref := ua.ClaimsOf(token).Status.List
	answer = b.get(ref.URI, header...)
	if answer.StatusCode != http.StatusOK {
		return -1, answer
	}
	if typ := jwtHeader(t, answer.Text)["typ"]; typ != "statuslist+jwt" || answer.Header.Get("Content-Type") != "application/statuslist+jwt" {
		t.Fatalf("typ %v, Content-Type %q", typ, answer.Header.Get("Content-Type"))
	}
	payload := jwtPayload(t, answer.Text)
	if payload["sub"] != ref.URI || payload["ttl"] == nil || payload["exp"] == nil {
		t.Errorf("payload %v", payload)
	}
	bit, err := ua.Bit(answer.Text, ref.Index)
	noError(t, err)
	return bit, answer
}

// listOf returns the address of the list of a browser's session and its entity
// tag now.
func listOf(t *testing.T, b *browser) (uri, etag string) {
	t.Helper()
	uri = ua.ClaimsOf(b.cookie("cairn_session")).Status.List.URI
	return uri, b.get(uri).Header.Get("ETag")
}

// What verifiers learn of a revoked session, in both schemes: at
// the next request, and without a new signature for each one that asks.
func TestEndedSessionIsOnTheStatusList(t *testing.T) {
	for name, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{HS256: hs}, "ada", "bob")
			ada, bob, stranger := s.browser(), s.browser(), s.browser()
			ada.signIn("ada")
			bob.signIn("bob")
			token, other := ada.cookie("cairn_session"), bob.cookie("cairn_session")
			bit, first := statusBit(t, stranger, token)
			if bit != 0 || first.Header.Get("ETag") == "" {
				t.Fatalf("live session: bit %d, ETag %q", bit, first.Header.Get("ETag"))
			}
			if _, again := statusBit(t, stranger, token, "If-None-Match", first.Header.Get("ETag")); again.StatusCode != http.StatusNotModified || again.Text != "" {
				t.Errorf("conditional request: %d", again.StatusCode)
			}
			if _, again := statusBit(t, stranger, token); again.Text != first.Text {
				t.Error("an unchanged list was signed again")
			}
			ada.api("POST", "/api/auth/logout", nil)
			bit, changed := statusBit(t, stranger, token, "If-None-Match", first.Header.Get("ETag"))
			if bit != 1 || changed.Header.Get("ETag") == first.Header.Get("ETag") {
				t.Errorf("ended session: %d, bit %d", changed.StatusCode, bit)
			}
			if bit, _ := statusBit(t, stranger, other); bit != 0 {
				t.Error("a bystander's session is marked")
			}
			wantStatus(t, "a list that never was", stranger.get("/oauth2/status/99"), http.StatusNotFound)
		})
	}
}

// A number that no list has is no failure of the database, whoever asks.
func TestStatusListThatIsNotThereIsA404(t *testing.T) {
	s := startService(t, serviceOptions{})
	for _, path := range []string{"/oauth2/status/99", "/oauth2/status/0", "/oauth2/status/x"} {
		wantProblem(t, path, s.browser().api("GET", path, nil, "If-None-Match", `"x"`, "Prefer", "wait=1"), http.StatusNotFound, "status_list_not_found")
	}
	lacks(t, "logged as a failure", s.log.String(), `"level":"ERROR"`)
}

// What an answer is to be, by what the request says; draft-ietf-oauth-status-list
// sections 8.1, 8.2 and 8.4.
func TestNegotiationOfTheStatusList(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
	uri, etag := listOf(t, b)
	b.client.Transport = &http.Transport{DisableCompression: true} // what is asked for below and nothing else
	plain := b.get(uri).Text
	for _, c := range []struct {
		query, header, value string
		status               int
		zipped               bool
	}{
		{"", "Accept", "application/statuslist+jwt", 200, false},
		{"", "Accept", "application/statuslist+cwt, application/statuslist+jwt;q=0.5", 200, false},
		{"", "Accept", "Application/StatusList+CWT;q=1, application/*;q=0.1", 200, false},
		{"", "Accept", "application/json", 200, false}, // there is nothing else
		{"", "Accept", "application/statuslist+cwt", 406, false},
		{"?time=1686925000", "Accept", "*/*", 501, false},
		{"?tim%65", "Accept", "*/*", 501, false},
		{"?other=1&atime=2", "Accept", "*/*", 200, false},
		{"", "Accept-Encoding", "gzip", 200, true},
		{"", "Accept-Encoding", "br, GZIP;q=0.5", 200, true},
		{"", "Accept-Encoding", "br, *;q=0.1, gzip;q=0", 200, false},
		{"", "Accept-Encoding", "gzip;q=0.000, deflate", 200, false},
		{"", "Accept-Encoding", "identity", 200, false},
		{"", "If-None-Match", `"a,*,b"`, 200, false},
		{"", "If-None-Match", `"a,b", ` + etag, 304, false},
		{"", "If-None-Match", `,, *`, 304, false},
	} {
		got := b.get(uri+c.query, c.header, c.value)
		if got.StatusCode != c.status || (got.Header.Get("Content-Encoding") == "gzip") != c.zipped {
			t.Errorf("%s %s: %s: %d, encoding %q", c.query, c.header, c.value, got.StatusCode, got.Header.Get("Content-Encoding"))
			continue
		}
		if c.status != 200 {
			continue
		}
		text := got.Text
		if c.zipped {
			z, err := gzip.NewReader(bytes.NewReader([]byte(text)))
			noError(t, err)
			unzipped, err := io.ReadAll(z)
			noError(t, err)
			text = string(unzipped)
		}
		if vary := strings.Join(got.Header.Values("Vary"), ","); text != plain || got.Header.Get("ETag") != etag || !strings.Contains(vary, "Accept-Encoding") {
			t.Errorf("%s: %s: another list, or tag %s, Vary %s", c.header, c.value, got.Header.Get("ETag"), vary)
		}
	}
	if log := s.log.String(); strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("strangers fill the log with failures: %.300s", log[strings.Index(log, `"level":"ERROR"`):])
	}
}

func TestListIsHeldAsLongAsAsked(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
	uri, etag := listOf(t, b)
	for prefer, want := range map[string]struct {
		tag     string
		status  int
		applied string
	}{
		"wait=1":                           {etag, http.StatusNotModified, "wait=1"},
		"respond-async, Wait = \"1\"; a=b": {etag, http.StatusNotModified, "wait=1"},
		"wait=25":                          {`W/"another"`, http.StatusOK, ""},
		"wait=24":                          {"", http.StatusOK, ""},
		"wait=0":                           {etag, http.StatusNotModified, ""},
		"wait=-1":                          {etag, http.StatusNotModified, ""},
		"wait=soon, wait=9":                {etag, http.StatusNotModified, ""},
		"return=minimal":                   {strings.TrimPrefix(etag, "W/"), http.StatusNotModified, ""},
		"waiter=9":                         {`"x" , ` + etag, http.StatusNotModified, ""},
	} {
		header := []string{"Prefer", prefer}
		if want.tag != "" {
			header = append(header, "If-None-Match", want.tag)
		}
		began := time.Now()
		got := b.get(uri, header...)
		if got.StatusCode != want.status || got.Header.Get("Preference-Applied") != want.applied || got.Header.Get("ETag") != etag {
			t.Errorf("%s: %d, applied %q", prefer, got.StatusCode, got.Header.Get("Preference-Applied"))
		}
		if held := time.Since(began); want.applied != "" && held < time.Second {
			t.Errorf("%s: held %v only", prefer, held)
		}
		if c := got.Header.Get("Cache-Control"); !strings.Contains(c, "max-age=60") ||
			!strings.Contains(c, "no-cache") || !strings.Contains(strings.Join(got.Header.Values("Vary"), ","),
			"Prefer") {
			t.Errorf("%s: Cache-Control %q, Vary %q", prefer, c, got.Header.Values("Vary"))
		}
	}
}

// hold asks for the list and to be told of a change; the answer comes through the channel.
func hold(t *testing.T, base, uri, etag string) <-chan response {
	t.Helper()
	done := make(chan response, 1)
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, uri, nil)
	noError(t, err)
	r.URL.Host = strings.TrimPrefix(base, "http://")
	r.Header.Set("If-None-Match", etag)
	r.Header.Set("Prefer", "wait=25")
	go func() {
		defer close(done)
		got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Errorf("held request: %v", err)
			return
		}
		_ = got.Body.Close()
		done <- response{got, ""}
	}()
	return done
}

// Two instances on one database: what one revokes, the other serves at the
// next request and tells those who wait there.
func TestRevocationIsKnownAtTheOtherInstance(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		one := startService(t, serviceOptions{Store: storetest.Open(t, dsn)})
		two := startService(t,
			serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Issuer = one.URL }})
		one.addUser("ada")
		for range 3 {
			ada := one.browser()
			ada.signIn("ada")
			uri, etag := listOf(t, ada)
			there := two.URL + strings.TrimPrefix(uri, one.URL)
			if got := two.browser().get(there, "If-None-Match", etag); got.StatusCode != http.StatusNotModified || got.Header.Get("ETag") != etag {
				t.Errorf("unchanged, at the other instance: %d, tag %s and %s", got.StatusCode, got.Header.Get("ETag"), etag)
			}
			held := hold(t, two.URL, uri, etag)
			ada.api("POST", "/api/auth/logout", nil)
			got := two.browser().get(there, "If-None-Match", etag)
			if got.StatusCode != http.StatusOK || got.Header.Get("ETag") == etag {
				t.Errorf("changed, at the other instance: %d", got.StatusCode)
			}
			if told := <-held; told.Response == nil || told.StatusCode != http.StatusOK || told.Header.Get("ETag") != got.Header.Get("ETag") {
				t.Errorf("who waited at the other instance was told %v", told.Response)
			}
		}
	})
}

// One address cannot take all the room, and a stop does not wait for those who wait.
func TestHeldRequestsAreBoundedAndEndAtAStop(t *testing.T) {
	p := newInstalled(t, true, "")
	p.env = append(p.env, "SERVICE_RATE_LIMITS=all=off")
	p.serve()
	keeper := p.browser()
	uri, etag := p.URL+"/oauth2/status/1", ""
	needStatus(t, "a list before the first session", keeper.get(uri), http.StatusNotFound)
	needStatus(t, "register", keeper.register(strings.TrimSpace(p.run("invite", "add", "-q")), "ada"), http.StatusCreated)
	etag = keeper.get(uri).Header.Get("ETag")
	const most = 32
	answers := make(chan response, 2*most)
	for range most + 1 {
		held := hold(t, p.URL, uri, etag)
		go func() { answers <- <-held }()
	}
	// One of them is too many: that it is answered says that the others are held.
	if got := <-answers; got.Response == nil || got.StatusCode != http.StatusNotModified || got.Header.Get("Preference-Applied") != "" {
		t.Errorf("one too many: %v", got.Response)
	}
	go p.stop()
	for range most {
		if got := <-answers; got.Response == nil || got.StatusCode != http.StatusNotModified {
			t.Errorf("held at the stop: %v", got.Response)
		}
	}
	p.stop()
}

// The installation of the benchmarks: a million sessions, 2 % of them revoked.
const (
	manySessions = 1_000_000
	listCapacity = statuslist.Size / 16 * 15
	manyLists    = (manySessions + listCapacity - 1) / listCapacity
)

// manySessionsHandler is the whole HTTP service on a SQLite database of
// manySessions.
func manySessionsHandler(b *testing.B) (fresh func() http.Handler) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "cairn.db")
	st := storetest.Open(b, path)
	secrets := map[string][]byte{account.SecretJWT: []byte("a-shared-secret-of-more-than-32-bytes"), account.SecretInstallation: make([]byte, 48)}
	if _, err := st.Initialize(b.Context(), account.DefaultSettings(), secrets); err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+path)
	noError(b, err)
	now := time.Now().Unix()
	for _, q := range []struct {
		query string
		args  []any
	}{
		{"INSERT INTO users (sub, handle, display_name, password_hash, search, created_at, updated_at) VALUES ('u', 'ada', 'Ada', 'hash', 'ada', ?, ?)", []any{now, now}},
		{"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO status_lists (id, issued, version) SELECT i, ?, 1 FROM n", []any{manyLists, listCapacity}},
		// 131,071 is prime to the size of a list: the indices differ, and those that are free lie scattered.
		{`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			INSERT INTO sessions (id, sub, created_at, auth_time, last_seen_at, expires_at, ended_at, status_list, status_index)
			SELECT 's' || i, 'u', ?, ?, ?, ?, abs(random()) % 50 = 0, i / ? + 1, i % ? * 131071 % ? FROM n`,
			[]any{manySessions, now, now, now, now + 2592000, listCapacity, listCapacity, statuslist.Size}},
		{"INSERT INTO revocations (status_list, status_index, expires_at) SELECT status_list, status_index, expires_at FROM sessions WHERE ended_at > 0", nil},
	} {
		if _, err := db.Exec(q.query, q.args...); err != nil {
			b.Fatal(err)
		}
	}
	noError(b, db.Close())
	settings := config.Defaults()
	settings.PrivateKeyFile, settings.RateLimits = sharedKey(), []string{"all=off"}
	checked, err := settings.Check()
	noError(b, err)
	keys, err := config.LoadSigningKeys(settings.PrivateKeyFile, nil)
	noError(b, err)
	return func() http.Handler {
		h, err := New(b.Context(), Options{Config: checked, Store: st, Secret: secrets[account.SecretJWT], Keys: keys,
			Log: slog.New(slog.DiscardHandler)})
		noError(b, err)
		return h
	}
}

func statusRequest(list int, etag string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://localhost:4040/oauth2/status/%d", list), nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	return r
}

// BenchmarkStatusListsOfAMillion builds and signs all lists of a million sessions
// of which 2 % are revoked. The bars are 100 ms, and 60 KB in all.
func BenchmarkStatusListsOfAMillion(b *testing.B) {
	fresh := manySessionsHandler(b)
	b.ResetTimer()
	bytes, used := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		h := fresh() // which has built none yet
		bytes = 0
		before := cpuTime(b)
		b.StartTimer()
		for list := 1; list <= manyLists; list++ {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, statusRequest(list, ""))
			if w.Code != http.StatusOK {
				b.Fatalf("list %d: %d", list, w.Code)
			}
			bytes += w.Body.Len()
		}
		used += cpuTime(b) - before
	}
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(bytes)/1000, "KB")
	b.ReportMetric(manyLists, "lists")
}

// BenchmarkStatusListUnchanged is a conditional request, through everything a
// request passes. The bar is 50 µs of CPU.
func BenchmarkStatusListUnchanged(b *testing.B) {
	h := manySessionsHandler(b)()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, statusRequest(1, ""))
	etag := w.Header().Get("ETag")
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, statusRequest(1, etag))
		if w.Code != http.StatusNotModified {
			b.Fatalf("%d", w.Code)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	noError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
// learns of revoked sessions.
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
	noError(t, v.Check())
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claims, _ := session.FromContext(r.Context())
		_, _ = w.Write([]byte(claims.Handle))
	})
	a.server = httptest.NewServer(session.Middleware(v, nil)(handler))
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
	noError(a.t, err)
	r.AddCookie(&http.Cookie{Name: "cairn_session", Value: token})
	got, err := a.server.Client().Do(r)
	noError(a.t, err)
	_ = got.Body.Close()
	return got.StatusCode
}

// Whatever ends a session at the service, an application that verifies on its own
// refuses the cookie once its copy of the list is a ttl old, and it does not ask for each
// request. TestEndedSessionStaysEnded has all the ways in which a session ends.
func TestApplicationRefusesAnEndedSessionAfterTheTTL(t *testing.T) {
	for name, hs := range map[string]bool{"HS256": true, "RS256": false} {
		t.Run(name, func(t *testing.T) {
			s := startService(t, serviceOptions{HS256: hs})
			admin := s.joined("keeper", account.FlagAdmin)
			bystander := admin.cookie("cairn_session")
			app := startActivity(t, s, nil)
			for operation, do := range map[string]func(b *browser, handle string) response{
				"logout": func(b *browser, _ string) response { return b.api("POST", "/api/auth/logout", nil) },
				"suspension": func(_ *browser, handle string) response {
					return admin.api("POST", "/api/admin/users/"+handle+"/suspend", nil)
				},
				"again": func(b *browser, handle string) response { return b.login(handle, password) },
			} {
				s.addUser(operation)
				b := s.signedIn(operation)
				token := b.cookie("cairn_session")
				app.wait(time.Minute) // its copy is renewed
				before := app.lists.Load()
				for range 20 {
					if got := app.visit(token); got != http.StatusOK {
						t.Fatalf("%s: before it: %d", operation, got)
					}
				}
				if asked := app.lists.Load() - before; asked > 1 {
					t.Errorf("%s: %d requests for lists in 20 visits", operation, asked)
				}
				needStatus(t, operation, do(b, operation), http.StatusOK)
				app.wait(time.Minute)
				if after, other := app.visit(token), app.visit(bystander); after != http.StatusUnauthorized ||
					other != http.StatusOK {
					t.Errorf("%s: a ttl after it: %d, somebody else: %d", operation, after, other)
				}
			}
		})
	}
}

// An application that waits for changes knows of one when it happens.
func TestWaitingApplicationNeedsNoTTL(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	b := s.signedIn("ada")
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
func TestApplicationFollowsItsPolicyWhenTheListIsDown(t *testing.T) {
	var passed atomic.Int64 // also at the service
	s := startService(t, serviceOptions{Now: func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }}, "ada")
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
		same(t, fmt.Sprintf("open %t, never had a list", open), cold.visit(token), afterwards)
		if got := app.visit(token); got != http.StatusOK {
			t.Fatal(got)
		}
		app.through(down)
		for range 11 {
			app.wait(time.Hour)
			same(t, fmt.Sprintf("open %t, with a list that counts", open), app.visit(token), http.StatusOK)
			same(t, fmt.Sprintf("open %t, a session known to be over", open),
				app.visit(revoked), http.StatusUnauthorized)
		}
		app.wait(2 * time.Hour)
		same(t, fmt.Sprintf("open %t, the list has expired", open), app.visit(token), afterwards)
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
