package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/activityschema"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/templates"
)

// parts are what the HTTP service is made of.
type parts struct {
	Config config.Checked
	Store  *store.Store
	Secret []byte            // shared HS256 secret
	Keys   []jose.JSONWebKey // empty: OpenID Connect is off
	Log    *slog.Logger
	Hasher *account.Hasher  // nil: the product's
	Now    func() time.Time // nil: time.Now
}

// application is the HTTP handler with what runs beside it.
type application struct {
	http.Handler
	background []func(context.Context) // each runs until its context ends
	beforeStop func()                  // lets go of requests that would outlast a stop
}

// run runs the background work until ctx ends, and returns when all has ended.
func (a *application) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, work := range a.background {
		all.Go(func() { work(ctx) })
	}
	all.Wait()
}

// newHandler is the one place where the packages meet.
func newHandler(ctx context.Context, p parts) (*application, error) {
	app := &application{}
	base := strings.TrimSuffix(p.Config.Issuer.EscapedPath(), "/")
	pages, err := templates.New(templates.Options{BasePath: base, HTTPS: p.Config.HTTPS, Now: p.Now})
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if p.Hasher == nil {
		if p.Hasher, err = account.NewHasher(); err != nil {
			return nil, err
		}
	}
	limits := newLimits(p.Config, p.Store, p.Now, p.Log)
	accounts, err := account.New(account.Options{
		Store: p.Store, Issuer: p.Config.IssuerString, Secret: p.Secret, Keys: p.Keys,
		CookieName: p.Config.CookieName, CookieDomain: p.Config.CookieDomain, LoginCookieName: p.Config.LoginCookieName,
		StatusTTL: p.Config.StatusTTL,
		Hasher:    p.Hasher, Limits: limits, Pages: pages, Now: p.Now, Log: p.Log,
	})
	if err != nil {
		return nil, err
	}
	pages.SetInstanceName(accounts.InstanceName)
	app.background = append(app.background, accounts.RetireHS256, accounts.WriteVisits)
	app.beforeStop = accounts.ReleaseStatusWaiters

	// No path cleaning: mux would answer //evil.example/.. with a redirect.
	root := mux.NewRouter().SkipClean(true)
	routes := root
	if base != "" {
		routes = root.PathPrefix(base).Subrouter()
	}
	accounts.Mount(routes)
	admin.New(accounts, clientLister{p.Store}).Mount(routes)
	if len(p.Keys) == 0 {
		provider.MountDisabled(routes, accounts)
	} else {
		installation, err := p.Store.Secret(ctx, account.SecretInstallation)
		if err != nil {
			return nil, fmt.Errorf("read the installation secret: %w", err)
		}
		oidc, err := provider.New(provider.Options{
			Accounts: accounts, Storage: p.Store, Issuer: p.Config.IssuerString, Keys: p.Keys, Secret: installation, Limits: limits, Now: p.Now, Log: p.Log,
		})
		if err != nil {
			return nil, err
		}
		oidc.Mount(routes)
		app.background = append(app.background, oidc.SendLogouts)
	}
	mountActivity(routes, accounts, limits)
	mountPlain(routes, accounts, pages, p.Store)
	root.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accounts.WriteProblem(w, r, web.NewProblem(http.StatusNotFound, "not_found", "There is nothing at this address."))
	})
	app.Handler = newMiddleware(p.Config, base, accounts, limits, p.Log).wrap(root)
	return app, nil
}

// mountPlain registers what belongs to no package: health, schema, static
// files and the way from the bare address to a page.
func mountPlain(m *mux.Router, a *account.Service, pages *templates.Renderer, st *store.Store) {
	a.Handle(m, "/healthz", web.Methods{"GET": func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	}})
	a.Handle(m, "/readyz", web.Methods{"GET": func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := st.Ping(ctx); err != nil {
			a.Fail(w, r, fmt.Errorf("readiness: %w: %w", account.ErrUnavailable, err))
			return
		}
		web.WriteJSON(w, http.StatusOK, map[string]string{"status": "ready"})
	}})
	schema := activityschema.Schema()
	sum := sha256.Sum256(schema)
	etag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` // weak: it is the same with gzip
	a.Handle(m, "/schemas/activity-1.0.json", web.Methods{"GET": func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=86400")
		h.Set("ETag", etag)
		if match := r.Header.Get("If-None-Match"); match == "*" || strings.Contains(match, strings.TrimPrefix(etag, "W/")) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/schema+json")
		_, _ = w.Write(schema)
	}})
	m.PathPrefix("/static/").Handler(pages.Static())
	for path, target := range map[string]string{"/": "/account/", "/login": "/login/", "/account": "/account/", "/admin": "/admin/", "/register": "/register/", "/reset-password": "/reset-password/", "/logout": "/logout/"} {
		a.Handle(m, path, web.Methods{"GET": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, a.Path(target), http.StatusSeeOther)
		}})
	}
}

// clientLister shows package admin the clients without letting it import
// package provider.
type clientLister struct{ st *store.Store }

// Clients implements admin.ClientLister.
func (l clientLister) Clients(ctx context.Context) ([]admin.Client, error) {
	clients, err := l.st.Clients(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]admin.Client, 0, len(clients))
	for _, c := range clients {
		out = append(out, admin.Client{
			ID: c.ID, Name: c.Name, Public: c.IsPublic(), RedirectURIs: c.RedirectURIs, Scopes: c.Scopes,
			RequireFlag: c.RequireFlag, Trusted: c.Trusted, CreatedAt: c.CreatedAt,
		})
	}
	return out, nil
}
