package admin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/store/accounttest"
)

// Every other administrator learns of a new one, and of one who is back, whichever door they came through.
func TestNewAdministratorsAreTold(t *testing.T) {
	lose := func(w *world, root *accounttest.Browser) {
		root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"admin": false}).Is(200)
	}
	operator := account.Operator()
	for name, c := range map[string]struct {
		before, act func(w *world, root *accounttest.Browser)
		told        bool
	}{
		"permission, API": {lose, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"admin": true}).Is(200)
		}, true},
		"permission, page": {lose, func(_ *world, root *accounttest.Browser) {
			root.Page("/admin/users/mole/flags", "known", "admin", "flag", "admin").Is(303)
		}, true},
		"permission of many": {lose, func(_ *world, root *accounttest.Browser) {
			root.Page("/admin/users/selected", "who", "mole", "do", "flags", "flag.admin", "on", "sure", "yes").Is(200)
		}, true},
		"permission, command": {lose, func(w *world, _ *accounttest.Browser) {
			_, err := w.Administration().SetFlags(w.T.Context(), operator, w.User("mole"), account.FlagChange{"admin": {On: true}})
			must(w.T, err)
		}, true},
		"permission that they have": {nil, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"admin": true}).Is(200)
		}, false},
		"permission that they have, with another": {nil, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"admin": true, "activity": true}).Is(200)
		}, false},
		"another permission": {nil, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"activity": true}).Is(200)
		}, false},
		"another permission of a member": {lose, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/flags", map[string]bool{"activity": true}).Is(200)
		}, false},
		"end put off": {nil, func(w *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/end", map[string]any{"ends": w.Clock.Now().Add(time.Hour).Format(time.RFC3339)}).Is(200)
		}, false},
		"suspension lifted": {func(_ *world, root *accounttest.Browser) {
			root.Call("POST", "/api/admin/users/mole/suspend", nil).Is(200)
		}, func(_ *world, root *accounttest.Browser) {
			root.Call("POST", "/api/admin/users/mole/unsuspend", nil).Is(200)
		}, true},
		"no suspension to lift": {nil, func(_ *world, root *accounttest.Browser) {
			root.Call("POST", "/api/admin/users/mole/unsuspend", nil).Is(200)
		}, false},
		"end lifted": {func(w *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/end", map[string]any{"ends": w.Clock.Now().Add(time.Minute).Format(time.RFC3339)}).Is(200)
			w.Clock.Advance(2 * time.Minute)
		}, func(_ *world, root *accounttest.Browser) {
			root.Call("PUT", "/api/admin/users/mole/end", map[string]any{"ends": nil}).Is(200)
		}, true},
		"added": {nil, func(_ *world, root *accounttest.Browser) {
			root.Call("POST", "/api/admin/users", map[string]any{"handle": "mole2", "flags": map[string]bool{"admin": true}}).Is(201)
		}, true},
		"pasted": {nil, func(_ *world, root *accounttest.Browser) {
			root.Page("/admin/users/paste", "people", "Mole Two, , admin, mole2", "sure", "yes").Is(200)
		}, true},
		"imported": {nil, func(w *world, _ *accounttest.Browser) {
			a := w.Administration()
			rows := []roster.ImportRow{{Row: 1, Members: map[string]string{"handle": "mole2", "flags": "admin"}}}
			i, err := a.CheckImport(w.T.Context(), w.Hasher, rows, roster.ImportOptions{By: operator})
			if err == nil {
				err = a.Import(w.T.Context(), operator, i, "")
			}
			must(w.T, err)
		}, true},
		"joined by invite": {nil, func(w *world, root *accounttest.Browser) {
			code := root.Call("POST", "/api/invites", map[string]any{"flags": []string{"admin"}}).Is(201).JSON()["code"]
			w.Browser().Call("POST", "/api/register", map[string]any{"code": code, "handle": "mole2", "password": accounttest.Password}).Is(201)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, mails := newMailWorld(t)
			for handle, language := range map[string]string{"root1": "en", "root2": "de", "mole": "en"} {
				u := w.AddUser(handle, account.FlagAdmin)
				w.verified(u, handle+"@example.org", language)
			}
			w.AddUser("unverified", account.FlagAdmin)
			w.verified(w.AddUser("away", account.FlagAdmin), "away@example.org", "en")
			w.Suspend("away")
			root := w.SignedIn("root1")
			if c.before != nil {
				c.before(w, root)
				root = w.SignedIn("root1")
			}
			w.deliver(t)
			clear(mails.sent)
			c.act(w, root)
			w.deliver(t)
			var got []string
			for to, all := range mails.sent {
				for _, m := range all {
					if strings.Contains(m.Subject, "administrator") || strings.Contains(m.Subject, "gehört jetzt zur Verwaltung") {
						got = append(got, to+" "+m.Subject)
					}
				}
			}
			slices.Sort(got)
			want := []string(nil)
			switch who := "mole2"; {
			case c.told:
				if _, err := w.Store.UserByHandle(t.Context(), who); err != nil {
					who = "mole"
				} else {
					want = append(want, "mole@example.org @mole2 is now an administrator")
				}
				want = append(want, "root1@example.org @"+who+" is now an administrator", "root2@example.org @"+who+" gehört jetzt zur Verwaltung")
			}
			sameList(t, "got", got, want)
		})
	}
}
