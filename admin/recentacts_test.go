package admin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
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
			for _, handle := range []string{"bob", "cy", "honest", "back", "again", "leaver", "moved", "dropped", "corrected", "taken"} {
				w.AddUser(handle)
			}
			w.verified(w.User("cy"), "cy@example.org", "en")
			w.AddUser("root", account.FlagAdmin)
			w.AddUser("loser", account.FlagActivity)
			w.AddUser("lost", account.FlagActivity)
			contact, thief := w.Member("contact", account.FlagAdmin), w.Member("thief", account.FlagAdmin)
			add := func(handle string) {
				thief.Call("POST", "/api/admin/users", map[string]any{"handle": handle, "flags": map[string]bool{"admin": true}}).Is(201)
			}
			give := func(handle string, on bool) {
				thief.Call("PUT", "/api/admin/users/"+handle+"/flags", map[string]bool{"admin": on}).Is(200)
			}
			reset := func(handle string) {
				code := thief.Call("POST", "/api/admin/users/"+handle+"/reset-password-code", nil).Is(201).JSON()["code"]
				w.Browser().Call("POST", "/api/auth/reset-password", map[string]any{"handle": handle, "code": code, "password": "eleven quiet lanterns"}).Is(200)
			}
			join := func(by *accounttest.Browser, handle string, flags ...string) {
				code := by.Call("POST", "/api/invites", map[string]any{"flags": flags}).Is(201).JSON()["code"]
				w.Browser().Call("POST", "/api/register", map[string]any{"code": code, "handle": handle, "password": password}).Is(201)
			}
			add("longago")
			join(thief, "early")
			reset("honest")
			w.Clock.Advance(7*24*time.Hour + time.Second)
			thief = w.SignedIn("thief")
			for range 2 { // what was done twice is listed once
				for _, handle := range []string{"back", "again", "leaver"} {
					w.Suspend(handle)
					thief.Call("POST", "/api/admin/users/"+handle+"/unsuspend", nil).Is(200)
				}
				for _, handle := range []string{"taken", "again", "leaver"} {
					reset(handle)
				}
				give("bob", true)
				thief.Call("PATCH", "/api/admin/users/moved", map[string]any{"email_verified": false}).Is(200)
				for _, handle := range []string{"moved", "dropped", "corrected"} { // a mailed code sets a new password of theirs
					thief.Call("PATCH", "/api/admin/users/"+handle, map[string]any{"email": handle + "@evil.example", "email_verified": true}).Is(200)
				}
				give("bob", false)
			}
			thief.Call("PATCH", "/api/admin/users/dropped", map[string]any{"email_verified": false}).Is(200)
			thief.Call("PATCH", "/api/admin/users/cy", map[string]any{"display_name": "Cy Lee"}).Is(200)
			add("mole")
			add("gone")
			set := thief.Call("POST", "/api/admin/users/mole/reset-password-code", nil).Is(201).JSON()["code"]
			mole := w.Browser() // who is an administrator by the thief, and adds one more
			mole.Call("POST", "/api/auth/reset-password", map[string]any{"handle": "mole", "code": set, "password": password}).Is(200)
			mole.Login("mole", password).Is(200)
			mole.Call("POST", "/api/admin/users", map[string]any{"handle": "mole2", "flags": map[string]bool{"admin": true}}).Is(201)
			add("erased")
			thief.Page("/admin/users/paste", "people", "Pasted One, , admin, pasted", "sure", "yes").Is(200)
			mole.Call("PUT", "/api/admin/settings", map[string]any{"instance_name": "Evil"}).Is(200)
			give("bob", true)
			bob := w.SignedIn("bob")
			bob.Call("POST", "/api/admin/users/mole/reset-password-code", nil).Is(201)
			bob.Call("PUT", "/api/admin/users/honest/flags", map[string]bool{"activity": true}).Is(200)
			join(w.SignedIn("back"), "friend")
			give("cy", true)
			give("cy", false)
			thief.Call("PUT", "/api/admin/users/cy/flags", map[string]bool{"activity": false}).Is(200) // as it was
			contact.Login("contact", password).Is(200)
			contact.Call("PUT", "/api/admin/users/taken/flags", map[string]bool{"activity": true}).Is(200)
			soon := w.Clock.Now().Add(time.Second)
			contact.Call("PUT", "/api/admin/settings", map[string]any{"flags": []string{"coach"}}).Is(200)
			contact.Call("PUT", "/api/admin/users/loser/flags", map[string]any{"coach": true, "admin": soon.Format(time.RFC3339)}).Is(200)
			thief.Call("PUT", "/api/admin/users/loser/flags", map[string]bool{"coach": false, "admin": false, "activity": false}).Is(200)
			contact.Call("PUT", "/api/admin/settings", map[string]any{"flags": []string{}}).Is(200)
			must(t, w.Administration().SetEnd(t.Context(), account.Operator(), w.User("dropped"), soon))
			thief.Call("POST", "/api/admin/users/dropped/suspend", nil).Is(200)
			thief.Call("PUT", "/api/admin/users/lost/flags", map[string]bool{"activity": false}).Is(200)
			for _, handle := range []string{"corrected", "loser"} {
				thief.Call("POST", "/api/admin/users/"+handle+"/suspend", nil).Is(200)
			}
			thief.Call("PUT", "/api/admin/users/contact/flags", map[string]bool{"activity": true}).Is(200)
			give("root", true)                                                                           // as it was
			thief.Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"activity": true}).Is(200) // goes with them
			thief.Call("POST", "/api/admin/users/honest/reset-password-code", nil).Is(201)
			join(thief, "joined", "admin")
			thief.Call("PUT", "/api/admin/settings", map[string]any{"contact": "evil@example.org"}).Is(200)
			thief.Call("PUT", "/api/admin/settings", map[string]any{"contact": "worse@example.org"}).Is(200)

			for _, handle := range []string{"gone", "again", "contact"} {
				w.Suspend(handle)
			}
			w.Clock.Advance(2 * time.Second)
			root := w.SignedIn("root")
			root.Call("DELETE", "/api/admin/users/lost", nil).Is(204)
			root.Call("POST", "/api/admin/users/loser/unsuspend", nil).Is(200)
			root.Call("POST", "/api/admin/users/corrected/unsuspend", nil).Is(200)
			root.Call("POST", "/api/admin/users/corrected/suspend", nil).Is(200)
			root.Call("PUT", "/api/admin/users/loser/flags", map[string]bool{"activity": true}).Is(200)
			root.Call("DELETE", "/api/admin/users/erased", nil).Is(204)
			root.Call("DELETE", "/api/admin/users/leaver", nil).Is(204)
			root.Call("PUT", "/api/admin/users/cy/flags", map[string]bool{"activity": true}).Is(200)
			_, err := w.Store.ChangeUser(t.Context(), w.User("corrected").Sub, func(u *account.User) error { // by its owner
				u.Email, u.EmailVerified = "corrected@example.org", true
				return nil
			}, w.Clock.Now(), &account.Audit{Action: "user.profile", Actor: "corrected", Target: "corrected", At: w.Clock.Now()})
			must(t, err)
			var listed []string
			for _, a := range root.Call("GET", "/api/admin/users/thief", nil).Is(200).JSON()["recent_acts"].([]any) {
				a := a.(map[string]any)
				listed = append(listed, fmt.Sprint(a["id"], " ", a["kind"], " ", a["name"], " ", a["detail"]))
			}
			slices.Sort(listed)
			want := []string{" code honest ", " code longago ", " code pasted ", " other cy user.amend", ` setting contact ""`, ` setting instance_name "Cairn"`, "account:joined account joined ", "account:mole account mole ", "account:mole2 account mole2 ", "account:pasted account pasted ", "address:moved address moved ", "lift:back lift back ", "permission:bob:admin permission bob admin", "permission:contact:activity permission contact activity", "permission:honest:activity permission honest activity", "reset:mole reset mole ", "reset:taken reset taken "}
			sameList(t, "listed", listed, want)
			path, form := c[0], c[1:]
			root.Page(path, form...).Is(200).Shows(`value="account:mole"`, `value="address:moved"`, `value="lift:back"`, `value="account:pasted"`, `value="permission:bob:admin"`, `value="account:joined"`, `value="reset:taken"`, "contact", "honest").
				Hides("account:longago", "account:gone", ":cy:")
			// Of who stays an administrator nothing is asked, nor of who is none, nor of oneself.
			for _, asked := range [][]string{
				{"account:mole", "who", "thief", "do", "flags", "flag.activity", "off"},
				{"account:mole", "who", "thief", "do", "flags", "flag.activity", "off", "flag.admin", "on"},
				{"account:friend", "who", "back", "do", "flags", "flag.activity", "on", "flag.admin", "off"},
				{"account:friend", "who", "back", "do", "suspend"},
				{"permission:cy", "who", "root", "do", "flags", "flag.admin", "off"},
			} {
				root.Page(selected, asked[1:]...).Is(200).Shows(`id="sure-submit"`).Hides(asked[0])
			}
			sure := append(form, "sure", "yes")
			for _, id := range []string{"", "account", "account:", "code longago", "user:mole"} {
				root.Page(path, append(sure, "undo", id)...).Is(409).Shows("Check it again")
			}
			untouched := func(what string) {
				t.Helper()
				if u := w.User("thief"); u.Sub == "" || u.Suspended() || !u.Has(account.FlagAdmin) {
					t.Errorf("%s: refused, and done", what)
				}
			}
			untouched("what is no act")
			// Of the last step, which would leave only an administrator with an end.
			root.Call("PUT", "/api/admin/users/root/flags", map[string]string{"admin": "2099-12-24"}).Is(200)
			root.Page(path, append(sure, "undo", "permission:bob:admin", "undo", "account:joined", "undo", "account:mole")...).Is(409)
			untouched("what would leave no administrator")
			forever := account.FlagChange{account.FlagAdmin: {On: true, SetEnd: true}}
			_, err = w.Administration().SetFlags(t.Context(), account.Operator(), w.User("root"), forever)
			must(t, err)
			done := root.Page(path, append(sure, "undo", "account:longago", "undo", "account:mole", "undo", "account:pasted", "undo", "permission:bob:admin", "undo", "address:moved", "undo", "lift:back", "undo", "account:joined", "undo", "reset:taken", "undo", "account:mole2")...)
			if done.Status != 303 && path != selected || path == selected && done.Status != 200 {
				t.Errorf("status %d", done.Status)
			}
			if !w.User("mole2").Suspended() || !w.User("joined").Suspended() || !w.User("taken").Suspended() || !w.User("mole").Suspended() || !w.User("pasted").Suspended() || !w.User("back").Suspended() || w.User("moved").EmailVerified || w.User("bob").Has(account.FlagAdmin) || w.User("bob").Suspended() || w.User("longago").Suspended() {
				t.Error("not undone as ticked")
			}
		})
	}
}

