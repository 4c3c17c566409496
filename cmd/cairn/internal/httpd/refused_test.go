package httpd

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
)

// The number that somebody reads from an error page leads the administrators to the reason and to what mends it.
func TestNumberOfARefusedSignInLeadsToItsRemedy(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.RequireFlags = []string{account.FlagActivity} })
	s.addUser("keeper", account.FlagAdmin)
	s.addUser("bob")
	keeper, bob, stranger := s.signedIn("keeper"), s.signedIn("bob"), s.browser()
	number := func(got response, status int) string {
		t.Helper()
		n := elementByID(t, needStatus(t, "refused", got, status).Text, "request-id")
		if n == nil {
			t.Fatalf("no number: %s", got.Text)
		}
		return elementText(n)
	}
	elsewhere := strings.Replace(rp.authURL(), "callback", "elsewhere", 1)
	for _, c := range []struct {
		number, client, reason, command string
		in                              bool
	}{
		{number(bob.get(rp.authURL()), 403), "app", "flag", "cairn user flags USER +PERMISSION", true},
		{number(stranger.get(elsewhere), 400), "app", "redirect_uri", "cairn client update app --add-redirect-uri URI", false},
		{number(stranger.get("/oauth2/authorize?client_id=nobody"), 400), "", "client_unknown", "cairn client list", false},
	} {
		typed := strings.ToLower(c.number[:6])
		page := needStatus(t, "found", keeper.get("/admin/applications?number=+"+typed), 200).Text
		found := elementByID(t, page, "found")
		if found == nil || !strings.Contains(elementText(found), c.number) || !strings.Contains(elementText(found), c.command) {
			t.Errorf("%s: %v", c.reason, found)
		}
		got := keeper.api("GET", "/api/admin/refused-sign-ins?number="+c.number, nil)
		list := needStatus(t, "API", got, 200).JSON(t)["refused_sign_ins"].([]any)
		if len(list) != 1 {
			t.Fatalf("%s: %s", c.reason, got.Text)
		}
		row := list[0].(map[string]any)
		id, _ := row["client_id"].(string)
		if id != c.client || row["reason"] != c.reason || row["signed_in"] != c.in || row["command"] != c.command {
			t.Errorf("%s: %v", c.reason, row)
		}
	}
	// Not a fault of anybody's: a silent question whether somebody is signed in.
	silent := s.logged(stranger.get(rp.authURL("prompt", "none")))["request_id"].(string)
	page := keeper.get("/admin/applications?number=" + silent).Text
	if found := elementText(elementByID(t, page, "found")); !strings.Contains(found, "No refused sign-in of the last 30 days") {
		t.Errorf("silent: %s", found)
	}
	if got := elementText(elementByID(t, page, "refused-unknown")); !strings.Contains(got, "client_unknown") {
		t.Errorf("unknown applications: %s", got)
	}
	wantProblem(t, "long", keeper.api("GET", "/api/admin/refused-sign-ins?number="+strings.Repeat("A", 65), nil), http.StatusBadRequest, "invalid_request")
	wantProblem(t, "member", bob.api("GET", "/api/admin/refused-sign-ins", nil), http.StatusForbidden, "admin_required")
}
