package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/store/storetest"
)

const (
	password  = "rambling over 3 hills"
	trailsAPI = "https://api.example.org"
	callback  = "http://127.0.0.1:9/callback"
)

// statusTTL is how long applications may use their copy of the status list.
const statusTTL = time.Second

// world is an installation: processes of the program, their database and those who use it.
type world struct {
	dir, disk, database string
	synced              string // see noteSyncs
	commands            sync.RWMutex
	programs            []string
	issuer              string
	each                []*instance
	postgres            *postgres // nil: SQLite
	mail                *mailbox
	http                *http.Client
	clients             map[string]browser.App
	requests            atomic.Int64
	names               atomic.Int64
	idle                chan *person
	admin               admin
	registry            registry
	verifier            *session.Verifier            // of an application
	trails              *session.AccessTokenVerifier // of an API
}

// instance is a process of the program.
type instance struct {
	w       *world
	n       int
	address string
	link    *link // to PostgreSQL
	mu      sync.Mutex
	starts  int
	cmd     *exec.Cmd
	ended   <-chan error
	log     *os.File
}

// newWorld makes an installation and starts it.
func newWorld(ctx context.Context, program, database string) (w *world, err error) {
	w = &world{programs: strings.Split(program, ","), database: database, http: browser.NewClient(10*time.Second, nil),
		clients: map[string]browser.App{}, idle: make(chan *person, 1024)}
	w.registry.seen = map[string]string{}
	if w.dir, err = os.MkdirTemp("", "cairn-histories-"); err != nil {
		return nil, err
	}
	defer func(w *world) {
		if err != nil {
			w.close()
		}
	}(w)
	if w.disk, err = os.MkdirTemp("", "cairn-histories-disk-"); err != nil {
		return nil, err
	}
	count := map[string]int{"sqlite": 1, "sqlite-two": 2, "postgres": 3}[database]
	switch database {
	case "postgres":
		if w.postgres, err = newPostgres(w.disk); err != nil {
			return nil, err
		}
	case "sqlite", "sqlite-two":
		if w.synced, err = w.noteSyncs(); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("no database %q: sqlite, sqlite-two, which is two services on one file, or postgres",
			database)
	}
	if w.mail, err = newMailbox(); err != nil {
		return nil, err
	}
	for n := range count {
		i := &instance{w: w, n: n}
		if i.address, err = freeAddress(); err != nil {
			return nil, err
		}
		if w.postgres != nil {
			if i.link, err = newLink(w.postgres); err != nil {
				return nil, err
			}
		}
		if i.log, err = os.Create(filepath.Join(w.dir, fmt.Sprintf("log-%d", n))); err != nil {
			return nil, err
		}
		w.each = append(w.each, i)
	}
	_, port, _ := net.SplitHostPort(w.each[0].address)
	w.issuer = "http://localhost:" + port
	keys := session.NewRemoteKeySet(w.issuer+"/.well-known/jwks.json", session.RemoteOptions{})
	status := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: w.issuer, Keys: keys})
	w.verifier = &session.Verifier{Issuer: w.issuer, Keys: keys, Status: status}
	w.trails = &session.AccessTokenVerifier{Issuer: w.issuer, Audience: trailsAPI, Keys: keys, Status: status}
	if err := os.WriteFile(filepath.Join(w.dir, "password"), []byte(password), 0o600); err != nil {
		return nil, err
	}
	if _, err := w.cairn(ctx, "init", "--config", "", "--handle", "keeper", "--password-file", "password",
		"--generate-key", "key.pem", "--listen", w.each[0].address); err != nil {
		return nil, err
	}
	if err := w.register(ctx); err != nil {
		return nil, err
	}
	for _, i := range w.each {
		err = errors.Join(err, i.start())
	}
	if err = errors.Join(err, w.ready(ctx)); err != nil {
		return nil, err
	}
	_, err = w.admin.session(ctx, w)
	return w, err
}

