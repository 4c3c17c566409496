// Package httpd is the HTTP service. It joins the packages into one handler, with the middleware
// that every request passes. It leaves the listener, the format of the log and the shutdown to the
// command serve.
package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/letter"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/passkey"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/cmd/cairn/internal/disk"
	"github.com/cairn-id/cairn/cmd/cairn/internal/metrics"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/docs"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/templates"
)

// Options are the parts of the HTTP service.
type Options struct {
	Config config.Checked
	Store  *store.Store
	Secret []byte            // shared HS256 secret
	Keys   []jose.JSONWebKey // empty: OpenID Connect is off
	// Signer signs RS256 instead of the first key; nil: crypto/rsa signs.
	Signer jose.OpaqueSigner
	// KeyFile is the file of the first key; empty: the key's age is not checked.
	KeyFile string
	Log     *slog.Logger
	Hasher  *passwords.Hasher // nil: the product's
	Now     func() time.Time  // nil: time.Now
	Mail    mail.Sender       // nil: no mails are sent
	Metrics *metrics.Metrics  // nil: nothing is counted
	// MayLackKey is set if the operator wants no key, even though tokens were signed with one.
	MayLackKey bool
	// DocumentRoots and Program are passed on to provider.Options and templates.Options, for tests.
	DocumentRoots *x509.CertPool
	Program       templates.Program
}

// Handler is the HTTP handler with its background work.
type Handler struct {
	http.Handler
	background []func(context.Context) // each runs until its context ends
	routes     *mux.Router             // for the test that compares them with openapi.yaml

	// Elsewhere are the passkeys that no browser offers here.
	Elsewhere account.PasskeysElsewhere

	// BeforeStop ends held requests, which would delay a stop.
	BeforeStop func()

	stopping atomic.Bool
}

// AnnounceStop makes /readyz answer 503 from now on. Everything else is still served.
func (h *Handler) AnnounceStop() { h.stopping.Store(true) }

// Run runs the background work until ctx ends, and returns when all of it has ended.
func (h *Handler) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, work := range h.background {
		all.Go(func() { work(ctx) })
	}
	all.Wait()
}

// New connects the packages to one handler.
func New(ctx context.Context, o Options) (*Handler, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Handler{}
	base := strings.TrimSuffix(o.Config.Issuer.EscapedPath(), "/")
	pages, err := templates.New(templates.Options{BasePath: base, HTTPS: o.Config.HTTPS, Now: o.Now,
		Program: o.Program})
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if o.Hasher == nil {
		if o.Hasher, err = passwords.NewHasher(); err != nil {
			return nil, err
		}
	}
	installation, err := o.Store.Secret(ctx, account.SecretInstallation)
	if err != nil {
		return nil, fmt.Errorf("read the installation secret: %w", err)
	}
	limits := newLimits(o.Config, o.Store, o.Now, o.Log)
	party, err := passkey.NewParty(o.Config.IssuerString, o.Config.PasskeyHost, o.Config.PasskeyOrigins)
	if err != nil {
		return nil, err
	}
	service, err := newAccounts(o, pages, limits, party, installation)
	if err != nil {
		return nil, err
	}
	passkeys := passkey.New(service, party)
	if h.Elsewhere, err = passkeys.CheckPasskeys(ctx); err != nil {
		// The service starts beside a database that takes no writes, and is not ready: see readiness.
		o.Log.WarnContext(ctx, "the host of passkeys is not noted", "error", err)
	}
	accounts := site.New(service, passkeys)
	pages.SetInstanceName(accounts.InstanceName)
	h.background = append(h.background, accounts.RetireHS256, accounts.WriteVisits,
		letter.New(service, pages, o.Mail).SendMails, accounts.WatchEnds)
	pages.SetLook(accounts.Look)
	pages.SetWaiting(accounts.WaitingRequests)
	h.BeforeStop = accounts.StatusLists.Release

	// Without SkipClean, mux would answer //evil.example/.. with a redirect.
	root := mux.NewRouter().SkipClean(true)
	routes := root
	if base != "" {
		routes = root.PathPrefix(base).Subrouter()
	}
	ready := newReadiness(o, h.stopping.Load)
	if o.Metrics != nil {
		if err := observe(o, accounts, ready); err != nil {
			return nil, err
		}
		root.Use(noteRoute(base))
	}
	h.routes = routes
	accounts.Mount(routes)
	refused := &refused{store: o.Store, log: o.Log}
	administration := Administration(o)
	administration.RefusedSignIns = refused.list
	admin.New(accounts, administration).Mount(routes)
	h.background = append(h.background, refused.run)
	if err := h.mountProvider(o, root, base, accounts, limits, installation); err != nil {
		return nil, err
	}
	mountActivity(routes, accounts, limits)
	mountPlain(routes, accounts, pages, ready)
	root.NotFoundHandler = notFound(root, base, accounts)
	probe, err := newProbe(installation, o.Now)
	if err != nil {
		return nil, err
	}
	routes.Handle(probePath, accounts.Do(probe.answer(o.Config.TrustedProxies, root.NotFoundHandler)))
	byPath, err := literalPaths(root, base)
	h.Handler = (&middleware{
		config: o.Config, base: base, accounts: accounts, limits: limits, log: o.Log, metrics: o.Metrics, now: o.Now,
		refused: refused,
	}).wrap(byPath)
	return h, err
}

