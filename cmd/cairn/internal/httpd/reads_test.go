package httpd

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// operations are those of a store since they were last taken.
type operations struct {
	mu    sync.Mutex
	names []string
}

func (o *operations) Operation(name string, _ time.Duration, failed bool) {
	if strings.Contains(name, "mail") || strings.Contains(name, "logout") || strings.Contains(name, "touch") {
		return // beside the requests
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if failed {
		name += " failed"
	}
	o.names = append(o.names, name)
}

func (o *operations) Revoked(string, int) {}

func (o *operations) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := o.names
	o.names = nil
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// A request of an application asks the database once for whom it is about, and once to
// write; client and settings are those of a moment ago. For offline_access authorize looks for what the
// person was told and has already.
func TestRequestsOfApplicationsReadOnce(t *testing.T) {
	db, seen := storetest.New(t), &operations{}
	noError(t, db.Observe(seen))
	s := startService(t, serviceOptions{Store: db, Now: func() time.Time { return time.Now().Truncate(time.Hour).Add(time.Minute) }}, "ada")
	rp := s.app("app", func(c *provider.Client) { c.Trusted = true }, "openid", "profile", "offline_access")
	b, first := s.signedInTokens(rp, "ada")
	needStatus(t, "refresh", rp.refresh(first.RefreshToken), http.StatusOK)
	var code string
	var token map[string]any
	got := map[string]string{}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"authorize", func() { code = answered(t, b.get(rp.authURL())).Get("code") }},
		{"code", func() { token = needStatus(t, "code", rp.redeem(code), http.StatusOK).JSON(t) }},
		{"userinfo", func() { s.wantUserinfo("userinfo", token["access_token"].(string), http.StatusOK) }},
		{"introspection", func() { rp.introspect(token["access_token"].(string)) }},
		{"introspection of a refresh token", func() { rp.introspect(token["refresh_token"].(string)) }},
		{"refresh", func() {
			needStatus(t, "refresh", rp.refresh(token["refresh_token"].(string)), http.StatusOK)
		}},
		{"not a token", func() { rp.post("introspect", url.Values{"token": {"a.b"}}) }},
		{"status list", func() {
			b.get("/oauth2/status/1")
			seen.take()
			b.get("/oauth2/status/1")
		}},
	} {
		seen.take()
		step.do()
		got[step.what] = seen.take()
	}
	want := map[string]string{
		"authorize": "create grant, read audit, read sessions", "code": "read grants, spend code", "userinfo": "read tokens", "introspection": "read tokens",
		"introspection of a refresh token": "read tokens", "refresh": "read tokens, rotate refresh token", "not a token": "", "status list": "read status_lists",
	}
	equal(t, "got", got, want)
}
