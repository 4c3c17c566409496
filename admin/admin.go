// Package admin is the administrator's side of an installation: the API below
// /api/admin and the pages below /admin/, all behind the admin flag.
//
// It leaves to others: the rules about accounts and who is an administrator
// (package account), storage (behind account), and the registration of clients,
// which only the operator's command line can do; here they are only listed.
package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// Client is a registered OpenID Connect client as administrators see it; it has
// no secrets.
type Client struct {
	ID           string
	Name         string
	Public       bool
	RedirectURIs []string
	Scopes       []string
	RequireFlag  string // access flag that a user needs, or empty
	Trusted      bool   // first party: no consent page
	CreatedAt    time.Time
}

// ClientLister lists the registered clients in the order to show them. Errors
// wrap account.ErrUnavailable.
type ClientLister interface {
	Clients(ctx context.Context) ([]Client, error)
}

// ClientListerFunc lets a function be a ClientLister.
type ClientListerFunc func(ctx context.Context) ([]Client, error)

// Clients calls f.
func (f ClientListerFunc) Clients(ctx context.Context) ([]Client, error) { return f(ctx) }

// Service serves the administration endpoints. Safe for concurrent use.
type Service struct {
	accounts *account.Service
	office   *account.Administration
	clients  ClientLister
}

// New makes a Service. clients may be nil: then there are none to list.
func New(accounts *account.Service, clients ClientLister) *Service {
	if clients == nil {
		clients = ClientListerFunc(func(context.Context) ([]Client, error) { return nil, nil })
	}
	return &Service{accounts: accounts, office: accounts.Administration(), clients: clients}
}

// Mount registers the endpoints on the router of the base path.
func (s *Service) Mount(m *mux.Router) {
	api := func(path string, methods web.Methods) { s.mount(m, path, methods, s.accounts.RequireAdmin) }
	api("/api/admin/users", web.Methods{"GET": s.listUsers})
	api("/api/admin/users/{handle}", web.Methods{"GET": s.showUser, "PATCH": s.amendUser, "DELETE": s.deleteUser})
	api("/api/admin/users/{handle}/suspend", web.Methods{"POST": s.suspend})
	api("/api/admin/users/{handle}/unsuspend", web.Methods{"POST": s.unsuspend})
	api("/api/admin/users/{handle}/flags", web.Methods{"PUT": s.putFlags})
	api("/api/admin/users/{handle}/reset-password-code", web.Methods{"POST": s.issueResetCode})
	api("/api/admin/users/{handle}/sessions/end-all", web.Methods{"POST": s.endSessions})
	api("/api/admin/users/{handle}/sessions/{id}", web.Methods{"DELETE": s.endSession})
	api("/api/admin/settings", web.Methods{"GET": s.showSettings, "PUT": s.putSettings})
	api("/api/admin/clients", web.Methods{"GET": s.listClients})
	api("/api/admin/audit", web.Methods{"GET": s.listAudit})

	page := func(path string, methods web.Methods) { s.mount(m, path, methods, s.accounts.RequireAdminPage) }
	page("/admin/", web.Methods{"GET": s.usersPage})
	page("/admin/users/{handle}", web.Methods{"GET": s.userPage})
	page("/admin/users/{handle}/profile", web.Methods{"POST": s.form("profile", s.profileForm)})
	page("/admin/users/{handle}/suspend", web.Methods{"POST": s.form("end", s.suspendForm)})
	page("/admin/users/{handle}/unsuspend", web.Methods{"POST": s.form("end", s.unsuspendForm)})
	page("/admin/users/{handle}/flags", web.Methods{"POST": s.form("access", s.flagsForm)})
	page("/admin/users/{handle}/reset-password-code", web.Methods{"POST": s.form("password", s.resetCodeForm)})
	page("/admin/users/{handle}/end-session", web.Methods{"POST": s.form("sessions", s.endSessionForm)})
	page("/admin/users/{handle}/end-sessions", web.Methods{"POST": s.form("sessions", s.endSessionsForm)})
	page("/admin/users/{handle}/delete", web.Methods{"POST": s.form("end", s.deleteForm)})
}

// mount puts the guard before every method of a path, so that none is forgotten.
func (s *Service) mount(m *mux.Router, path string, methods web.Methods, guard func(http.HandlerFunc) http.HandlerFunc) {
	guarded := make(web.Methods, len(methods))
	for method, h := range methods {
		guarded[method] = guard(h)
	}
	s.accounts.Handle(m, path, guarded)
}
