package admin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
)

// Whoever takes the power from an administrator sees what they did with it in the last seven days, and undoes it with
// the same act.
func TestWhatAnAdministratorDidIsUndoneWithTheirPower(t *testing.T) {
	const selected = "/admin/users/selected"
	for name, c := range map[string][]string{
		"suspended":                  {"/admin/users/thief/suspend", "reason", "theft"},
		"deleted":                    {"/admin/users/thief/delete", "confirm", "thief"},
		"no longer an administrator": {"/admin/users/thief/flags", "known", "admin"},
		"suspended with others":      {selected, "who", "thief honest", "do", "suspend"},
		"demoted with others":        {selected, "who", "thief honest", "do", "flags", "flag.admin", "off"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, handle := range []string{"bob", "cy", "honest", "back", "moved", "dropped"} {
				w.AddUser(handle)
			}
			w.AddUser("root", account.FlagAdmin)
			thief := w.Member("thief", account.FlagAdmin)
			add := func(handle string) {
				thief.Call("POST", "/api/admin/users", map[string]any{"handle": handle, "flags": map[string]bool{"admin": true}}).Is(201)
			}
			give := func(handle string, on bool) {
				thief.Call("PUT", "/api/admin/users/"+handle+"/flags", map[string]bool{"admin": on}).Is(200)
			}
			add("longago")
			w.Clock.Advance(7*24*time.Hour + time.Second)
			thief = w.SignedIn("thief")
			w.Suspend("back")
			thief.Call("POST", "/api/admin/users/back/unsuspend", nil).Is(200)
			for _, handle := range []string{"moved", "dropped"} { // a mailed code sets a new password of theirs
				thief.Call("PATCH", "/api/admin/users/"+handle, map[string]any{"email": handle + "@evil.example", "email_verified": true}).Is(200)
			}
			thief.Call("PATCH", "/api/admin/users/dropped", map[string]any{"email_verified": false}).Is(200)
			thief.Call("PATCH", "/api/admin/users/cy", map[string]any{"display_name": "Cy"}).Is(200)
			add("mole")
			add("gone")
			thief.Page("/admin/users/paste", "people", "Pasted One, , admin, pasted", "sure", "yes").Is(200)
			give("bob", true)
			give("cy", true)
			give("cy", false)
			thief.Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"activity": true}).Is(200) // goes with them
			thief.Call("POST", "/api/admin/users/honest/reset-password-code", nil).Is(201)
			thief.Call("PUT", "/api/admin/settings", map[string]any{"contact": "evil@example.org"}).Is(200)

			w.Suspend("gone")
			root := w.SignedIn("root")
			var listed []string
			for _, a := range root.Call("GET", "/api/admin/users/thief", nil).Is(200).JSON()["recent_acts"].([]any) {
				a := a.(map[string]any)
				listed = append(listed, fmt.Sprint(a["id"], " ", a["kind"], " ", a["name"], " ", a["detail"]))
			}
			slices.Sort(listed)
			want := []string{" code honest ", " code longago ", " code mole ", " code pasted ", ` setting contact ""`, "account:mole account mole ", "account:pasted account pasted ", "address:moved address moved ", "lift:back lift back ", "permission:bob:admin permission bob admin"}
			if !slices.Equal(listed, want) {
				t.Errorf("listed %q", listed)
			}
			path, form := c[0], c[1:]
			root.Page(path, form...).Is(200).Shows(`value="account:mole"`, `value="address:moved"`, `value="lift:back"`, `value="account:pasted"`, `value="permission:bob:admin"`, "contact", "honest").
				Hides("account:longago", "account:gone", ":cy:")
			// Of who stays an administrator nothing is asked.
			root.Page("/admin/users/selected", "who", "thief", "do", "flags", "flag.activity", "off").Is(200).Shows(`id="sure-submit"`).Hides("account:mole")
			sure := append(form, "sure", "yes")
			root.Page(path, append(sure, "undo", "account:longago")...).Is(409).Shows("Check it again")
			untouched := func(what string) {
				t.Helper()
				if u := w.User("thief"); u.Sub == "" || u.Suspended() || !u.Has(account.FlagAdmin) {
					t.Errorf("%s: refused, and done", what)
				}
			}
			untouched("an act that is not listed")
			// Of the last step, which would leave only an administrator with an end.
			root.Call("PUT", "/api/admin/users/root/flags", map[string]string{"admin": "2099-12-24"}).Is(200)
			root.Page(path, append(sure, "undo", "permission:bob:admin")...).Is(409)
			untouched("what would leave no administrator")
			forever := account.FlagChange{account.FlagAdmin: {On: true, SetEnd: true}}
			_, err := w.Administration().SetFlags(t.Context(), account.Operator(), w.User("root"), forever)
			must(t, err)
			done := root.Page(path, append(sure, "undo", "account:mole", "undo", "account:pasted", "undo", "permission:bob:admin", "undo", "address:moved", "undo", "lift:back")...)
			if done.Status != 303 && path != selected || path == selected && done.Status != 200 {
				t.Errorf("status %d", done.Status)
			}
			if !w.User("mole").Suspended() || !w.User("pasted").Suspended() || !w.User("back").Suspended() || w.User("moved").EmailVerified || w.User("bob").Has(account.FlagAdmin) || w.User("bob").Suspended() || w.User("longago").Suspended() {
				t.Error("not undone as ticked")
			}
		})
	}
}