func newAccounts(
	o Options, pages *templates.Renderer, limits *web.Limits, party passkey.Party, installation []byte,
) (*person.Service, error) {
	return person.New(person.Options{
		Store: o.Store, Issuer: o.Config.IssuerString, Secret: o.Secret, Key: installation,
		Keys: o.Keys, Signer: o.Signer, CookieName: o.Config.CookieName, CookieDomain: o.Config.CookieDomain,
		PasskeyHosts:    party.Hosts(),
		LoginCookieName: o.Config.LoginCookieName, StatusTTL: o.Config.StatusTTL, Hasher: o.Hasher,
		Limits: limits, Pages: pages, Mail: o.Mail != nil, Now: o.Now, Log: o.Log,
		Unbound: o.Config.Unbound,
	})
}

func newReadiness(o Options, stopping func() bool) *readiness {
	ready := &readiness{
		stopping: stopping, store: o.Store, hasKey: len(o.Keys) > 0, mayLackKey: o.MayLackKey,
		freeSpace: disk.Free, log: o.Log,
	}
	if file := o.Store.File(); file != "" {
		ready.file, _ = os.Stat(file)
	}
	return ready
}

// mountProvider mounts OpenID Connect, or without a key what says that it is off.
func (h *Handler) mountProvider(
	o Options, root *mux.Router, base string, accounts *site.Site, limits *web.Limits, installation []byte,
) error {
	if len(o.Keys) == 0 {
		provider.MountDisabled(h.routes, accounts)
		return nil
	}
	oidc, err := provider.New(provider.Options{
		Accounts: accounts, Storage: o.Store, Issuer: o.Config.IssuerString, Keys: o.Keys, Signer: o.Signer,
		Secret: installation, Limits: limits, RequirePushed: o.Config.RequirePushed,
		Now: o.Now, Log: o.Log, DocumentRoots: o.DocumentRoots,
	})
	if err != nil {
		return err
	}
	oidc.Mount(h.routes)
	if base != "" {
		oidc.MountMetadata(root, base)
	}
	h.background = append(h.background, oidc.SendLogouts)
	return nil
}

// notFound answers for paths that lead to nothing, or redirects to the one with or without the last slash.
func notFound(root *mux.Router, base string, accounts *site.Site) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if other := otherSlash(root, base, r); other != "" {
			w.Header().Set("Cache-Control", "no-store")
			http.Redirect(w, r, other, http.StatusSeeOther)
			return
		}
		p := web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address.")
		accounts.WriteProblem(w, r, p)
	}
}

// newLimits returns the rate limits. They are counted in memory, or in a database that several
// instances may share (see web.NewLimits).
func newLimits(c config.Checked, st *store.Store, now func() time.Time, log *slog.Logger) *web.Limits {
	rates := make(map[string]web.Rate, len(c.RateLimits))
	for name, l := range c.RateLimits {
		rates[name] = web.Rate{Count: l.Count, Window: l.Window}
	}
	var shared web.Counters
	if st.Dialect() == store.Postgres {
		shared = st.Counters()
	}
	return web.NewLimits(rates, shared, now, log)
}

// Limits of the HTTP server against slow and greedy clients.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns a server with every limit set; net/http has none by default.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * passes the middleware like everything else
	}
	s.ErrorLog = stdlog.New(&serverErrors{server: s, log: log}, "", 0)
	return s
}

// serverErrors logs what a server reports of its connections, which is mostly what clients do. If it gets no new ones,
// as with too many open files, that is a warning, at most once a minute, and idle ones are closed to make room.
type serverErrors struct {
	server *http.Server
	log    *slog.Logger
	warned atomic.Bool // less than a minute ago
}

