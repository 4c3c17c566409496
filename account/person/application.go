package person

import (
	"context"
	"net"
	"net/url"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// AppsFor returns the applications that a user may use: those that a browser can open and those with
// access to the account, except those whose access flag the user lacks. HomeURI is where a browser opens one.
func (s *Service) AppsFor(ctx context.Context, u account.User) ([]account.App, error) {
	had, err := s.Store().Apps(ctx, u.Sub, s.Now())
	if err != nil {
		return nil, err
	}
	var ids []string
	letIn := make(map[string]account.App, len(had))
	for _, a := range had {
		ids, letIn[a.ClientID] = append(ids, a.ClientID), a
	}
	offered, err := s.Store().OfferedApps(ctx, ids)
	apps, here := offered[:0], isLoopback(s.site.URL(""))
	for _, a := range offered {
		before, had := letIn[a.ClientID]
		a.Scopes, a.GrantedAt, a.LastUsedAt = before.Scopes, before.GrantedAt, before.LastUsedAt
		a.HomeURI = whereOpened(a, here)
		if account.HasFlags(u, a.RequireFlags, a.RequireAll) && (had || a.HomeURI != "") {
			apps = append(apps, a)
		}
	}
	return apps, err
}

// whereOpened returns where a browser opens the application: its home page, else the origin of its first redirect
// URI that a browser can open, "" for none. A loopback address counts only here, where the service has one itself:
// elsewhere it is the visitor's own machine.
func whereOpened(a account.App, here bool) string {
	for i, uri := range append([]string{a.HomeURI}, a.RedirectURIs...) {
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || isLoopback(uri) && !here {
			continue
		}
		if i == 0 {
			return uri
		}
		return u.Scheme + "://" + u.Host + "/"
	}
	return ""
}

// isLoopback reports whether a URI is of the machine that opens it.
func isLoopback(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

// LastingAccess returns the audit row of GiveLastingAccess, with its mails. Whether the proof of the act
// is needed depends on the access that the application has already, so package provider checks it.
// The limit of acts does not count it: there is one row in LastingTold for an application.
func (s *Service) LastingAccess(ctx context.Context, c account.Caller, clientID, name string) (*account.Audit, error) {
	mails, err := s.Notices(ctx, c.User, account.GiveLastingAccess.Told, "name", name)
	a := c.Audit(s.Now(), account.GiveLastingAccess, c.User.Handle, clientID).With(mails...)
	a.Proof = account.ProofSession
	return &a, err
}

// RemoveApp removes the access of an application to the caller's account. ErrAppNotFound.
func (s *Service) RemoveApp(ctx context.Context, c account.Caller, clientID string) error {
	a, err := s.begin(ctx, c, account.RemoveApp, clientID)
	if err != nil {
		return err
	}
	return web.Noted(ctx, "app_removed", s.Store().RemoveApp(ctx, c.User.Sub, clientID, s.Now(), a))
}
