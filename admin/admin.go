// Package admin serves the administrators of an installation: the API below
// /api/admin and the pages below /admin/, all of which require the admin flag.
//
// Package account defines the rules for accounts and administrators, and reaches storage.
// Clients are only listed here; the operator registers them on the command line.
package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Options configures the administration. Each field may be nil.
type Options struct {
	// Applications lists the registered clients in display order. Errors wrap account.ErrUnavailable.
	Applications func(ctx context.Context) ([]templates.ApplicationRow, error)
	// APIs lists the registered APIs in display order. Errors wrap account.ErrUnavailable.
	APIs func(ctx context.Context) ([]templates.APIRow, error)
	// RefusedSignIns lists the last refused sign-ins, newest first. Errors wrap account.ErrUnavailable.
	RefusedSignIns func(ctx context.Context) ([]templates.RefusedRow, error)
	// KeyCreated returns when the signing key was created. It is nil if there is no such key.
	KeyCreated func() (time.Time, error)
	// LastBackup returns when the last backup was made, zero if never.
	LastBackup func(ctx context.Context) (time.Time, error)
	// Mail reports whether mail is configured.
	Mail bool
	// Now is the clock for streamed answers; nil means time.Now.
	Now func() time.Time
}

// Service serves the administration endpoints. Safe for concurrent use.
type Service struct {
	accounts *site.Site
	users    *roster.Administration
	options  Options
}