// Write implements io.Writer.
func (e *serverErrors) Write(line []byte) (int, error) {
	level, text := slog.LevelDebug, strings.TrimSpace(string(line))
	if strings.HasPrefix(text, "http: Accept error: ") {
		e.server.SetKeepAlivesEnabled(false) // closes them
		e.server.SetKeepAlivesEnabled(true)
		if !e.warned.Swap(true) {
			level = slog.LevelWarn
			time.AfterFunc(time.Minute, func() { e.warned.Store(false) })
		}
	}
	e.log.Log(context.Background(), level, text)
	return len(line), nil
}

// mountPlain registers the routes that belong to no package: health, schema, static files and redirects
// to pages.
func mountPlain(m *mux.Router, a *site.Site, pages *templates.Renderer, ready *readiness) {
	a.Handle(m, "/healthz", web.Methods{"GET": a.Do(func(w http.ResponseWriter, _ *http.Request) error {
		return web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})})
	a.Handle(m, "/readyz", web.Methods{"GET": a.Do(ready.serve)})
	schema := document("application/schema+json", 24*time.Hour, activityschema.Schema)
	a.Handle(m, "/schemas/activity-1.0.json", web.Methods{"GET": schema})
	openAPI := document("application/yaml", 5*time.Minute, func() []byte { return docs.OpenAPI(a.URL("")) })
	a.Handle(m, "/openapi.yaml", web.Methods{"GET": openAPI})
	m.PathPrefix("/static/").Handler(pages.Static())
	m.PathPrefix("/theme/").Handler(pages.Themes())
	a.Handle(m, "/", web.Methods{"GET": a.Do(func(w http.ResponseWriter, r *http.Request) error {
		return a.Redirect(w, r, "/account/")
	})})
}

// document serves a public text, which is made for the first request and which caches may keep until it reaches
// the age.
func document(kind string, age time.Duration, text func() []byte) http.HandlerFunc {
	made := sync.OnceValue(func() *templates.Document {
		body := text()
		sum := sha256.Sum256(body)
		etag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` // weak: the same with gzip
		return templates.NewDocument(kind, "public, max-age="+strconv.Itoa(int(age.Seconds())), etag, body, nil)
	})
	return func(w http.ResponseWriter, r *http.Request) { made().ServeHTTP(w, r) }
}

// Administration returns the options of package admin, which may not import what they need. It uses
// Store, Keys, KeyFile, Mail and Now.
func Administration(o Options) admin.Options {
	out := admin.Options{Now: o.Now, Mail: o.Mail != nil}
	out.Applications = func(ctx context.Context) (rows []templates.ApplicationRow, err error) {
		clients, err := o.Store.Clients(ctx)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(clients))
		for i, c := range clients {
			ids[i] = c.ID
		}
		uses, err := o.Store.ClientUses(ctx, ids)
		for _, c := range clients {
			use := uses[c.ID]
			rows = append(rows, templates.ApplicationRow{
				ID: c.ID, Name: c.Name, Public: c.IsPublic(), Trusted: c.Trusted,
				RequireFlags: c.RequireFlags, RequireAll: c.RequireAll, Claims: c.Claims, RequireACR: c.RequireACR,
				HomeURI: c.HomeURI, Logo: c.Logo.Hash,
				RedirectURIs: c.RedirectURIs, Scopes: c.Scopes, Optional: c.OptionalScopes,
				Users: use.Users, ManyUsers: use.Users >= account.ManyUsers,
				CreatedAt: c.CreatedAt, LastUsedAt: use.LastAt,
			})
		}
		return rows, err
	}
	out.APIs = func(ctx context.Context) (rows []templates.APIRow, err error) {
		apis, err := o.Store.APIs(ctx)
		for _, a := range apis {
			row := templates.APIRow{
				APIItem: templates.APIItem{Name: a.Name, URI: a.URI},
				Opaque:  a.Opaque, All: a.AllClients, Clients: a.Clients, Claims: a.Claims,
			}
			for _, s := range a.Scopes {
				row.Scopes = append(row.Scopes, templates.ScopeItem{Name: s.Name, Sentence: s.Sentence})
			}
			rows = append(rows, row)
		}
		return rows, err
	}
	out.LastBackup = func(ctx context.Context) (time.Time, error) {
		at, _, err := o.Store.LastTurn(ctx, store.TurnBackup)
		return at, err
	}
	if o.KeyFile != "" && len(o.Keys) > 0 {
		out.KeyCreated = func() (time.Time, error) { return keyCreated(o.KeyFile) }
	}
	return out
}

func keyCreated(file string) (time.Time, error) {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}, fmt.Errorf("age of the key: %w", err)
	}
	return info.ModTime(), nil
}