// A thief cannot hide what was done with the power, nor keep it from being undone.
func TestWhatAnAdministratorDidCannotBeHidden(t *testing.T) {
	const mailed = "mole@evil.example"
	put := func(b *accounttest.Browser, path string, body any) {
		b.Call("PUT", "/api/admin/users/"+path, body).Is(200)
	}
	flag := func(b *accounttest.Browser, handle string, state any) {
		put(b, handle+"/flags", map[string]any{"admin": state})
	}
	reset := func(b *accounttest.Browser, handle string) *accounttest.Browser { // the thief is whoever it is for
		code := b.Call("POST", "/api/admin/users/"+handle+"/reset-password-code", nil).Is(201).JSON()["code"]
		taken := b.W.Browser()
		taken.Call("POST", "/api/auth/reset-password", map[string]any{"handle": handle, "code": code, "password": password}).Is(200)
		taken.Login(handle, password).Is(200)
		return taken
	}
	add := func(b *accounttest.Browser, handle string) *accounttest.Browser {
		b.Call("POST", "/api/admin/users", map[string]any{"handle": handle, "flags": map[string]bool{"admin": true}}).Is(201)
		return reset(b, handle)
	}
	join := func(b *accounttest.Browser, handle string) *accounttest.Browser {
		code := b.Call("POST", "/api/invites", map[string]any{"flags": []string{"admin"}}).Is(201).JSON()["code"]
		joined := b.W.Browser()
		joined.Call("POST", "/api/register", map[string]any{"code": code, "handle": handle, "password": password}).Is(201)
		joined.Login(handle, password).Is(200)
		return joined
	}
	lift := func(w *world, thief *accounttest.Browser) {
		must(w.T, w.Administration().SetEnd(w.T.Context(), account.Operator(), w.User("mole"), w.Clock.Now().Add(time.Minute)))
		w.Clock.Advance(time.Hour)
		thief.Login("thief", password).Is(200)
		put(thief, "mole/end", map[string]any{"ends": nil})
	}
	suspended := func(w *world) bool { return w.User("mole").Suspended() }
	demoted := func(w *world) bool { return !w.User("mole").Has(account.FlagAdmin) }
	for name, c := range map[string]struct {
		id   string // of what is listed
		does func(w *world, root, thief *accounttest.Browser)
		then func(w *world, mole *accounttest.Browser) // between the page and its button
		done func(w *world) bool
	}{
		"behind hundreds of others": {"permission:mole:admin", func(w *world, _, thief *accounttest.Browser) {
			flag(thief, "mole", true)
			var people, who strings.Builder
			for i := range 500 {
				fmt.Fprintf(&people, "Person Of Many, , , many%d\n", i)
				fmt.Fprintf(&who, " many%d", i)
			}
			w.Clock.Advance(time.Second)
			thief.Page("/admin/users/paste", "people", people.String(), "sure", "yes").Is(200)
			for _, on := range []string{"on", "off"} {
				thief.Page("/admin/users/selected", "who", who.String(), "do", "flags", "flag.admin", on, "sure", "yes").Is(200)
			}
		}, nil, demoted},
		"by who is gone": {"account:mole2", func(_ *world, _, thief *accounttest.Browser) {
			made := add(thief, "made")
			add(made, "mole2")
			made.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(204)
		}, nil, func(w *world) bool { return w.User("mole2").Suspended() }},
		"by who dropped it": {"account:mole2", func(_ *world, _, thief *accounttest.Browser) {
			flag(thief, "mole", true)
			mole := reset(thief, "mole")
			add(mole, "mole2")
			flag(mole, "mole", false)
		}, nil, func(w *world) bool { return w.User("mole2").Suspended() }},
		"dropped": {"permission:mole:admin", func(_ *world, _, thief *accounttest.Browser) {
			flag(thief, "mole", true)
			flag(thief, "thief", false)
		}, nil, demoted},
		"ended": {"permission:mole:admin", func(w *world, root, thief *accounttest.Browser) {
			flag(thief, "mole", true)
			flag(root, "thief", w.Clock.Now().Add(time.Hour).Format(time.RFC3339))
			w.Clock.Advance(2 * time.Hour)
		}, nil, demoted},
		"by who joined and dropped it": {"account:mole2", func(_ *world, _, thief *accounttest.Browser) {
			joined := join(thief, "joined")
			add(joined, "mole2")
			flag(joined, "joined", false)
		}, nil, func(w *world) bool { return w.User("mole2").Suspended() }},
		"invited, and ended": {"account:joined", func(w *world, root, thief *accounttest.Browser) {
			join(thief, "joined")
			flag(root, "thief", w.Clock.Now().Add(time.Hour).Format(time.RFC3339))
			w.Clock.Advance(2 * time.Hour)
		}, nil, func(w *world) bool { return w.User("joined").Suspended() }},
		"a later end": {"permission:mole:admin", func(_ *world, root, thief *accounttest.Browser) {
			flag(root, "mole", "2099-12-24")
			flag(thief, "mole", "2100-12-24")
			flag(thief, "mole", true) // as it is
		}, nil, demoted},
		"no end": {"permission:mole:admin", func(_ *world, root, thief *accounttest.Browser) {
			flag(root, "mole", "2099-12-24")
			flag(thief, "mole", "")
		}, nil, demoted},
		"an account opened again": {"lift:mole", func(w *world, _, thief *accounttest.Browser) { lift(w, thief) }, nil, suspended},
		"a code after one that was used": {"reset:mole", func(w *world, _, thief *accounttest.Browser) {
			reset(thief, "mole")
			w.Clock.Advance(time.Second)
			thief.Call("POST", "/api/admin/users/mole/reset-password-code", nil).Is(201)
		}, nil, suspended},
		"by the address": {"reset:mole", func(w *world, _, thief *accounttest.Browser) {
			thief.Call("PATCH", "/api/admin/users/mole", map[string]any{"email": mailed, "email_verified": true}).Is(200)
			taken := w.Browser()
			taken.Call("POST", "/api/auth/reset-password", map[string]any{"handle": "mole", "code": w.ResetCode("mole"), "password": password}).Is(200)
		}, nil, suspended},
		"of who has not joined yet": {"address:waits", func(_ *world, root, thief *accounttest.Browser) {
			root.Call("POST", "/api/admin/users", map[string]any{"handle": "waits", "email": "waits@example.org"}).Is(201)
			thief.Call("PATCH", "/api/admin/users/waits", map[string]any{"email": mailed}).Is(200)
		}, nil, func(w *world) bool {
			added, err := w.Store.NewUsersByEmail(w.T.Context(), mailed)
			return err == nil && len(added) == 0 && w.User("waits").Email == ""
		}},
		"suspended": {"suspension:mole", func(_ *world, _, thief *accounttest.Browser) {
			thief.Call("POST", "/api/admin/users/mole/suspend", nil).Is(200)
		}, nil, func(w *world) bool { return !w.User("mole").Suspended() }},
		"taken, given and taken": {"loss:mole:admin", func(_ *world, root, thief *accounttest.Browser) {
			flag(root, "mole", "2099-12-24")
			flag(thief, "mole", false)
			flag(thief, "mole", true)
			flag(thief, "mole", false)
		}, nil, func(w *world) bool { return w.User("mole").FlagEnds[account.FlagAdmin].Year() == 2099 }},
		"undone meanwhile": {"permission:mole:admin", func(_ *world, _, thief *accounttest.Browser) {
			flag(thief, "mole", true)
		}, func(_ *world, mole *accounttest.Browser) { flag(mole, "mole", false) }, demoted},
		"gone meanwhile": {"permission:mole:admin", func(_ *world, _, thief *accounttest.Browser) {
			flag(thief, "mole", true)
		}, func(_ *world, mole *accounttest.Browser) {
			mole.Call("DELETE", "/api/me", map[string]string{"password": password}).Is(204)
		}, func(*world) bool { return true }},
	} {
		for _, form := range [][]string{{"/admin/users/thief/suspend", "reason", "theft"}, {"/admin/users/selected", "who", "thief", "do", "suspend"}} {
			t.Run(name+" "+form[0], func(t *testing.T) {
				w := newWorld(t)
				w.AddUser("mole")
				root, thief := w.Member("root", account.FlagAdmin), w.Member("thief", account.FlagAdmin)
				c.does(w, root, thief)
				root.Login("root", password).Is(200)
				acts := root.Call("GET", "/api/admin/users/thief", nil).Is(200).JSON()["recent_acts"].([]any)
				listed := slices.ContainsFunc(acts, func(a any) bool { return a.(map[string]any)["id"] == c.id })
				if !listed || len(acts) > 500 {
					t.Errorf("%d listed, with %s: %t", len(acts), c.id, listed)
				}
				root.Page(form[0], form[1:]...).Is(200).Shows(`value="` + c.id + `"`)
				if c.then != nil {
					c.then(w, w.SignedIn("mole"))
				}
				if got := root.Page(form[0], append(form[1:], "sure", "yes", "undo", c.id)...); got.Status >= 400 || !w.User("thief").Suspended() || !c.done(w) {
					t.Errorf("status %d, suspended %t, not undone", got.Status, w.User("thief").Suspended())
				}
			})
		}
	}
}