// New returns a Service.
func New(accounts *site.Site, o Options) *Service {
	if o.Applications == nil {
		o.Applications = func(context.Context) ([]templates.ApplicationRow, error) { return nil, nil }
	}
	if o.APIs == nil {
		o.APIs = func(context.Context) ([]templates.APIRow, error) { return nil, nil }
	}
	if o.RefusedSignIns == nil {
		o.RefusedSignIns = func(context.Context) ([]templates.RefusedRow, error) { return nil, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{accounts: accounts, users: roster.Of(accounts.Base), options: o}
	accounts.ShowNextSteps(func(ctx context.Context, u account.User) (bool, error) {
		steps, err := s.nextSteps(ctx, u)
		return len(steps) > 0, err
	})
	return s
}

type methods map[string]web.Handler

// Mount registers the endpoints on the router of the base path.
func (s *Service) Mount(m *mux.Router) {
	api := func(path string, of methods) { s.mount(m, path, of, s.accounts.RequireAdmin) }
	api("/api/admin/users", methods{"GET": s.listUsers, "POST": web.Reading(s.addUser)})
	api("/api/admin/users/{handle}", methods{
		"GET": s.ofUser(s.showUser), "PATCH": s.ofUser(s.amendUser), "DELETE": s.ofUser(s.deleteUser),
	})
	api("/api/admin/users/{handle}/suspend", methods{"POST": s.ofUser(s.suspend)})
	api("/api/admin/users/{handle}/unsuspend", methods{"POST": s.ofUser(s.unsuspend)})
	api("/api/admin/users/{handle}/end", methods{"PUT": s.ofUser(s.putEnd)})
	api("/api/admin/users/{handle}/unlock", methods{"POST": s.ofUser(s.unlock)})
	api("/api/admin/users/{handle}/flags", methods{"PUT": s.ofUser(s.putFlags)})
	api("/api/admin/users/{handle}/reset-password-code", methods{"POST": s.ofUser(s.issueResetCode)})
	api("/api/admin/users/{handle}/reset-factors", methods{"POST": s.ofUser(s.resetFactors)})
	api("/api/admin/users/{handle}/sessions/end-all", methods{"POST": s.ofUser(s.endSessions)})
	api("/api/admin/users/{handle}/sessions/{id}", methods{"DELETE": s.ofUser(s.endSession)})
	api("/api/admin/invites/revoke", methods{"POST": web.Reading(s.revokeBranch)})
	api("/api/admin/invites/{code}", methods{"DELETE": s.revokeInvite})
	api("/api/admin/join-requests", methods{"GET": s.listJoinRequests})
	api("/api/admin/join-requests/{id}/accept", methods{"POST": s.acceptJoin})
	api("/api/admin/join-requests/{id}/refuse", methods{"POST": s.refuseJoin})
	api("/api/admin/settings", methods{"GET": s.showSettings, "PUT": web.Reading(s.putSettings)})
	api("/api/admin/clients", methods{"GET": s.listClients})
	api("/api/admin/refused-sign-ins", methods{"GET": s.listRefused})
	api("/api/admin/audit", methods{"GET": s.listAudit})

	page := func(path string, of methods) {
		for method, h := range of {
			of[method] = s.accounts.Form(h)
		}
		s.mount(m, path, of, s.accounts.RequireAdminPage)
	}
	page("/admin/", methods{"GET": s.overviewPage})
	page("/admin/steps", methods{"POST": web.OfForm(s.closeStepsForm)})
	page("/admin/test-mail", methods{"POST": web.OfForm(s.testMailForm)})
	page("/admin/users/", methods{"GET": s.usersPage, "POST": web.OfForm(s.addForm, "flag")})
	page("/admin/users.csv", methods{"GET": web.OwnSite(s.usersCSV)})
	page("/admin/users/selected", methods{"POST": web.OfForm(s.selectedForm, "who", "undo")})
	page("/admin/users/paste", methods{"GET": s.pastePage, "POST": s.pasteForm})
	page("/admin/invites", methods{"GET": s.invitesPage})
	page("/admin/invites/revoke", methods{"POST": web.OfForm(s.revokeForm)})
	page("/admin/join-requests", methods{"POST": web.OfForm(s.joinForm)})
	page("/admin/applications", methods{"GET": s.applicationsPage})
	page("/admin/settings", methods{"GET": s.settingsPage})
	page("/admin/settings/general", methods{"POST": s.settingsForm("general", generalSettings)})
	page("/admin/settings/joining", methods{"POST": s.settingsForm("joining", generalSettings)})
	page("/admin/settings/advanced", methods{"POST": s.settingsForm("advanced", advancedSettings)})
	page("/admin/settings/flags", methods{"POST": s.settingsForm("flags", flagSettings)})
	page("/admin/settings/security", methods{"POST": s.settingsForm("security", securitySettings)})
	page("/admin/settings/logo", methods{"POST": s.logoForm("logo")})
	page("/admin/settings/remove-logo", methods{"POST": s.logoRemoveForm("logo")})
	page("/admin/settings/dark-logo", methods{"POST": s.logoForm("dark-logo")})
	page("/admin/settings/remove-dark-logo", methods{"POST": s.logoRemoveForm("dark-logo")})
	page("/admin/audit", methods{"GET": s.auditPage})
	page("/admin/audit.csv", methods{"GET": web.OwnSite(s.auditCSV)})
	page("/admin/audit.jsonl", methods{"GET": web.OwnSite(s.auditJSONL)})
	page("/admin/users/{handle}", methods{"GET": s.ofUser(s.userPage)})
	page("/admin/users/{handle}/profile", methods{"POST": s.form("profile", s.profileForm)})
	page("/admin/users/{handle}/suspend", methods{"POST": s.form("end", s.suspendForm)})
	page("/admin/users/{handle}/unsuspend", methods{"POST": s.form("end", s.unsuspendForm)})
	page("/admin/users/{handle}/end", methods{"POST": s.form("ends", s.endForm)})
	page("/admin/users/{handle}/unlock", methods{"POST": s.form("password", s.unlockForm)})
	page("/admin/users/{handle}/flags", methods{"POST": s.form("access", s.flagsForm)})
	page("/admin/users/{handle}/reset-password-code", methods{"POST": s.form("password", s.resetCodeForm)})
	page("/admin/users/{handle}/reset-factors", methods{"POST": s.form("factors", s.resetFactorsForm)})
	page("/admin/users/{handle}/end-session", methods{"POST": s.form("sessions", s.endSessionForm)})
	page("/admin/users/{handle}/end-sessions", methods{"POST": s.form("sessions", s.endSessionsForm)})
	page("/admin/users/{handle}/delete", methods{"POST": s.form("end", s.deleteForm)})
}

// mount adds the guard to every method of a path. Further permissions are checked by the
// operation itself.
func (s *Service) mount(m *mux.Router, path string, of methods, guard func(http.HandlerFunc) http.HandlerFunc) {
	guarded := make(web.Methods, len(of))
	for method, h := range of {
		guarded[method] = guard(s.accounts.Do(h))
	}
	s.accounts.Handle(m, path, guarded)
}

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
