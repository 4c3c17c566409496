package site_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// Who joins is offered a user name: from their name, and one that is free for one that is taken.
func TestUserNameIsProposed(t *testing.T) {
	w := accounttest.With(t, "heinz-mueller")
	send := func(fields ...string) *accounttest.Answer {
		t.Helper()
		fields = append(fields, "code", w.Invite().Shown(), "password", password)
		return w.Browser().Page("/register/", fields...)
	}
	send("display_name", "Heinz Müller", "handle", "").Is(400).
		Shows(`value="heinz-mueller2"`, "Do you like @heinz-mueller2?").Hides("digits, dots")
	send("display_name", "Heinz Müller", "handle", "Heinz-Mueller").Is(409).
		Shows(`value="heinz-mueller2"`, "This user name is taken. @heinz-mueller2 is free.")
	send("display_name", "Root", "handle", "").Is(400).Shows(`value="root2"`)
	send("display_name", "王", "handle", "").Is(400).Shows("digits, dots")
	send("display_name", "Heinz Müller", "handle", "heinz-mueller2").RedirectsTo("/account/welcome")
	// Without a good invite nothing is said of handles.
	w.Browser().Page("/register/", "code", "0000-0000-0000-0000", "display_name", "Heinz Müller", "handle", "",
		"password", password).Is(400).Hides("heinz-mueller2")
	rows, err := w.Administration().ReadPasted(t.Context(), strings.Repeat("Bo Berg\n", 10))
	must(t, err)
	same(t, "tenth of a name", rows[9].Members["handle"], "bo-berg-10")
}

func TestDotsDoNotTellHandlesApart(t *testing.T) {
	w := accounttest.New(t)
	w.Browser().Page("/register/?code=" + w.Invite().Shown()).Is(200).Shows(`id="handle-hint"`).Hides("digits, dots, - or _")
	page := func(handle string) *accounttest.Answer {
		return w.Browser().Page("/register/", "code", w.Invite().Shown(), "handle", handle, "password", password)
	}
	page("Ada.Lovelace").RedirectsTo("/account/welcome")
	for _, handle := range []string{"adalovelace", "a.dalovelace", "ADA.LOVELACE"} {
		page(handle).Is(409).Shows(`id="handle-error"`, "This user name is taken")
		w.Browser().Call("POST", "/api/register", registration(w.Invite().Code, handle)).Is(409, "handle_taken")
	}
	for _, handle := range []string{".ada", "ada.", "a..b", "a.-b", "a_.b", "ad.min", strings.Repeat("a.", 15) + "a"} {
		page(handle).Is(400).Shows(`id="handle-error"`, "do not put a dot next to another dot")
		w.Browser().Call("POST", "/api/register", registration(w.Invite().Code, handle)).Is(400, "invalid_handle")
	}
	w.AddUser("bobby")
	w.Browser().Call("POST", "/api/register", registration(w.Invite().Code, "bob.by")).Is(409, "handle_taken")
	in := registration(w.Invite().Code, "grace.hopper")
	for _, has := range []string{"the rest of grace.hopper", "the rest of gracehopper"} {
		in["password"] = has
		w.Browser().Call("POST", "/api/register", in).Is(400, "weak_password").Shows("must not contain the user name")
	}

	for _, typed := range []string{"ada.lovelace", "adalovelace", "ADA.LoveLace", "@AdaLovelace", "a.d.a.lovelace"} {
		w.Browser().Page("/login/", "handle", typed, "password", password).RedirectsTo("/account/")
		if a := w.Browser().Login(typed, password).Is(200); a.JSON()["handle"] != "ada.lovelace" {
			t.Errorf("%s is %s", typed, a.Body)
		}
	}
	w.Browser().Login("ada..lovelace", password).Is(401, "invalid_credentials")
	w.Browser().Login("bob.by", password).Is(200)
}

// A dot is no further attempt for whoever guesses, and no other spelling of an address.
func TestSpellingsOfAHandleShareTheLimits(t *testing.T) {
	rate := web.Rate{Count: 4, Window: 15 * time.Minute}
	spellings := []string{"ada.lovelace", "adalovelace", "a.dalovelace", " ａd.alovelace", "Ada.Love.Lace"}
	addresses := []string{"ada@example.org", "ada@ｅxample.org", "Ada@example｡org", "ada@exaⓜple.org", "ADA@EXAMPLE.ORG"}
	for name, tt := range map[string]struct {
		limit string
		typed []string
	}{
		"of the address": {web.LimitLogin, spellings}, "of the account": {web.LimitLoginAccount, spellings},
		"of the account, by its address": {web.LimitLoginAccount, addresses},
	} {
		t.Run(name, func(t *testing.T) {
			w := accounttest.New(t, withLimits(map[string]web.Rate{tt.limit: rate}))
			w.T = t
			w.AddUser("ada.lovelace")
			setEmail(w, "ada.lovelace", "ada@example.org", true)
			at := func(i int) *accounttest.Browser {
				if tt.limit == web.LimitLogin {
					i = 0
				}
				return w.BrowserAt(address(i))
			}
			for i, typed := range tt.typed[:4] {
				at(i).Login(typed, "wrong").Is(401, "invalid_credentials")
			}
			at(4).Login(tt.typed[4], password).Is(429, "rate_limited")
			at(5).Login("gracehopper", "wrong").Is(401)
		})
	}
	t.Run("of reset codes", func(t *testing.T) {
		w := accounttest.New(t, withLimits(map[string]web.Rate{web.LimitResetAccount: rate}))
		w.T = t
		w.AddUser("ada.lovelace")
		for i, typed := range spellings {
			status := 400
			if i == 4 {
				status = 429
			}
			w.BrowserAt(address(i)).Call("POST", "/api/auth/reset-password", reset(typed, strings.Repeat("0", 26), newPassword)).Is(status)
		}
	})
}

func TestResetByAnotherSpellingOfTheHandle(t *testing.T) {
	w := accounttest.With(t, "ada.lovelace")
	code := w.ResetCode("ada.lovelace")
	w.Browser().Page("/reset-password/?handle=adalovelace&code=" + code).Is(200).Hides("link-spent")
	w.Browser().Call("POST", "/api/auth/reset-password", reset("adalovelace", code, "has ada.lovelace in it")).Is(400, "weak_password")
	w.Browser().Call("POST", "/api/auth/reset-password", reset("Adalovelace", code, newPassword)).Is(200)
	w.Browser().Login("ada.lovelace", newPassword).Is(200)
	rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Person: "a.dalovelace", Kind: "password", Limit: 10})
	if err != nil || len(rows) == 0 || rows[0].Actor != "ada.lovelace" || rows[0].Target != "ada.lovelace" {
		t.Errorf("%+v %v", rows, err)
	}
}
