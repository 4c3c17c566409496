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
	users    *account.Administration
	clients  ClientLister
}

// New makes a Service. clients may be nil: then there are none to list.
func New(accounts *account.Service, clients ClientLister) *Service {
	if clients == nil {
		clients = ClientListerFunc(func(context.Context) ([]Client, error) { return nil, nil })
	}
	return &Service{accounts: accounts, users: accounts.Administration(), clients: clients}
}

// methods are the handlers of a path by method.
type methods map[string]web.Handler

// Mount registers the endpoints on the router of the base path.
func (s *Service) Mount(m *mux.Router) {
	api := func(path string, of methods) { s.mount(m, path, of, s.accounts.RequireAdmin) }
	api("/api/admin/users", methods{"GET": s.listUsers})
	api("/api/admin/users/{handle}", methods{"GET": s.ofUser(s.showUser), "PATCH": s.ofUser(s.amendUser), "DELETE": s.ofUser(s.deleteUser)})
	api("/api/admin/users/{handle}/suspend", methods{"POST": s.ofUser(s.suspend)})
	api("/api/admin/users/{handle}/unsuspend", methods{"POST": s.ofUser(s.unsuspend)})
	api("/api/admin/users/{handle}/flags", methods{"PUT": s.ofUser(s.putFlags)})
	api("/api/admin/users/{handle}/reset-password-code", methods{"POST": s.ofUser(s.issueResetCode)})
	api("/api/admin/users/{handle}/sessions/end-all", methods{"POST": s.ofUser(s.endSessions)})
	api("/api/admin/users/{handle}/sessions/{id}", methods{"DELETE": s.ofUser(s.endSession)})
	api("/api/admin/settings", methods{"GET": s.showSettings, "PUT": s.putSettings})
	api("/api/admin/clients", methods{"GET": s.listClients})
	api("/api/admin/audit", methods{"GET": s.listAudit})

	page := func(path string, of methods) { s.mount(m, path, of, s.accounts.RequireAdminPage) }
	page("/admin/", methods{"GET": s.usersPage})
	page("/admin/users/{handle}", methods{"GET": s.ofUser(s.userPage)})
	page("/admin/users/{handle}/profile", methods{"POST": s.form("profile", s.profileForm)})
	page("/admin/users/{handle}/suspend", methods{"POST": s.form("end", s.suspendForm)})
	page("/admin/users/{handle}/unsuspend", methods{"POST": s.form("end", s.unsuspendForm)})
	page("/admin/users/{handle}/flags", methods{"POST": s.form("access", s.flagsForm)})
	page("/admin/users/{handle}/reset-password-code", methods{"POST": s.form("password", s.resetCodeForm)})
	page("/admin/users/{handle}/end-session", methods{"POST": s.form("sessions", s.endSessionForm)})
	page("/admin/users/{handle}/end-sessions", methods{"POST": s.form("sessions", s.endSessionsForm)})
	page("/admin/users/{handle}/delete", methods{"POST": s.form("end", s.deleteForm)})
}

// mount puts the guard before every method of a path, so that none is forgotten.
func (s *Service) mount(m *mux.Router, path string, of methods, guard func(http.HandlerFunc) http.HandlerFunc) {
	guarded := make(web.Methods, len(of))
	for method, h := range of {
		guarded[method] = guard(s.accounts.Do(h))
	}
	s.accounts.Handle(m, path, guarded)
}

// userHandler is a Handler about the user that the path names.
type userHandler func(w http.ResponseWriter, r *http.Request, u account.User) error

func (s *Service) ofUser(do userHandler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		u, err := s.users.User(r.Context(), mux.Vars(r)["handle"])
		if err != nil {
			return err
		}
		return do(w, r, u)
	}
}
