package httpd

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/libcrypto"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/docs/openapitest"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
	"github.com/cairn-id/cairn/templates"
)

// testDir is for what all tests of the package share.
var testDir string

func TestMain(m *testing.M) { os.Exit(mainWithFolder(m)) }

func mainWithFolder(m *testing.M) int {
	var err error
	if testDir, err = os.MkdirTemp("", "cairn-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(testDir) }()
	defer func() {
		if stop := browserProcess.stop; stop != nil {
			stop()
		}
	}()
	return storetest.Main(m)
}

// programFile is the command cairn, for the tests that run it beside the service or
// instead of the one in this process. Unlike go build, go run keeps what it has linked, and a copy
// of it is the program.
var programFile = sync.OnceValue(func() string {
	file := filepath.Join(testDir, "cairn")
	if out, err := exec.Command("go", "run", "-exec=cp", "../..", file).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build cairn: %v: %s", err, out))
	}
	return file
})

// programPath is the variable PATH with the folder of the program first.
func programPath() string {
	return "PATH=" + filepath.Dir(programFile()) + string(os.PathListSeparator) + os.Getenv("PATH")
}

// Exit codes of the commands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// foreign skips a test in which another program acts, a browser or the command cairn, under the
// race detector, which sees nothing of it.
func foreign(t *testing.T) {
	t.Helper()
	racetest.Skip(t)
}

// thirdParty skips a test with relying parties, servers or tools of others, or with many pages in a
// browser, unless CI=true or TEST_FOREIGN=yes. They take most of the time.
func thirdParty(t *testing.T) {
	t.Helper()
	foreign(t)
	if os.Getenv("CI") != "true" && os.Getenv("TEST_FOREIGN") != "yes" {
		t.Skip("software of others acts here: just test-foreign")
	}
}

// another is thirdParty for software of a kind of which CI runs one already.
func another(t *testing.T) {
	t.Helper()
	thirdParty(t)
	if os.Getenv("TEST_FOREIGN") != "yes" {
		t.Skip("another of its kind acts elsewhere: just test-foreign")
	}
}