// Every act of administrators is listed, or is known not to be: a new one cannot be forgotten.
func TestEveryActOfAdministratorsIsListed(t *testing.T) {
	const none, other = "", "other"
	want := map[string][3]string{ // kind, detail and former of the row
		"user.create": {"account"}, "user.unsuspend": {"lift"}, "user.suspend": {"suspension"}, "user.reset_code": {"reset"},
		"user.amend": {other, "email nickname"}, "user.flags": {other, "activity=on@2099-12-24T00:00:00Z", "activity"}, "user.end": {other, "2099-12-24T00:00:00Z"},
		"settings.update": {"setting", "contact", `{"contact":""}`}, "settings.logo": {other}, "user.delete": {other},
		"user.reset_factors": {other}, "user.end_session": {other}, "user.end_sessions": {other}, "invite.revoke": {other},
		"invite.revoke_branch": {other}, "join.refuse": {other}, "user.export": {other}, "audit.export": {other},
		"invite.create_wide": {none}, "join.accept": {none}, "user.import": {none}, "user.invite": {none}, "user.unlock": {none},
		"settings.steps": {none}, "mail.test": {none},
	}
	w := newWorld(t)
	w.AddUser("thief", account.FlagAdmin)
	w.AddUser("bob", account.FlagActivity)
	w.AddUser("cy")
	w.Suspend("cy")
	record := func(actor, action, target string) {
		row := account.Audit{At: w.Clock.Now(), Actor: actor, Action: action, Target: target, Detail: want[action][1], Former: want[action][2]}
		must(t, w.Store.Record(t.Context(), row, 0))
	}
	for _, act := range account.Acts {
		_, known := want[act.Action]
		if !known && act.Proof == account.ProofAdministrator {
			t.Errorf("%s: is it listed?", act.Action)
		}
		if known {
			record("thief", act.Action, map[bool]string{false: "bob", true: "cy"}[act.Action == "user.suspend"])
		}
	}
	record("thief", "invite.revoke", "") // of the operator
	record("bob", "password.reset", "bob")
	for i := range 7 {
		record("thief", "user.delete", fmt.Sprint("gone", i))
	}
	w.AddUser("root", account.FlagAdmin)
	root := w.SignedIn("root")
	listed := map[string]string{}
	for _, a := range root.Call("GET", "/api/admin/users/thief", nil).Is(200).JSON()["recent_acts"].([]any) {
		a := a.(map[string]any)
		listed[fmt.Sprint(a["kind"], map[bool]any{true: a["detail"]}[a["kind"] == other])] = a["name"].(string)
	}
	for action, row := range want {
		_, plain := listed[other+action]
		_, as := listed[row[0]+"<nil>"]
		if plain != (row[0] == other) || row[0] != none && row[0] != other && !as {
			t.Errorf("%s is listed as %v, not as %q", action, listed, row[0])
		}
	}
	if got := listed["otheruser.delete"] + "; " + listed["otherinvite.revoke"]; got != "gone6, gone5, gone4, gone3, gone2, +3; bob" {
		t.Errorf("who was deleted, and whose invite was revoked: %s", got)
	}
	root.Page("/admin/users/thief/suspend", "reason", "theft").Is(200).Shows("thief deleted gone6, gone5", `value="suspension:cy"`)
}

