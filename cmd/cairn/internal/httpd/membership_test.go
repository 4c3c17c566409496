package httpd

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
)

// Thirty people join with one link and their phones; whoever comes after them reads whom to ask.
func TestTeamJoinsWithOneLink(t *testing.T) {
	const team = 30
	s := startService(t, serviceOptions{Limits: true})
	s.addUser("keeper", account.FlagAdmin)
	keeper := s.signedIn("keeper")
	needStatus(t, "flags", keeper.api("PUT", "/api/admin/settings", map[string]any{"flags": []string{"player"}}), 200)
	needStatus(t, "invite", keeper.postForm("/account/invites", url.Values{"note": {"Team U15"}, "uses": {fmt.Sprint(team)}, "days": {"30"}, "flag": {"player"}}), 303)
	_, text, _ := strings.Cut(keeper.get("/account/invites").Text, "invites/slip?code=")
	code, _, _ := strings.Cut(text, `"`)
	slip := keeper.get("/account/invites/slip?code=" + code).Text
	if link := elementText(elementByID(t, slip, "slip-url")); link != s.URL+"/register/?code="+code || !strings.Contains(slip, "for 30 people") || !strings.Contains(slip, `class="qr"`) {
		t.Fatalf("the slip has %s", link)
	}
	first := chromium(t) // starts the browser
	joins := func(tab context.Context, handle string) error {
		return chromedp.Do(tab, chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.URL+"/register/?code="+code), chromedp.WaitVisible(page("register")),
			chromedp.SendKeys(field("handle"), handle), chromedp.SendKeys(field("password"), password), chromedp.Click(id("register-submit")),
			chromedp.WaitVisible(page("account-welcome")))
	}
	var group sync.WaitGroup
	for i := range team {
		handle := fmt.Sprintf("runner-%d", i)
		group.Go(func() {
			if i >= 4 { // the machine of a test is small: these have no Chromium
				b := s.browser()
				f := pageForm(t, b.get("/register/?code="+code).Text)
				f.values.Set("handle", handle)
				f.values.Set("password", password)
				same(t, handle, pageName(t, b.get(b.postForm(f.action, f.values).Header.Get("Location")).Text), "account-welcome")
				return
			}
			tab, cancel := chromedp.NewContext(browserProcess.browser, chromedp.WithNewBrowserContext())
			defer cancel()
			limited, stop := context.WithTimeout(tab, time.Minute)
			defer stop()
			if err := joins(limited, handle); err != nil {
				t.Errorf("%s: %v", handle, err)
			}
		})
	}
	group.Wait()
	for i := range team {
		u, err := s.store.UserByHandle(t.Context(), fmt.Sprintf("runner-%d", i))
		if err != nil || !slices.Equal(u.Flags, []string{"activity", "player"}) || u.InvitedBy != "keeper" {
			t.Errorf("runner-%d: flags %v, invited by %q: %v", i, u.Flags, u.InvitedBy, err)
		}
	}
	mustDo(t, first, "one too many", chromedp.Navigate(s.URL+"/register/?code="+code), chromedp.WaitVisible(page("register")), chromedp.WaitVisible(id("spent")))
	if said := textOf(t, first, id("spent")); !strings.Contains(said, "30 people have joined with this invite") || !strings.Contains(said, "Ask @keeper") {
		t.Errorf("the page says %q", said)
	}
	late := keeper.get("/admin/invites?under=keeper").Text
	same(t, "the tree names the invite of, people", strings.Count(late, "Team U15"), team)
}