// cairn runs a command that ends with the exit code want, and returns what it printed.
func cairn(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	foreign(t)
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), programFile(), args...)
	c.Env, c.Stdout, c.Stderr = []string{}, &out, &errs
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || c.ProcessState.ExitCode() != want {
		t.Fatalf("cairn %s: %v %v, want the exit code %d: %s%s", strings.Join(args, " "), err, exit, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// service is the whole program in this process: the handler that serve runs,
// on a real database, behind a real listener.
type service struct {
	t      *testing.T
	URL    string // the issuer
	store  *store.Store
	secret []byte // shared HS256 secret
	key    string // private key file, empty in HS256 mode
	log    *logBuffer
	hasher *passwords.Hasher
	server *httptest.Server

	handler *Handler
	// stopBackground ends what runs beside it, and returns when all has ended.
	stopBackground func()
	keys           []jose.JSONWebKey
	roots          *x509.CertPool
}

// serviceOptions change what a test starts; the zero value is RS256 on SQLite
// with the limits off.
type serviceOptions struct {
	HS256    bool
	Limits   bool // the default limits on
	Settings func(*config.Settings)
	Store    *store.Store // nil: a fresh SQLite database
	BasePath string       // path of the issuer
	Key      string       // private key file to use; empty: a shared one
	Now      func() time.Time
	Hasher   *passwords.Hasher // nil: a cheap one
	Mail     mail.Sender
	Metrics  *metrics.Metrics

	DocumentRoots *x509.CertPool
	Program       templates.Program
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

var besides sync.Map // names of the tests that run beside others

// beside lets a test run beside others, but not the parts of one beside one another.
func beside(t *testing.T) {
	t.Helper()
	if _, done := besides.LoadOrStore(t.Name(), true); !done && !strings.Contains(t.Name(), "/") {
		t.Parallel()
	}
}

// startService runs until the test ends, which runs beside others unless it has its own hasher. It has these members.
func startService(t *testing.T, o serviceOptions, members ...string) *service {
	t.Helper()
	if o.Hasher == nil {
		beside(t)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	s := &service{t: t, URL: fmt.Sprintf("http://localhost:%d%s", l.Addr().(*net.TCPAddr).Port, o.BasePath),
		store: o.Store, hasher: o.Hasher, log: &logBuffer{}, roots: o.DocumentRoots}
	if s.store == nil {
		s.store = storetest.New(t)
	}
	if s.hasher == nil {
		if s.hasher, err = passwords.NewTestHasher(); err != nil {
			t.Fatal(err)
		}
	}
	s.initialize()
	if !o.HS256 {
		s.key = cmp.Or(o.Key, sharedKey())
	}
	s.serve(l, o, slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, handle := range members {
		s.addUser(handle)
	}
	return s
}

// serve runs the handler behind the listener until the test ends.
func (s *service) serve(l net.Listener, o serviceOptions, log *slog.Logger) {
	s.t.Helper()
	settings := config.Defaults()
	settings.Issuer, settings.PrivateKeyFile = s.URL, s.key
	if !o.Limits {
		for name := range config.DefaultRateLimits() {
			settings.RateLimits = append(settings.RateLimits, name+"=off")
		}
	}
	if o.Settings != nil {
		o.Settings(&settings)
	}
	checked, err := settings.Check()
	noError(s.t, err)
	keys, err := config.LoadSigningKeys(settings.PrivateKeyFile, settings.AdditionalKeyFiles)
	noError(s.t, err)
	s.keys = keys
	options := Options{Config: checked, Store: s.store, Secret: s.secret, Keys: keys, MayLackKey: settings.NoOIDC,
		Hasher: s.hasher, Mail: o.Mail, Now: o.Now, Log: log, Metrics: o.Metrics, DocumentRoots: o.DocumentRoots, Program: o.Program}
	if len(keys) > 0 {
		options.Signer, _ = libcrypto.Choose(keys[0], false)
	}
	if o.Metrics != nil {
		options.KeyFile = settings.PrivateKeyFile
	}
	h, err := New(s.t.Context(), options)
	noError(s.t, err)
	s.handler = h
	s.server = &httptest.Server{Listener: l,
		Config: NewServer(openapitest.Handler(s.t, checked.Issuer.Path, h), slog.New(slog.DiscardHandler))}
	s.server.Start()
	s.t.Cleanup(s.server.Close)
	s.stopBackground = runBackground(s.t, h)
}

// restartAt starts a service with a key on the address and database of one
// that was closed.
func restartAt(t *testing.T, old *service, address string) *service {
	t.Helper()
	u, err := url.Parse(address)
	noError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:"+u.Port())
	noError(t, err)
	s := &service{t: t, URL: address, store: old.store, log: &logBuffer{}, key: sharedKey(), hasher: old.hasher,
		secret: old.secret}
	s.serve(l, serviceOptions{Limits: true}, slog.New(slog.DiscardHandler))
	return s
}

// runBackground runs what serve runs beside the handler; it has ended before
// the store is closed.
func runBackground(t *testing.T, h *Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func (s *service) initialize() {
	s.t.Helper()
	secrets := map[string][]byte{
		account.SecretJWT: []byte("a-shared-secret-of-more-than-32-bytes"), account.SecretInstallation: bytes.Repeat([]byte{7}, 48),
	}
	_, err := s.store.Initialize(context.Background(), account.DefaultSettings(), secrets)
	if err == nil {
		s.secret, err = s.store.Secret(context.Background(), account.SecretJWT)
	}
	noError(s.t, err)
}

// operator is an entry of the audit log.
func operator(act account.Act, target, detail string) account.Audit {
	return account.Operator().Audit(time.Now().UTC().Truncate(time.Second), act, target, detail)
}

// password of every user that addUser makes.
const password = "rambling over 3 hills"

func (s *service) addUser(handle string, flags ...string) account.User {
	s.t.Helper()
	hash, err := s.hasher.Hash(context.Background(), password)
	noError(s.t, err)
	now := time.Now().UTC().Truncate(time.Second)
	u := account.User{Sub: uuid.NewString(), Handle: handle, DisplayName: strings.ToUpper(handle[:1]) + handle[1:],
		PasswordHash: hash, Flags: flags, CreatedAt: now, UpdatedAt: now}
	noError(s.t, s.store.CreateUser(context.Background(), u, operator(account.AddUser, handle, "")))
	return u
}

// addUserWithEmail makes a user of whom there is more to show than a name.
func (s *service) addUserWithEmail(handle string) account.User {
	s.t.Helper()
	u, err := roster.NewAdministration(s.store, nil).Amend(s.t.Context(), account.Operator(), s.addUser(handle), account.UserChange{"email": handle + "@example.org"})
	noError(s.t, err)
	return u
}

// addClient registers a confidential client; change adjusts it.
func (s *service) addClient(id string, change func(*provider.Client)) (secret string) {
	s.t.Helper()
	secret = "secret-of-" + id + "-0123456789abcdefghij"
	c := provider.NewClient(id, "App "+id, time.Now())
	c.RedirectURIs = []string{callbackOf(id)}
	c.Secrets = []provider.ClientSecret{{Hash: account.HashSecret(secret), CreatedAt: c.CreatedAt}}
	if change != nil {
		change(c)
	}
	if c.IsPublic() {
		c.Secrets, secret = nil, ""
	}
	noError(s.t, s.store.CreateClient(context.Background(), c, account.Operator().Audit(time.Now(), account.RegisterClient, "", "")))
	return secret
}

// callbackOf is where a client gets its answers. Nothing listens there: the
// browser of the tests stops in front of it.
func callbackOf(id string) string { return "https://" + id + ".example.org/callback" }

// startApp is a service with the user ada and the client app.
func startApp(t *testing.T, change func(*provider.Client), scopes ...string) (*service, *relyingParty) {
	t.Helper()
	s := startService(t, serviceOptions{}, "ada")
	return s, s.app("app", change, scopes...)
}

// startDatabaseApp is startApp with a second way into the database.
func startDatabaseApp(
	t *testing.T, change func(*provider.Client), scopes ...string,
) (*service, *rawDatabase, *relyingParty) {
	t.Helper()
	s, db := startServiceWithDatabase(t, serviceOptions{}, "ada")
	return s, db, s.app("app", change, scopes...)
}

// rawDatabase is a second way into the SQLite file of a service: it ages rows
// and makes statements fail, which no exported method can.
type rawDatabase struct {
	t  *testing.T
	db *sql.DB
}

func startServiceWithDatabase(t *testing.T, o serviceOptions, members ...string) (*service, *rawDatabase) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.db")
	o.Store = storetest.Open(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_busy_timeout=10000")
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return startService(t, o, members...), &rawDatabase{t, db}
}

func (d *rawDatabase) exec(query string, args ...any) int64 {
	d.t.Helper()
	res, err := d.db.ExecContext(d.t.Context(), query, args...)
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	n, _ := res.RowsAffected()
	return n
}

func (d *rawDatabase) count(query string, args ...any) (n int) {
	d.t.Helper()
	if err := d.db.QueryRowContext(d.t.Context(), query, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return n
}

// breaks makes every statement of that kind fail ("INSERT ON tokens") until
// the returned function is called.
func (d *rawDatabase) breaks(what string) (mend func()) {
	d.t.Helper()
	d.exec("CREATE TRIGGER broken BEFORE " + what + " BEGIN SELECT RAISE(ABORT, 'disk on fire'); END")
	return func() { d.t.Helper(); d.exec("DROP TRIGGER broken") }
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
	end := time.Now().Add(15 * time.Second)
	for ; !strings.Contains(l.String(), text); time.Sleep(20 * time.Millisecond) {
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

// bothInstallations runs an attack with the default limits on, in both cookie schemes and on both
// databases, each once.
func bothInstallations(t *testing.T, attack func(t *testing.T, s *service)) {
	t.Helper()
	beside(t)
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		attack(t, startLimited(t, dsn, !store.IsPostgres(dsn)))
	})
}

// startLimited starts a service as an operator would, with the default limits,
// kept where they are kept on this database.
func startLimited(t *testing.T, dsn string, hs256 bool) *service {
	t.Helper()
	return startService(t, serviceOptions{HS256: hs256, Limits: true, Store: storetest.Open(t, dsn),
		Settings: func(c *config.Settings) { c.Database = dsn }})
}

// installed is the real program, run as a command in a folder of its own.
type installed struct {
	*service
	dir  string
	cmd  *exec.Cmd
	env  []string
	stop func() // as an operator does, and waits; also at the end of the test
}

// newInstalled is an initialized installation with the administrator keeper, on
// the database at dsn (empty: cairn.db in its folder).
func newInstalled(t *testing.T, hs256 bool, dsn string) *installed {
	t.Helper()
	foreign(t)
	beside(t)
	p := &installed{service: &service{t: t, log: &logBuffer{}}, dir: t.TempDir(), env: []string{programPath()}}
	if store.IsPostgres(dsn) {
		p.env = append(p.env, "SERVICE_DATABASE="+dsn)
	}
	p.write("password", password+"\n")
	args := []string{"init", "--handle", "keeper", "--password-file", "password"}
	if !hs256 {
		copyFile(t, sharedKey(), filepath.Join(p.dir, "key.pem"), nil)
		p.env = append(p.env, "SERVICE_OIDC_PRIVATE_KEY_FILE=key.pem")
	}
	p.run(args...)
	return p
}

func (p *installed) write(name, text string) {
	p.t.Helper()
	noError(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

func (p *installed) command(args ...string) *exec.Cmd {
	// a test's own context ends before its clean-up
	c := exec.CommandContext(context.Background(), programFile(), args...)
	c.Dir, c.Env = p.dir, p.env
	return c
}

// run runs a command and returns what it printed.
func (p *installed) run(args ...string) string {
	p.t.Helper()
	var complaint bytes.Buffer
	c := p.command(args...)
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("cairn %s: %v: %s", args[0], err, complaint.String())
	}
	return string(out)
}

// serve starts the service and waits until it listens.
func (p *installed) serve() {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	noError(p.t, err)
	address := l.Addr().(*net.TCPAddr)
	_ = l.Close()
	p.URL = fmt.Sprintf("http://localhost:%d", address.Port)
	p.cmd = p.command("serve", "--listen", address.String(), "--issuer", p.URL)
	p.cmd.Stdout = p.log
	pipe, err := p.cmd.StderrPipe()
	noError(p.t, err)
	noError(p.t, p.cmd.Start())
	started, ended := make(chan struct{}), make(chan struct{})
	p.stop = sync.OnceFunc(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := p.cmd.Wait(); err != nil {
			p.t.Errorf("serve ended with %v", err)
		}
	})
	p.t.Cleanup(p.stop)
	go func() {
		defer close(ended)
		once := sync.OnceFunc(func() { close(started) })
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			_, _ = p.log.Write(append(lines.Bytes(), '\n'))
			if strings.Contains(lines.Text(), `"msg":"started"`) {
				once()
			}
		}
	}()
	select {
	case <-started:
	case <-ended:
		p.t.Fatalf("serve: %s", p.log)
	case <-time.After(10 * time.Second):
		p.t.Fatal("serve does not start")
	}
}

func (p *installed) hasKey() bool { return strings.Contains(strings.Join(p.env, " "), "PRIVATE_KEY") }

// jsonOf decodes what a command printed with -o json.
func jsonOf(t *testing.T, text string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, text)
	}
	return v
}