// A handle may be the name of what settings are recorded for.
func TestSettingsOfAnAdministratorCalledSettings(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root", account.FlagAdmin)
	w.Member("settings", account.FlagAdmin).Call("PUT", "/api/admin/settings", map[string]any{"contact": "evil@example.org"}).Is(200)
	w.SignedIn("root").Page("/admin/users/settings/suspend", "reason", "theft").Is(200).Shows("contact")
}

// An end that a thief gave the others does not keep the thief: it falls with their power, where nobody would be left
// without one. One that somebody else gave stays.
func TestEndsOfAThiefDoNotKeepTheThief(t *testing.T) {
	const day = "2099-12-24"
	put := func(b *accounttest.Browser, path string, body any) {
		b.Call("PUT", "/api/admin/users/"+path, body).Is(200)
	}
	whole := func(b *accounttest.Browser) { put(b, "root/end", map[string]string{"ends": day}) }
	flag := func(b *accounttest.Browser) { put(b, "root/flags", map[string]string{"admin": day}) }
	suspend := func(_ *world, root *accounttest.Browser) *accounttest.Answer {
		return root.Call("POST", "/api/admin/users/thief/suspend", nil)
	}
	for name, c := range map[string]struct {
		ends func(w *world, root, thief *accounttest.Browser)
		act  func(w *world, root *accounttest.Browser) *accounttest.Answer
		code string // of the refusal
	}{
		"account's": {func(_ *world, _, thief *accounttest.Browser) { whole(thief) }, suspend, ""},
		"flag's":    {func(_ *world, _, thief *accounttest.Browser) { flag(thief) }, suspend, ""},
		"both, among others": {func(_ *world, _, thief *accounttest.Browser) { whole(thief); flag(thief) }, func(_ *world, root *accounttest.Browser) *accounttest.Answer {
			return root.Page("/admin/users/selected", "who", "thief bob", "do", "suspend", "sure", "yes")
		}, ""},
		"deleted": {func(_ *world, _, thief *accounttest.Browser) { whole(thief) }, func(_ *world, root *accounttest.Browser) *accounttest.Answer {
			return root.Page("/admin/users/thief/delete", "confirm", "thief", "sure", "yes")
		}, ""},
		"demoted": {func(_ *world, _, thief *accounttest.Browser) { flag(thief) }, func(_ *world, root *accounttest.Browser) *accounttest.Answer {
			return root.Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"admin": false})
		}, ""},
		"command": {func(_ *world, _, thief *accounttest.Browser) { whole(thief) }, func(w *world, root *accounttest.Browser) *accounttest.Answer {
			must(w.T, w.Administration().Suspend(w.T.Context(), account.Operator(), w.User("thief"), "", false))
			return root.Call("GET", "/api/admin/users/thief", nil)
		}, ""},
		"of another thief, suspended before": {func(w *world, root, _ *accounttest.Browser) {
			whole(w.Member("other", account.FlagAdmin))
			root.Call("POST", "/api/admin/users/other/suspend", nil).Is(200)
		}, suspend, ""},
		"eight days ago": {func(w *world, root, thief *accounttest.Browser) {
			whole(thief)
			w.Clock.Advance(8 * 24 * time.Hour)
			root.Login("root", password).Is(200)
		}, suspend, "last_admin"},
		"of the operator": {func(w *world, _, thief *accounttest.Browser) {
			must(w.T, w.Administration().SetEnd(w.T.Context(), account.Operator(), w.User("root"), w.Clock.Now().AddDate(1, 0, 0)))
			flag(thief)
		}, suspend, "last_admin"},
		"of a flag, and not its end": {func(_ *world, root, thief *accounttest.Browser) {
			flag(root)
			put(thief, "root/flags", map[string]bool{"admin": true})
		}, suspend, "last_admin"},
		"for their own sake": {func(_ *world, _, thief *accounttest.Browser) { whole(thief) }, func(w *world, _ *accounttest.Browser) *accounttest.Answer {
			return w.SignedIn("thief").Call("PUT", "/api/admin/users/thief/flags", map[string]bool{"admin": false})
		}, "last_admin"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.AddUser("bob")
			root, thief := w.Member("root", account.FlagAdmin), w.Member("thief", account.FlagAdmin)
			c.ends(w, root, thief)
			got := c.act(w, root)
			u, _ := w.Store.UserByHandle(t.Context(), "thief")
			fallen := w.User("root")
			forever := fallen.EndsAt.IsZero() && fallen.FlagEnds == nil
			if c.code != "" {
				if got.Is(409, c.code); forever || u.Suspended() {
					t.Errorf("refused, and done: %+v", u)
				}
				return
			}
			if got.Status >= 400 || u.Sub != "" && !u.Suspended() && u.Has(account.FlagAdmin) || !forever || !fallen.Has(account.FlagAdmin) {
				t.Errorf("status %d: thief %+v, root ends %v %v", got.Status, u, fallen.EndsAt, fallen.FlagEnds)
			}
			rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Person: "root", Kind: "user.", Limit: 9})
			must(t, err)
			if !slices.ContainsFunc(rows, func(a account.Audit) bool {
				return a.Target == "root" && (a.Detail == "never" || a.Detail == "admin=on") && a.Actor != "thief"
			}) {
				t.Errorf("audit log %+v", rows)
			}
		})
	}
}
