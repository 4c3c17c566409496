package httpd

import (
	"net/http"
	"strings"
	"testing"
)

// The address that carries a decision stays in the browser's history. After the
// application was removed it must not let it in again: its tokens would stand in
// no list that the person sees.
func TestOldDecisionNeverLetsARemovedApplicationIn(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	b := s.browser()
	b.signIn("ada")
	page := b.get(b.get(rp.authURL()).Header.Get("Location"))
	f := pageForm(t, page.Text)
	f.values.Set("decision", "allow")
	decided := b.postForm(f.action, f.values).Header.Get("Location")
	if got := b.get(decided); !strings.Contains(got.Header.Get("Location"), "code=") {
		t.Fatalf("allowed: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
	if got := b.api("DELETE", "/api/me/apps/app", nil); got.StatusCode != http.StatusNoContent {
		t.Fatalf("remove: %d %s", got.StatusCode, got.Text)
	}
	if got := b.get(decided); !strings.HasPrefix(got.Header.Get("Location"), "/oauth2/consent?") {
		t.Errorf("the old decision: %d %s", got.StatusCode, got.Header.Get("Location"))
	}
}

// A request without a scope that is known is agreed to once, and not asked for
// again and again.
func TestConsentToNothingNeverLoops(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	rp := s.relyingParty("app", s.addClient("app", nil))
	if got := s.browser().authorize(rp.authURL("scope", "unknown"), "ada"); got.Get("code") == "" {
		t.Errorf("no code: %v", got)
	}
}