// register registers the clients.
func (w *world) register(ctx context.Context) error {
	for id, flags := range map[string][]string{
		"app":    {"--trusted"},
		"other":  {"--trusted"},
		"both":   {"--trusted", "--device"},
		"grace":  {"--trusted", "--refresh-grace", "30s"},
		"asking": {"--optional-scope", "email", "--optional-scope", "profile"},
		"flag":   {"--trusted", "--require-flag", "activity"},
		"tool":   {"--public", "--device"},
	} {
		if id != "tool" {
			flags = append(flags, "--redirect-uri", callback, "--allow-insecure-redirect", "--require-pkce")
		}
		out, err := w.cairn(ctx, append([]string{"client", "add", id, "--id", id, "-o", "json"}, flags...)...)
		if err != nil {
			return err
		}
		var c struct {
			Secret string `json:"client_secret"`
		}
		if err := json.Unmarshal([]byte(out), &c); err != nil {
			return fmt.Errorf("client %s: %w: %s", id, err, out)
		}
		w.clients[id] = browser.App{ID: id, Secret: c.Secret, Callback: callback}
	}
	for _, args := range [][]string{
		{"settings", "set", "sign_out_on_flag_loss", "true"},
		// the bit of a token stays set so long,
		{"api", "add", trailsAPI, "--name", "Trails", "--scope", "trails.read=See your trails", "--client", "app",
			"--lifetime", "24h"},
	} {
		if _, err := w.cairn(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// databaseOf is the database as a process sees it.
func (w *world) databaseOf(n int) string {
	if w.postgres != nil {
		return "postgres://postgres@" + w.each[n].link.address + "/postgres?sslmode=disable&connect_timeout=10"
	}
	return filepath.Join(w.disk, "cairn.db")
}

// environment of a process of the program.
func (w *world) environment(n int) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "LD_PRELOAD=" + w.synced, "SERVICE_LOG_LEVEL=info", "SERVICE_LOG_FORMAT=json",
		"SERVICE_OIDC_ISSUER=" + w.issuer, "SERVICE_DATABASE=" + w.databaseOf(n),
		"SERVICE_OIDC_PRIVATE_KEY_FILE=key.pem",
		"SERVICE_RATE_LIMITS=all=off,token=off,invite=off,login=off,login-address=off,login-account=off,sign-in=off," +
			"device=off,register=off,reset=off,forgot=off,acts=off",
		"SERVICE_STATUS_TTL=" + statusTTL.String(), "SERVICE_SMTP_URL=smtp://" + w.mail.address,
		"SERVICE_MAIL_FROM=club@example.org",
	}
}

// cairn runs a command of the program beside the service.
func (w *world) cairn(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.programs[0], args...)
	cmd.Dir, cmd.Env = w.dir, w.environment(0)
	if args[0] == "init" { // it writes what the others get from the environment
		cmd.Env = append(cmd.Env, "SERVICE_OIDC_PRIVATE_KEY_FILE=")
	}
	w.commands.RLock()
	defer w.commands.RUnlock()
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("cairn %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

// start starts the process; it does not wait until it is ready.
func (i *instance) start() (err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cmd = exec.Command(i.w.programs[i.starts%len(i.w.programs)], "serve", "--listen", i.address)
	i.cmd.Dir, i.cmd.Env = i.w.dir, i.w.environment(i.n)
	i.starts++
	i.cmd.Stdout, i.cmd.Stderr = i.log, i.log
	i.ended, err = storetest.Start(i.cmd)
	return err
}

// stop ends the process with a signal.
func (i *instance) stop(s syscall.Signal) {
	i.signal(s)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cmd != nil {
		<-i.ended
		i.cmd = nil
	}
}

func (i *instance) signal(s syscall.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cmd != nil {
		_ = i.cmd.Process.Signal(s)
	}
}

// ready waits until every instance serves.
func (w *world) ready(ctx context.Context) error {
	for end := time.Now().Add(time.Minute); ; {
		switch {
		case !slices.ContainsFunc(w.each, func(i *instance) bool {
			return w.get(ctx, i.n, "/readyz", "").Status != 200
		}):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			b, _ := os.ReadFile(w.each[0].log.Name())
			return fmt.Errorf("an instance does not get ready: %s", b[max(0, len(b)-2000):])
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *world) close() {
	for _, i := range w.each {
		i.signal(syscall.SIGCONT)
		i.stop(syscall.SIGKILL)
		if i.link != nil {
			i.link.close()
		}
		_ = i.log.Close()
	}
	if w.postgres != nil {
		w.postgres.close()
	}
	if w.mail != nil {
		w.mail.close()
	}
	_ = os.RemoveAll(w.disk)
	_ = os.RemoveAll(w.dir)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// admin is an administrator, who signs in again before the proof is no longer fresh.
type admin struct {
	mu    sync.Mutex
	token string
	at    time.Time
}

func (a *admin) session(ctx context.Context, w *world) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && time.Since(a.at) < 5*time.Minute {
		return a.token, nil
	}
	r := w.retry(ctx, func(at int) reply { return w.login(ctx, at, "keeper", password) })
	if r.Cookie(browser.SessionCookie) == "" {
		return "", fmt.Errorf("the administrator cannot sign in: %d %s %v", r.Status, r.Body, r.Err)
	}
	a.token, a.at = r.Cookie(browser.SessionCookie), time.Now()
	return a.token, nil
}

// manage is a request of the administrator.
func (w *world) manage(ctx context.Context, at int, method, path string, body any) reply {
	token, err := w.admin.session(ctx, w)
	if err != nil {
		return reply{browser.Answer{Err: err}}
	}
	return w.api(ctx, at, method, path, token, body)
}

// retry asks again, any instance, as long as the answer is unknown.
func (w *world) retry(ctx context.Context, ask func(at int) reply) (r reply) {
	for try := range 60 {
		r = ask(try)
		if o, _ := r.result(); o != unknown || ctx.Err() != nil {
			return r
		}
		time.Sleep(100 * time.Millisecond)
	}
	return r
}

// read asks for what changes nothing until there is an answer. Without one it says nothing.
func (w *world) read(at int, ask func(at int) reply, into ...*reply) (outcome, string) {
	for try := range 25 {
		r := ask(at + try)
		if o, note := r.result(); o != unknown {
			for _, to := range into {
				*to = r
			}
			return o, note
		}
		time.Sleep(100 * time.Millisecond)
	}
	return skipped, ""
}

// registry knows which token has which index of the status lists.
type registry struct {
	mu     sync.Mutex
	seen   map[string]string // whose they are
	faults []string
}

// note says that a token has an index, which none of another owner may have.
func (g *registry) note(token, owner string) {
	c := browser.ClaimsOf(token)
	if c.Status.List.URI == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := fmt.Sprintf("%s#%d", c.Status.List.URI, c.Status.List.Index)
	if before, has := g.seen[at]; has && before != owner {
		g.faults = append(g.faults, "two tokens have the index "+at+" of the status list")
	}
	g.seen[at] = owner
}

// fault notes what is wrong with no history.
func (g *registry) fault(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, why)
}

func (g *registry) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.faults = nil }()
	return g.faults
}

// kindNames are the names of all kinds, sorted.
func kindNames() []string { return slices.Sorted(maps.Keys(kinds)) }

// reply is an answer of the service.
type reply struct{ browser.Answer }

// send asks an instance; header are names and values.
func (w *world) send(
	ctx context.Context, at int, method, path, session, contentType, body string, header ...string,
) reply {
	w.requests.Add(1)
	if session != "" {
		header = append(header, "Cookie", browser.SessionCookie+"="+session)
	}
	address := "http://" + w.each[at%len(w.each)].address + path
	host := strings.TrimPrefix(w.issuer, "http://")
	q, err := browser.Request(ctx, method, address, host, contentType, body, header...)
	if err != nil {
		return reply{browser.Answer{Err: err}}
	}
	return reply{browser.Send(w.http, q)}
}

func (w *world) api(ctx context.Context, at int, method, path, session string, body any) reply {
	kind, text := browser.JSON(body)
	return w.send(ctx, at, method, path, session, kind, text)
}

// login is a sign-in by the password.
func (w *world) login(ctx context.Context, at int, handle, password string) reply {
	return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": handle, "password": password})
}

// get is a request of a browser.
func (w *world) get(ctx context.Context, at int, path, session string) reply {
	return w.send(ctx, at, "GET", path, session, "", "")
}

// post is a form that a browser sends.
func (w *world) post(ctx context.Context, at int, path, session string, form url.Values) reply {
	return w.send(ctx, at, "POST", path, session, browser.FormType, form.Encode())
}

// oauth is a request of a client, with its secret.
func (w *world) oauth(ctx context.Context, at int, path string, c browser.App, form url.Values) reply {
	return w.post(ctx, at, path, "", c.Form(form))
}

// userinfo asks for the claims with an access token.
func (w *world) userinfo(ctx context.Context, at int, access string) reply {
	return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+access)
}

// result is what the client knows: an error of the server or none at all leaves it open.
func (r reply) result() (outcome, string) {
	switch {
	case r.Err != nil:
		text := r.Err.Error()
		if i := strings.LastIndex(text, ": "); i >= 0 {
			text = text[i+2:]
		}
		return unknown, text
	case r.Unknown():
		return unknown, fmt.Sprint(r.Status)
	case r.Status < 400:
		return accepted, fmt.Sprint(r.Status)
	}
	why := r.Str("error")
	if why == "" {
		why = r.Str("code")
	}
	return refused, strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, why))
}

// gotCode is the result of an authorization request: without a code it was refused.
func (r reply) gotCode() (outcome, string) {
	out, note := r.result()
	if out == accepted && r.Code() == "" {
		return refused, note + " " + r.Location().Path + " " + r.Location().Query().Get("error")
	}
	return out, note
}
