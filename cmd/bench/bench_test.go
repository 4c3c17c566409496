package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// TestMain also makes this test binary the command bench of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"bench": main})
}

type suite struct{ m *testing.M }

var programs string // the folder of the program cairn

// Run implements testscript.TestingM.
func (s suite) Run() int {
	var err error
	if programs, err = os.MkdirTemp("", "cairn-bench-test-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(programs) }()
	return storetest.Main(s.m)
}

// Unlike go build, go run keeps what it has linked, and a copy of it is the program.
var build = sync.OnceValue(func() error {
	out, err := exec.Command("go", "run", "-exec=cp", "../cairn", programs).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build: %w: %s", err, out)
	}
	return err
})

// Each script in testdata is a session at a shell.
func TestCommands(t *testing.T) {
	racetest.Skip(t)
	must(t, build())
	setup := func(e *testscript.Env) error {
		e.Setenv("PATH", programs+string(os.PathListSeparator)+e.Getenv("PATH"))
		return nil
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", RequireExplicitExec: true, Setup: setup})
}

// change alters the JSON of an answer.
func change(a *http.Response, do func(map[string]any)) {
	body, _ := io.ReadAll(a.Body)
	var v map[string]any
	if json.Unmarshal(body, &v) == nil {
		do(v)
		body, _ = json.Marshal(v)
	}
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a.Header.Set("Content-Length", fmt.Sprint(len(body)))
}

// sign makes the JWT anew with a claim changed.
func sign(t *testing.T, key crypto.Signer, token, claim string, value any) string {
	t.Helper()
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	must(t, err)
	claims := map[string]any{}
	must(t, signed.UnsafeClaimsWithoutVerification(&claims))
	claims[claim] = value
	with := jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: signed.Headers[0].KeyID}}
	signer, err := jose.NewSigner(with, nil)
	must(t, err)
	token, err = jwt.Signed(signer).Claims(claims).Serialize()
	must(t, err)
	return token
}

// once signs in, and does one operation of each phase; begun is called between.
func once(ctx context.Context, t *target, begun func()) error {
	d := newDriver(t, 1)
	if err := d.begin(ctx); err != nil {
		return err
	}
	begun()
	for _, ph := range phases {
		if ph.prepare != nil {
			if err := ph.prepare(d.workers[0], ctx, 1); err != nil {
				return err
			}
		}
		if err := ph.operate(d.workers[0], ctx); err != nil {
			return fmt.Errorf("%s: %w", ph.name, err)
		}
	}
	return nil
}

