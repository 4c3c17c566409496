package admin_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
)

// english matches what a mail in German never has, and times that are not of its reader's zone.
var english = regexp.MustCompile(`(?i)\b(the|your|you|and|account|administrator|expires|added|removed|activity|` +
	`operator|UTC|GMT|invite|password|email|with|from|for|by|of|to|on|choose|sign|welcome|Dec|December)\b`)

// words returns a mail as its reader sees it, without what follows in addresses.
func words(m mail.Message) string {
	return regexp.MustCompile(`https?://\S+`).ReplaceAllString(m.Subject+"\n"+m.Text, "")
}

// A German member whom an administrator adds and changes in English, and the operator at the command line, reads
// German, with days as German writes them and times of the club.
func TestMailsAboutActsOfOthersAreInTheLanguageOfTheMember(t *testing.T) {
	w, post := newMailWorld(t)
	w.SaveSettings(func(v *account.Settings) {
		v.InstanceName, v.Language, v.TimeZone = "TSV Neustadt", "de", "Europe/Berlin"
		v.Flags = append(v.Flags, "coach")
	})
	w.AddUser("keeper", account.FlagAdmin)
	keeper, operator := w.SignedIn("keeper"), account.Operator()
	call := func(method, path string, body any) {
		t.Helper()
		keeper.Call(method, "/api/admin/users"+path, body).Is(200)
	}
	keeper.Send("POST", "/api/admin/users", "application/json",
		`{"handle":"clara-weiss","display_name":"Clara Weiß","email":"clara@example.org"}`, "Accept-Language", "en").Is(201)
	w.deliver(t)
	_, err := w.Store.ChangeUser(t.Context(), w.User("clara-weiss").Sub, func(u *account.User) error {
		u.EmailVerified = true
		return nil
	}, w.Clock.Now(), nil)
	must(t, err)
	end := time.Date(w.Clock.Now().Year()+2, 12, 4, 23, 0, 0, 0, time.UTC)
	users, clara := w.Administration(), w.User("clara-weiss")
	call("PUT", "/clara-weiss/flags", map[string]bool{"activity": false, "admin": true, "coach": false})
	call("PUT", "/clara-weiss/end", map[string]string{"ends": end.Format(time.DateOnly)})
	must(t, users.Suspend(t.Context(), operator, clara, "", true))
	must(t, users.Unsuspend(t.Context(), operator, clara))
	must(t, users.SetEnd(t.Context(), operator, clara, time.Time{}))
	call("PUT", "/clara-weiss/flags", map[string]string{"activity": end.Add(12 * time.Hour).Format(time.RFC3339)})
	call("PUT", "/clara-weiss/flags", map[string]string{"activity": end.Format(time.DateOnly)})
	endless := account.FlagChange{account.FlagActivity: {On: true, SetEnd: true}}
	_, err = users.SetFlags(t.Context(), operator, w.User("clara-weiss"), endless)
	must(t, err)
	w.deliver(t)
	mails := post.sent["clara@example.org"]
	year := end.Format(" 2006")
	wants := []string{
		"Willkommen", "Hinzugefügt: Verwaltung", "Es läuft am 4. Dezember" + year + " ab.", "gesperrt", "aufgehoben",
		"Es hat kein Ablaufdatum.", "Aktivitäten läuft am 05.12." + year[1:] + ", 12:00 (Europe/Berlin) ab.",
		"Aktivitäten läuft am 4. Dezember" + year + " ab.", "Aktivitäten hat kein Ablaufdatum.",
	}
	if len(mails) != len(wants) {
		t.Fatalf("%d mails, want %d: %+v", len(mails), len(wants), mails)
	}
	for i, m := range mails {
		if !strings.Contains(m.Text, wants[i]) || strings.Contains(m.Text, "Kontakt:") { // there is none
			t.Errorf("%d: want %q in\n%s", i, wants[i], m.Text)
		}
		text := words(m)
		if found := english.FindAllString(text, -1); m.Language != "de" || found != nil {
			t.Errorf("%q in %s:\n%s", found, m.Language, text)
		}
	}
	if m := mails[1].Text; !strings.Contains(m, "Entfernt: Aktivitäten\n\nHinzugefügt: Verwaltung\n\nWenn du") {
		t.Errorf("the permissions that changed, and no others: %s", m)
	}
}

// Reasons are for administrators, unless they say otherwise.
func TestReasonOfASuspensionIsToldWhereAsked(t *testing.T) {
	w, post := newMailWorld(t)
	root := w.Member("root1", account.FlagAdmin)
	const reason = "Owes for two boats"
	for i, told := range []bool{false, true, false, true} {
		handle := []string{"ada", "bob", "eve", "kim"}[i]
		w.verified(w.AddUser(handle), handle+"@example.org", "en")
		in, form := map[string]any{"reason": reason}, []string{"reason", reason, "sure", "yes"}
		if told {
			in["tell_reason"], form = true, append(form, "tell_reason", "true")
		}
		root.Page("/admin/users/" + handle).Is(200).Shows(`name="tell_reason" value="true"`)
		if i < 2 {
			root.Call("POST", "/api/admin/users/"+handle+"/suspend", in).Is(200)
		} else {
			root.Page("/admin/users/"+handle+"/suspend", form...).Is(303)
		}
		w.deliver(t)
		sent := post.sent[handle+"@example.org"]
		if len(sent) != 1 || strings.Contains(sent[0].Text, reason) != told ||
			strings.Contains(sent[0].HTML, reason) != told {
			t.Errorf("%s, told %t: %+v", handle, told, sent)
		}
		same(t, handle, w.User(handle).SuspendReason, reason)
	}
}
