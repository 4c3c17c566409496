package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// service is the whole program in this process: the handler that serve runs,
// on a real database, behind a real listener.
type service struct {
	t      *testing.T
	URL    string // the issuer
	store  *store.Store
	secret []byte // shared HS256 secret
	key    string // private key file, empty in HS256 mode
	log    *logBuffer
	hasher *account.Hasher
	server *httptest.Server
}

// serviceOptions change what a test starts; the zero value is RS256 on SQLite
// with the limits off.
type serviceOptions struct {
	HS256    bool
	Limits   bool // the default limits on
	Settings func(*config.Settings)
	Store    *store.Store // nil: a fresh SQLite database
	BasePath string       // path of the issuer
	Key      string       // private key file to use; empty: a fresh one
	Now      func() time.Time
}

// sharedKey is one RSA key for all tests that do not rotate it: making one
// takes longer than most tests.
var sharedKey = sync.OnceValue(func() string {
	path := filepath.Join(testDir, "key.pem")
	if _, err := config.GenerateKey(path, 2048); err != nil {
		panic(err)
	}
	return path
})

// startService runs until the test ends.
func startService(t *testing.T, o serviceOptions) *service {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, URL: fmt.Sprintf("http://localhost:%d%s", l.Addr().(*net.TCPAddr).Port, o.BasePath), store: o.Store, log: &logBuffer{}}
	if s.store == nil {
		s.store = storetest.New(t)
	}
	s.initialize()
	settings := config.Defaults()
	settings.Issuer = s.URL
	if !o.HS256 {
		s.key = o.Key
		if s.key == "" {
			s.key = sharedKey()
		}
		settings.PrivateKeyFile = s.key
	}
	if !o.Limits {
		for name := range config.DefaultRateLimits() {
			settings.RateLimits = append(settings.RateLimits, name+"=off")
		}
	}
	if o.Settings != nil {
		o.Settings(&settings)
	}
	checked, err := settings.Check()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := config.LoadSigningKeys(settings.PrivateKeyFile, settings.AdditionalKeyFiles)
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Options{
		Config: checked, Store: s.store, Secret: s.secret, Keys: keys, Hasher: s.hasher, Now: o.Now,
		Log: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.server = &httptest.Server{Listener: l, Config: NewServer(h, slog.New(slog.DiscardHandler))}
	s.server.Start()
	t.Cleanup(s.server.Close)
	runBackground(t, h)
	return s
}

// runBackground runs what serve runs beside the handler; it has ended before
// the store is closed.
func runBackground(t *testing.T, h *Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (s *service) initialize() {
	s.t.Helper()
	var err error
	if s.hasher, err = account.NewTestHasher(); err != nil {
		s.t.Fatal(err)
	}
	secrets := map[string][]byte{
		account.SecretJWT: []byte("a-shared-secret-of-more-than-32-bytes"), account.SecretInstallation: bytes.Repeat([]byte{7}, 48),
	}
	if _, err := s.store.Initialize(context.Background(), account.DefaultSettings(), secrets); err != nil {
		s.t.Fatal(err)
	}
	if s.secret, err = s.store.Secret(context.Background(), account.SecretJWT); err != nil {
		s.t.Fatal(err)
	}
}

// password of every user that addUser makes.
const password = "rambling over 3 hills"

// operator is an entry of the audit log.
func operator(action, target, detail string) account.Audit {
	return account.Audit{At: time.Now().UTC().Truncate(time.Second), Actor: "operator", Action: action, Target: target, Detail: detail}
}

func (s *service) addUser(handle string, flags ...string) account.User {
	s.t.Helper()
	hash, err := s.hasher.Hash(context.Background(), password)
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	u := account.User{Sub: uuid.NewString(), Handle: handle, DisplayName: strings.ToUpper(handle[:1]) + handle[1:], PasswordHash: hash, Flags: flags, CreatedAt: now, UpdatedAt: now}
	if err := s.store.CreateUser(context.Background(), u, operator("user.create", handle, "")); err != nil {
		s.t.Fatal(err)
	}
	return u
}

// addClient registers a confidential client; change adjusts it.
func (s *service) addClient(id string, change func(*provider.Client)) (secret string) {
	s.t.Helper()
	secret = "secret-of-" + id + "-0123456789abcdefghij"
	c := provider.NewClient(id, "App "+id, time.Now())
	c.RedirectURIs, c.Secrets = []string{callbackOf(id)}, []provider.ClientSecret{{Hash: provider.HashSecret(secret), CreatedAt: c.CreatedAt}}
	if change != nil {
		change(c)
	}
	if c.IsPublic() {
		c.Secrets, secret = nil, ""
	}
	if err := s.store.CreateClient(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// callbackOf is where a client gets its answers. Nothing listens there: the
// browser of the tests stops in front of it.
func callbackOf(id string) string { return "https://" + id + ".example.org/callback" }

// browser is a person's browser: a cookie jar, no automatic redirects.
type browser struct {
	t      *testing.T
	client *http.Client
	base   string
}

func (s *service) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: s.t, base: s.URL, client: &http.Client{
		Jar: jar, Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// response is an answer, read.
type response struct {
	*http.Response
	Text string
}

// JSON decodes the body as an object.
func (r response) JSON(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.Text), &v); err != nil {
		t.Fatalf("%s: not a JSON object: %v: %.200s", r.Request.URL.Path, err, r.Text)
	}
	return v
}

// do sends a request; path is relative to the issuer or absolute.
func (b *browser) do(method, path, contentType, body string, header ...string) response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, b.absolute(path), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	got, err := b.client.Do(r)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response{got, string(text)}
}

func (b *browser) absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		u, _ := url.Parse(b.base)
		if u.Path != "" && strings.HasPrefix(path, u.Path+"/") {
			return u.Scheme + "://" + u.Host + path
		}
		return b.base + path
	}
	return path
}

func (b *browser) get(path string, header ...string) response {
	b.t.Helper()
	return b.do(http.MethodGet, path, "", "", append([]string{"Accept", "text/html"}, header...)...)
}

func (b *browser) postForm(path string, form url.Values, header ...string) response {
	b.t.Helper()
	return b.do(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), append([]string{"Accept", "text/html"}, header...)...)
}

func (b *browser) api(method, path string, body any, header ...string) response {
	b.t.Helper()
	if body == nil {
		return b.do(method, path, "", "", header...)
	}
	text, ok := body.(string)
	if !ok {
		j, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		text = string(j)
	}
	return b.do(method, path, "application/json", text, header...)
}

// signIn signs the browser in through the API.
func (b *browser) signIn(handle string) {
	b.t.Helper()
	if got := b.api("POST", "/api/auth/login", map[string]string{"handle": handle, "password": password}); got.StatusCode != http.StatusOK {
		b.t.Fatalf("sign in as %s: %d %s", handle, got.StatusCode, got.Text)
	}
}

// cookie returns the value of a cookie that the browser holds for the service.
func (b *browser) cookie(name string) string {
	u, _ := url.Parse(b.base)
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// logBuffer collects the log of a service.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// wait returns when the text stands in the log.
func (l *logBuffer) wait(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !strings.Contains(l.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log never says %s: %s", text, l)
		}
	}
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
