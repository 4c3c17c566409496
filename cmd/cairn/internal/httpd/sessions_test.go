package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// A user has at most 100 live sessions: the sign-in that would make one more ends the
// oldest, here and on the status list. Lists of them come in pages.
func TestOldestOfTooManySessionsEnds(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var later atomic.Int64 // each sign-in is one second after the one before
		s := startService(t, serviceOptions{
			Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn },
			Now: func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Second) },
		})
		s.addUser("ada")
		s.addUser("keeper", account.FlagAdmin)
		keeper := s.browser()
		keeper.signIn("keeper")
		browsers := make([]*browser, 102)
		for i := range browsers {
			later.Add(1)
			browsers[i] = s.browser()
			browsers[i].signIn("ada")
		}
		for i, want := range map[int]int{0: 401, 1: 401, 2: 200, 101: 200} {
			if got := browsers[i].api("GET", "/api/me", nil).StatusCode; got != want {
				t.Errorf("session %d: %d, want %d", i, got, want)
			}
		}
		for i, want := range []bool{true, true, false} {
			if got := s.revoked(browsers[i].cookie("cairn_session")); got != want {
				t.Errorf("session %d on the status list: %t", i, got)
			}
		}

		asker := browsers[50]
		seen, last, pages := map[string]bool{}, "9999", 0
		for cursor := any(""); cursor != nil; pages++ {
			got := asker.api("GET", "/api/me/sessions?cursor="+url.QueryEscape(cursor.(string)), nil)
			if got.StatusCode != http.StatusOK {
				t.Fatalf("page %d: %d %s", pages, got.StatusCode, got.Text)
			}
			page := got.JSON(t)
			list := page["sessions"].([]any)
			if len(list) != 50 {
				t.Fatalf("page %d: %d sessions", pages, len(list))
			}
			for _, e := range list {
				m := e.(map[string]any)
				if at := m["created_at"].(string); at > last {
					t.Errorf("%s comes after %s", at, last)
				} else {
					last = at
				}
				seen[m["id"].(string)] = true
			}
			cursor = page["next_cursor"]
		}
		if len(seen) != 100 || pages != 2 {
			t.Errorf("%d sessions on %d pages", len(seen), pages)
		}
		for _, query := range []string{"?cursor=x", "?cursor=" + url.QueryEscape("MTIzLm5vdC1hLXNlc3Npb24"), "?cursor=%00", "?cursor=" + strings.Repeat("A", 300)} {
			wantProblem(t, query, asker.api("GET", "/api/me/sessions"+query, nil), http.StatusBadRequest, "invalid_cursor")
		}
		wantProblem(t, "two cursors", asker.api("GET", "/api/me/sessions?cursor=&cursor=", nil), http.StatusBadRequest, "invalid_request")

		rows := func(b *browser, path string) (n int, text string) {
			text = b.get(path).Text
			return strings.Count(text, `data-session="`), text
		}
		for name, c := range map[string]struct {
			b      *browser
			path   string
			latest int
		}{
			"the account page":  {asker, "/account/", 21}, // its own, which is older, too
			"one of the latest": {browsers[101], "/account/", 20}, "the administrator's page": {keeper, "/admin/users/ada", 20},
		} {
			n, text := rows(c.b, c.path)
			if all := fmt.Sprintf(`href="%s?sessions=all#sessions"`, c.path); n != c.latest || !strings.Contains(text, all) {
				t.Errorf("%s: %d sessions, want %d and a link to all", name, n, c.latest)
			}
			if n, text = rows(c.b, c.path+"?sessions=all"); n != 100 || strings.Contains(text, "sessions=all") {
				t.Errorf("%s, all of them: %d", name, n)
			}
		}
		if n := len(keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)["sessions"].([]any)); n != 100 {
			t.Errorf("the administrator is told of %d sessions", n)
		}
		if n := len(asker.api("GET", "/api/me/export", nil).JSON(t)["sessions"].([]any)); n != 100 {
			t.Errorf("the export has %d sessions", n)
		}
	})
}