// A proxy before cairn changes one thing of its answers.
func TestWrongAnswerEndsTheRun(t *testing.T) {
	racetest.Skip(t)
	must(t, build())
	in := installation{program: filepath.Join(programs, "cairn"), name: "cairn", folder: t.TempDir()}
	in.logLevel, in.sessions = "warn", 1
	started, err := in.start(t.Context())
	must(t, err)
	defer func() { _ = started.stop() }()
	b, _ := os.ReadFile(filepath.Join(in.folder, "key.pem"))
	block, _ := pem.Decode(b)
	own, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	must(t, err)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)

	type alteration func(path string, a *http.Response)
	var alter alteration
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: started.address})
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(a *http.Response) error {
			if alter != nil {
				alter(a.Request.URL.Path, a)
			}
			return nil
		},
	})
	defer proxy.Close()
	fresh := func() *target {
		return &target{
			name: "cairn", address: proxy.Listener.Addr().String(), issuer: started.issuer, password: started.password,
			clientID: started.clientID, clientSecret: started.clientSecret, handles: started.handles, api: started.api,
		}
	}

	const token, authorize, login = "/oauth2/token", "/oauth2/authorize", "/login/"
	const jwks, userinfo, introspect = "/.well-known/jwks.json", "/oauth2/userinfo", "/oauth2/introspect"
	header := func(path, name, value string) alteration {
		return func(at string, a *http.Response) {
			if at == path {
				a.Header.Set(name, value)
			}
		}
	}
	edit := func(path string, do func(v map[string]any)) alteration {
		return func(at string, a *http.Response) {
			if at == path {
				change(a, do)
			}
		}
	}
	field := func(path, name string, value any) alteration {
		return edit(path, func(v map[string]any) { v[name] = value })
	}
	signed := func(key crypto.Signer, claim string, value any) alteration {
		return edit(token, func(v map[string]any) {
			v["id_token"] = sign(t, key, v["id_token"].(string), claim, value)
		})
	}
	claim := func(name string, value any) alteration { return signed(own.(crypto.Signer), name, value) }
	query := func(name, value string) alteration {
		return func(at string, a *http.Response) {
			if at == authorize {
				to, _ := url.Parse(a.Header.Get("Location"))
				q := to.Query()
				q.Set(name, value)
				to.RawQuery = q.Encode()
				a.Header.Set("Location", to.String())
			}
		}
	}
	status := func(path string, from, to int) alteration {
		return func(at string, a *http.Response) {
			if at == path && a.StatusCode == from {
				a.StatusCode = to
			}
		}
	}
	const none = ""
	const missing = "token: an access, refresh or ID token"
	const validation = "go-jose/go-jose/jwt: validation failed, "
	const invalid = "token: ID token: " + validation
	begun := false // all users have signed in
	late := func(alter alteration) alteration {
		return func(at string, a *http.Response) {
			if begun {
				alter(at, a)
			}
		}
	}
	var first any // refresh token
	noRotation := edit(token, func(v map[string]any) {
		if first == nil {
			first = v["refresh_token"]
		}
		v["refresh_token"] = first
	})
	noCookie := func(_ string, a *http.Response) { a.Header.Del("Set-Cookie") }
	for _, tt := range []struct {
		name, want string
		alter      alteration
	}{
		{"nothing", none, nil},
		{"issuer", "discovery: the issuer is", field(metadataPath, "issuer", "http://elsewhere")},
		{"endpoint", "discovery: token_endpoint is", field(metadataPath, "token_endpoint", "http://elsewhere")},
		{"new document", "discovery: the document has changed", late(field(metadataPath, "x", 1))},
		{"no keys", "token: ID token: a JWT is signed with a key that is not", field(jwks, "keys", []any{})},
		{"no cookie", "sign-in: no cookie was set", noCookie},
		{"no sign-in", "sign-in: status 401 instead of 303", status(login, 303, 401)},
		{"no code", "authorize: there is no code", query("code", none)},
		{"state", "authorize: there is no code, or the state", query("state", "another")},
		{"refusal", "authorize: the answer is access_denied", query("error", "access_denied")},
		{"sign-in page", "authorize: the answer leads to /login/", header(authorize, "Location", "/login/?x")},
		{"status", "token: status 203 instead of 200", status(token, 200, 203)},
		{"no access token", missing, field(token, "access_token", none)},
		{"no refresh token", missing, field(token, "refresh_token", nil)},
		{"no ID token", "token: ID token: not a signed JWT", field(token, "id_token", "not.a.token")},
		{"signature", "token: ID token: the signature of a JWT is wrong", signed(foreign, "x", 1)},
		{"iss", invalid + "invalid issuer claim (iss)", claim("iss", "http://elsewhere")},
		{"aud", invalid + "invalid audience claim (aud)", claim("aud", "another")},
		{"sub", "token-api: access token: " + validation + "invalid subject claim (sub)", claim("sub", "another")},
		{"no sub", "token: ID token: it lacks sub", claim("sub", none)},
		{"exp", invalid + "token is expired (exp)", claim("exp", time.Now().Unix()-3600)},
		{"nonce", "token: ID token: the nonce", claim("nonce", "another")},
		{"no nonce", "token: ID token: the nonce", claim("nonce", nil)},
		{"no ETag", "status-list: there is no ETag, or no list", header(statusPath, "Etag", none)},
		{"list", "status-list-304: status 305 instead of 304", status(statusPath, 304, 305)},
		{"no JWT", "token-api: access token: not a signed JWT", late(field(token, "access_token", "x"))},
		{"no rotation", "refresh: a token was not rotated", noRotation},
		{"userinfo", "userinfo: of another user", field(userinfo, "preferred_username", "eve")},
		{"inactive", "introspection: the token is not active", field(introspect, "active", false)},
		{"of another", "introspection: the token is not active", field(introspect, "sub", "another")},
		{"no JSON", "introspection: the content type is", header(introspect, "Content-Type", "text/html")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alter, begun = tt.alter, false
			err := once(t.Context(), fresh(), func() { begun = true })
			got := strings.TrimPrefix(fmt.Sprint(err), "cairn: ")
			if !strings.HasPrefix(got, tt.want) || (err == nil) != (tt.want == none) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

func TestTableComparesWithPeers(t *testing.T) {
	phases := func(rate float64) []phaseResult {
		return []phaseResult{{Phase: "token", Operations: 10, PerCPUSecond: rate}}
	}
	var r result
	r.Servers = []serverResult{{Name: "cairn", Phases: phases(900)}, {Name: "peer", Phases: phases(300)}, {Name: "peer"}}
	var b strings.Builder
	must(t, r.print(&b))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := strings.Fields("token 10 0 900 0.00 0.00 0 0 300 0.00 0 3.00 - - - -")
	sameList(t, "lines", strings.Fields(lines[len(lines)-1]), want)
}

func TestDatabaseOfARunIsDropped(t *testing.T) {
	address, drop, err := newDatabase(t.Context(), storetest.PostgresDSN(t))
	must(t, err)
	ping := func() error {
		pool, err := sql.Open("pgx", address)
		must(t, err)
		defer func() { _ = pool.Close() }()
		return pool.PingContext(t.Context())
	}
	if err := ping(); err != nil {
		t.Errorf("it is not there: %v", err)
	}
	must(t, drop())
	if err := ping(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("it is still there: %v", err)
	}
}

var must = assert.Must

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
