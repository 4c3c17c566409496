package store_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func documentClient(id string, redirects ...string) *provider.Client {
	return &provider.Client{
		ID: id, Name: "agents.example.org: Agent", Document: true, RedirectURIs: redirects, Scopes: []string{"openid"},
		AuthMethod: provider.AuthNone, RequirePKCE: true, CreatedAt: noon,
	}
}

// Many keep a client at once, with the same description: nobody fails, and no consent is lost. Another redirect URI ends
// the consents; what is disallowed goes with all that is stored of it, and what another allowance lets in stays.
func TestDocumentClientIsKeptOnceAndRemovedWithItsAllowance(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const host, one, other = "https://agents.example.org/", "https://agents.example.org/a/1", "https://agents.example.org/b/2"
		ctx, u := t.Context(), addUser(t, s, "ada")
		for _, url := range []string{host + "*", host + "b/*"} {
			must(t, s.AllowClients(ctx, provider.Allowance{URL: url, Scopes: []string{"openid"}, CreatedAt: noon}, act("client.allow")))
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := s.KeepDocumentClient(ctx, documentClient(one, "https://a.example.org/cb")); err != nil {
					t.Error(err)
				}
				if err := s.SaveConsent(ctx, u.Sub, one, []string{"openid"}, noon, act("app.allow")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		consented := func(want int) {
			t.Helper()
			if scopes, err := s.ConsentedScopes(ctx, u.Sub, one); err != nil || len(scopes) != want {
				t.Errorf("consent to %v, %v", scopes, err)
			}
		}
		consented(1)
		must(t, s.KeepDocumentClient(ctx, documentClient(one, "https://a.example.org/cb", "https://evil.example/")))
		consented(0)
		must(t, s.KeepDocumentClient(ctx, documentClient(other, "https://b.example.org/cb")))
		changed := documentClient(other, "https://b.example.org/cb")
		const key = `{"keys":[{"kty":"EC","crv":"P-256","kid":"%d","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`
		for i, change := range []func(){
			func() { changed.Name = "agents.example.org: Other" }, func() { changed.Scopes = nil },
			func() { changed.AuthMethod, changed.JWKS = provider.AuthJWT, fmt.Appendf(nil, key, 1) },
			func() { changed.JWKS = fmt.Appendf(nil, key, 2) },
		} {
			change()
			must(t, s.KeepDocumentClient(ctx, changed))
			kept, err := s.Client(ctx, other)
			must(t, err)
			same(t, fmt.Sprint("change ", i), cmp.Diff(changed, kept, cmpopts.EquateEmpty()), "")
		}
		removed, err := s.DisallowClients(ctx, host+"*", act("client.disallow"))
		if err != nil || !slices.Equal(removed, []string{one}) {
			t.Errorf("removed %v, %v", removed, err)
		}
		want(t, func() error { _, err := s.DisallowClients(ctx, host+"*", act("client.disallow")); return err }(), provider.ErrClientNotFound)
		if left, err := s.Clients(ctx); err != nil || len(left) != 1 || left[0].ID != other || !left[0].Document {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// Of as many as are kept, those that nothing names make room; a request that has expired names none.
func TestDocumentClientsAreBounded(t *testing.T) {
	s := storetest.New(t)
	ctx, u := t.Context(), addUser(t, s, "ada")
	for i := range provider.MaxDocuments {
		id := fmt.Sprint("https://agents.example.org/", i)
		must(t, s.KeepDocumentClient(ctx, documentClient(id, "https://a.example.org/cb")))
		expires := noon // long ago
		if i == 8 {
			expires = time.Now().Add(time.Hour)
		}
		must(t, s.SavePushedRequest(ctx, fmt.Append(nil, i), id, "q", expires))
	}
	must(t, s.SaveConsent(ctx, u.Sub, "https://agents.example.org/7", []string{"openid"}, noon, act("app.allow")))
	must(t, s.KeepDocumentClient(ctx, documentClient("https://agents.example.org/new", "https://a.example.org/cb")))
	if left, err := s.Clients(ctx); err != nil || len(left) != 3 {
		t.Errorf("left %d, %v", len(left), err)
	}
}

func TestAllowanceIsHeldToTheRules(t *testing.T) {
	s := storetest.New(t)
	for _, url := range []string{
		"", "*", "https://*", "https://agents.example.org", "https://*.example.org/x", "https://agents.example.org*", "https://agents.example.org/a*", "https://agents.example.org/*/x",
		"http://agents.example.org/x", "https://a:b@agents.example.org/x", "https://agents.example.org/x#y", "https://agents.example.org/../x", "https://agents.example.org/%2e%2E/*",
		"https://Agents.example.org/x", "https://agents.example.org/?a/*", "https:///x", "https://agents.example.org/x y",
	} {
		err := s.AllowClients(t.Context(), provider.Allowance{URL: url, Scopes: []string{"openid"}, CreatedAt: noon}, act("client.allow"))
		if err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	for _, a := range []provider.Allowance{{Scopes: []string{"admin"}}, {Scopes: []string{"openid"}, APIs: []string{"urn:none"}}} {
		if a.URL = "https://agents.example.org/*"; s.AllowClients(t.Context(), a, act("client.allow")) == nil {
			t.Errorf("%v was accepted", a)
		}
	}
	if all, err := s.Allowances(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("stored %v, %v", all, err)
	}
}
