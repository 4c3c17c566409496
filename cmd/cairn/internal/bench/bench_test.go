package bench

import (
	"crypto/rand"
	"crypto/rsa"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// floor is the bare provider, whose answers a test may change before they are sent.
type floor struct {
	*Floor
	alter func(path string, r *http.Request, a *httptest.ResponseRecorder)
}

// ServeHTTP implements http.Handler.
func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := httptest.NewRecorder()
	f.Floor.ServeHTTP(a, r)
	if f.alter != nil {
		f.alter(r.URL.Path, r, a)
	}
	for name, values := range a.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes())
}

// startFloor serves it in this process.
func startFloor(t *testing.T, signer *rsa.PrivateKey) (*floor, *driver) {
	t.Helper()
	f := &floor{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	setup := Setup{Issuer: issuerAt(address), ClientID: "a client", ClientSecret: "its secret: %+", RedirectURI: redirectURI, Handles: []string{"ada", "zoe"}, Password: "rambling over 3 hills"}
	var err error
	if f.Floor, err = NewFloor(t.Context(), filepath.Join(t.TempDir(), "floor.db"), setup, signer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, newDriver(&Target{Name: floorName, Setup: setup, address: address, form: true}, os.Getpid(), 2)
}

// all takes every phase once and returns the first error.
func (d *driver) all(t *testing.T) error {
	if err := d.begin(t.Context()); err != nil {
		return err
	}
	for _, ph := range phases {
		if ph.apiOnly {
			continue
		}
		var s sample
		if err := d.slice(t.Context(), ph, 20*time.Millisecond, &s, ""); err != nil {
			return err
		}
		if s.ops == 0 || s.latency.total != s.ops || s.used <= 0 || s.wall <= 0 || s.latency.quantile(0.5) > s.latency.quantile(0.99) {
			t.Errorf("%s: %d operations in %s, %s of processor time", ph.name, s.ops, s.wall, s.used)
		}
	}
	return nil
}

// change alters the JSON of an answer.
func change(a *httptest.ResponseRecorder, do func(map[string]any)) {
	var v map[string]any
	if json.Unmarshal(a.Body.Bytes(), &v) == nil {
		do(v)
		b, _ := json.Marshal(v)
		a.Body.Reset()
		a.Body.Write(b)
	}
}

func TestWrongAnswerEndsTheRun(t *testing.T) {
	f, d := startFloor(t, nil)
	if err := d.all(t); err != nil {
		t.Fatalf("the floor as it is: %v", err)
	}
	const token, authorize = "/oauth2/token", "/oauth2/authorize"
	field := func(path, name string, value any) func(string, *http.Request, *httptest.ResponseRecorder) {
		return func(at string, _ *http.Request, a *httptest.ResponseRecorder) {
			if at == path {
				change(a, func(v map[string]any) { v[name] = value })
			}
		}
	}
	header := func(path, name, value string) func(string, *http.Request, *httptest.ResponseRecorder) {
		return func(at string, _ *http.Request, a *httptest.ResponseRecorder) {
			if at == path {
				a.Header().Set(name, value)
			}
		}
	}
	// Of an ID token that the right key has signed.
	claim := func(name string, value any) func(string, *http.Request, *httptest.ResponseRecorder) {
		return func(at string, _ *http.Request, a *httptest.ResponseRecorder) {
			if at == token {
				change(a, func(v map[string]any) {
					payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(v["id_token"].(string), ".")[1])
					var claims map[string]any
					_ = json.Unmarshal(payload, &claims)
					claims[name] = value
					v["id_token"] = string(f.sign("JWT", claims))
				})
			}
		}
	}
	query := func(name, value string) func(string, *http.Request, *httptest.ResponseRecorder) {
		return func(at string, _ *http.Request, a *httptest.ResponseRecorder) {
			if at == authorize {
				to, _ := url.Parse(a.Header().Get("Location"))
				q := to.Query()
				q.Set(name, value)
				to.RawQuery = q.Encode()
				a.Header().Set("Location", to.String())
			}
		}
	}
	for name, tt := range map[string]struct {
		alter func(string, *http.Request, *httptest.ResponseRecorder)
		want  string
	}{
		"issuer":                {field(metadataPath, "issuer", "http://elsewhere"), "floor: discovery: the issuer is"},
		"endpoint elsewhere":    {field(metadataPath, "token_endpoint", "http://elsewhere/token"), "floor: discovery: token_endpoint is"},
		"no keys":               {field("/.well-known/jwks.json", "keys", []any{}), "floor: jwks: there is no key"},
		"no status list":        {header(statusPath, "Content-Type", "text/plain"), "floor: status-list: the content type is"},
		"no ETag":               {func(_ string, _ *http.Request, a *httptest.ResponseRecorder) { a.Header().Del("Etag") }, "floor: status-list: there is no ETag, or no list"},
		"no code":               {query("code", ""), "floor: authorize: there is no code"},
		"state":                 {query("state", "another"), "floor: authorize: the state is another one"},
		"issuer of the code":    {query("iss", "http://elsewhere"), "floor: authorize: the issuer of the answer"},
		"refusal":               {query("error", "access_denied"), "floor: authorize: the answer is access_denied"},
		"to the sign-in page":   {header(authorize, "Location", "/login/?continue=x"), "floor: authorize: the answer leads to /login/ instead"},
		"no access token":       {field(token, "access_token", ""), "floor: token: an access, refresh or ID token"},
		"no refresh token":      {field(token, "refresh_token", nil), "floor: token: an access, refresh or ID token"},
		"kind of token":         {field(token, "token_type", "mac"), "floor: token: an access, refresh or ID token"},
		"stored":                {header(token, "Cache-Control", "public"), "floor: token: the answer may be stored"},
		"no ID token":           {field(token, "id_token", "not.a.token"), "floor: token: ID token: not a signed JWT"},
		"ID token of an issuer": {claim("iss", "http://elsewhere"), "floor: token: ID token: go-jose/go-jose/jwt: validation failed, invalid issuer claim (iss)"},
		"ID token of a client":  {claim("aud", []string{"another"}), "floor: token: ID token: go-jose/go-jose/jwt: validation failed, invalid audience claim (aud)"},
		"ID token of a user":    {claim("sub", "another"), "floor: userinfo: of another user"},
		"ID token without sub":  {claim("sub", ""), "floor: token: ID token: it lacks sub"},
		"ID token of yesterday": {claim("exp", time.Now().Add(-time.Hour).Unix()), "floor: token: ID token: go-jose/go-jose/jwt: validation failed, token is expired (exp)"},
		"ID token of long ago":  {claim("iat", time.Now().Add(-time.Hour).Unix()), "floor: token: ID token: it lacks sub, exp or iat, or was not issued now"},
		"nonce":                 {claim("nonce", "another"), "floor: token: ID token: the nonce"},
		"no nonce":              {claim("nonce", nil), "floor: token: ID token: the nonce"},
		"userinfo of another":   {field("/oauth2/userinfo", "preferred_username", "eve"), "floor: userinfo: of another user"},
		"inactive":              {field("/oauth2/introspect", "active", false), "floor: introspection: the token is not active"},
		"introspected: another": {field("/oauth2/introspect", "sub", "another"), "floor: introspection: the token is not active"},
		"expired":               {field("/oauth2/introspect", "exp", 1), "floor: introspection: the token is not active"},
		"not JSON":              {header("/oauth2/introspect", "Content-Type", "text/html"), "floor: introspection: the content type is"},
		"status": {func(at string, _ *http.Request, a *httptest.ResponseRecorder) {
			a.Code += map[bool]int{at == token: 3}[true]
		}, "floor: token: status 203 instead of 200"},
		"no cookie": {func(_ string, _ *http.Request, a *httptest.ResponseRecorder) { a.Header().Del("Set-Cookie") }, "floor: sign-in: no cookie was set"},
		"a list that is sent": {func(_ string, r *http.Request, a *httptest.ResponseRecorder) {
			a.Code += map[bool]int{r.Header.Get("If-None-Match") != "": 1}[true]
		}, "floor: status-list-304: status 305 instead of 304"},
		"refresh is not rotated": {func(at string, r *http.Request, a *httptest.ResponseRecorder) { keepRefresh(at, r, a) }, "floor: refresh: a token was not rotated"},
		"a document that changes": {func(at string, r *http.Request, a *httptest.ResponseRecorder) {
			if at == metadataPath {
				change(a, func(v map[string]any) { v["jti"] = rand.Text() })
			}
		}, "floor: discovery: the document has changed"},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := newDriver(&Target{Name: floorName, Setup: d.Setup, address: d.address, form: true}, os.Getpid(), 2)
			f.alter = tt.alter
			defer func() { f.alter = nil }()
			if err := fresh.all(t); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func keepRefresh(at string, r *http.Request, a *httptest.ResponseRecorder) {
	if at == "/oauth2/token" && r.PostFormValue("grant_type") == "refresh_token" {
		change(a, func(v map[string]any) { v["refresh_token"] = r.PostFormValue("refresh_token") })
	}
}

func TestForeignSignatureAndPasswordEndTheRun(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, d := startFloor(t, key)
	if err := d.all(t); err == nil || err.Error() != "floor: token: ID token: the signature of a JWT is wrong" {
		t.Errorf("another key has signed: %v", err)
	}
	_, d = startFloor(t, nil)
	d.Password = "rambling over 4 hills"
	if err := d.all(t); err == nil || !strings.HasPrefix(err.Error(), "floor: sign-in: status 401 instead of 303") {
		t.Errorf("wrong password: %v", err)
	}
}

// A code and a refresh token are good once at the floor, too: it does the work that it is
// the measure of.
func TestFloorSpendsOnce(t *testing.T) {
	_, d := startFloor(t, nil)
	if err := d.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := d.workers[0]
	p, err := w.authorize(t.Context(), d.workers[0].sessions[0], "")
	if err != nil {
		t.Fatal(err)
	}
	right := w.verifier
	w.Target.verifier = "another verifier"
	if _, err := w.exchange(t.Context(), p); err == nil {
		t.Error("a code was exchanged without its verifier")
	}
	w.Target.verifier = right
	if _, err := w.exchange(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := w.exchange(t.Context(), p); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("the second exchange of a code: %v", err)
	}
}

func TestOtherMachinesAreNotMeasured(t *testing.T) {
	for _, address := range []string{"192.0.2.1:80", "0.0.0.0:80", ":80", "localhost:80", "example.org:80", "[2001:db8::1]:80"} {
		c := connection{address: address}
		if _, err := c.do(t.Context(), "/", ""); err == nil || !strings.Contains(err.Error(), "measure on 127.0.0.1") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestQuantiles(t *testing.T) {
	var h histogram
	for n := range 1000 {
		h.note(time.Duration(n+1) * time.Millisecond)
	}
	for part, want := range map[float64]float64{0.5: 500, 0.99: 990, 0: 1} {
		if got := h.quantile(part); got < want*0.96 || got > want*1.01 {
			t.Errorf("quantile %g: %g ms, want about %g", part, got, want)
		}
	}
}

func TestTableComparesWithPeersAndWithAnEarlierRun(t *testing.T) {
	run := func(cairn, floor float64) Result {
		phases := func(rate float64) []PhaseResult {
			return []PhaseResult{{Phase: "token", Operations: 10, PerCPUSecond: rate}}
		}
		return Result{Servers: []ServerResult{{Name: "cairn", Phases: phases(cairn)}, {Name: floorName, Phases: phases(floor)}, {Name: "node"}}}
	}
	var b strings.Builder
	now, earlier := run(900, 300), run(400, 200)
	if err := now.Print(&b, &earlier); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := strings.Fields("token 10 0 900 0.00 0.00 0 0 300 0.00 0 3.00 - - - - 2.25 1.50")
	if got := strings.Fields(lines[len(lines)-1]); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// nodeHome is where testdata/node/install puts it.
func nodeHome() string {
	if home := os.Getenv("BENCH_NODE_HOME"); home != "" {
		return home
	}
	cache, _ := os.UserCacheDir()
	return filepath.Join(cache, "cairn-bench-node")
}

func TestNodePeerAnswersEveryPhase(t *testing.T) {
	if _, err := os.Stat(filepath.Join(nodeHome(), "installed-lock.json")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("testdata/node/install has not run")
		}
		t.Skip("testdata/node/install has not run")
	}
	o := Options{Workers: 2, Seconds: 0.1, Progress: io.Discard}
	folder := t.TempDir()
	target, p, err := o.installPeer(t.Context(), "node="+nodeHome(), folder, []string{"ada", "zoe"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.stop() }()
	d := newDriver(target, p.cmd.Process.Pid, 2)
	if err := d.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ph := range phases {
		var s sample
		err := d.slice(t.Context(), ph, 50*time.Millisecond, &s, "")
		if missing := ph.formOnly || ph.apiOnly; err != nil || (s.ops == 0) != missing {
			t.Errorf("%s: %d operations, %v", ph.name, s.ops, err)
		}
	}
}

func TestDatabaseOfARunIsDropped(t *testing.T) {
	server := os.Getenv("TEST_POSTGRES_DSN")
	if server == "" {
		t.Skip("TEST_POSTGRES_DSN is not set")
	}
	address, drop, err := NewDatabase(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	ping := func() error {
		pool, err := sql.Open("pgx", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pool.Close() }()
		return pool.PingContext(t.Context())
	}
	if err := ping(); err != nil {
		t.Errorf("it is not there: %v", err)
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if err := ping(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("it is still there: %v", err)
	}
}
