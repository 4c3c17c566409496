package account_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/provider"
)

// clients is the part of the store that package provider sees.
type clients interface {
	CreateClient(ctx context.Context, c *provider.Client) error
	SaveConsent(ctx context.Context, sub, clientID string, scopes []string, now time.Time) error
}

func TestNobodyEndsTheAccessOfAnothersApp(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.addUser("ada"), w.addUser("eve")
	store := w.store.(clients)
	c := &provider.Client{ID: "maps", Name: "Maps <b>", RedirectURIs: []string{"https://maps.example.org/cb"}, Scopes: []string{"openid", "profile"}, AuthMethod: provider.AuthNone, CreatedAt: w.clock.Now()}
	if err := store.CreateClient(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{ada.Sub, eve.Sub} {
		if err := store.SaveConsent(t.Context(), sub, "maps", []string{"openid", "profile"}, w.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	a, e := w.signedIn("ada"), w.signedIn("eve")
	granted := w.clock.Now().Format(time.RFC3339)
	want := `{"apps":[{"client_id":"maps","client_name":"Maps \u003cb\u003e","scopes":["openid","profile"],"granted_at":"` + granted + `","last_used_at":null}]}`
	if got := strings.TrimSpace(a.call("GET", "/api/me/apps", nil).is(200).body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a.page("/account/").shows(`data-app="maps"`, "Maps &lt;b&gt;")
	a.call("DELETE", "/api/me/apps/MAPS", nil).is(404, "app_not_found")
	a.call("DELETE", "/api/me/apps/maps", nil).is(204)
	a.call("DELETE", "/api/me/apps/maps", nil).is(404, "app_not_found")
	e.call("GET", "/api/me/apps", nil).shows(`"maps"`)
	e.call("GET", "/api/me/export", nil).shows(`"maps"`)
	e.page("/account/apps/remove", "client_id", "maps").redirectsTo("/account/?notice=app-removed#apps")
	e.call("GET", "/api/me/apps", nil).shows(`{"apps":[]}`)
}

func TestWhatCannotBeAnAppIsNone(t *testing.T) {
	w := newWorld(t)
	w.addUser("ada")
	b := w.signedIn("ada")
	b.call("GET", "/api/me/apps", nil).is(200).shows(`{"apps":[]}`)
	for _, id := range []string{"x", "%00", "%20", "a%0Ab", "%ff", strings.Repeat("x", 300)} {
		b.call("DELETE", "/api/me/apps/"+id, nil).is(404, "app_not_found")
	}
	w.browser().call("GET", "/api/me/apps", nil).is(401, "not_authenticated")
	w.browser().call("DELETE", "/api/me/apps/x", nil).is(401, "not_authenticated")
}
