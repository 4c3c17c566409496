package admin_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

// many adds members by the pasted list, and returns their handles.
func (w *world) many(b *accounttest.Browser, n int) (handles []string) {
	w.T.Helper()
	var list strings.Builder
	for i := range n {
		handles = append(handles, fmt.Sprintf("ann-%03d", i))
		fmt.Fprintf(&list, "Ann %03d\tann%03d@example.org\tactivity\n", i, i)
	}
	b.Page("/admin/users/paste", "people", list.String()).Is(200).Shows(`data-line="1"`, "@ann-000", `id="sure-submit"`)
	if _, err := w.Store.UserByHandle(w.T.Context(), "ann-000"); err == nil {
		w.T.Fatal("a preview added people")
	}
	b.Page("/admin/users/paste", "people", list.String(), "sure", "yes").Is(200).Shows(`role="status"`)
	return handles
}

// audited returns the targets of an action, newest first.
func (w *world) audited(act account.Act) (targets []string) {
	w.T.Helper()
	rows, err := w.Store.AuditLog(w.T.Context(), account.AuditQuery{Kind: act.Action, Limit: 2000})
	must(w.T, err)
	for _, r := range rows {
		targets = append(targets, r.Target)
	}
	return targets
}

func TestFiveHundredMembersAreAddedAndChangedAtOnce(t *testing.T) {
	w, b := administered(t)
	handles := w.many(b, 500)
	who := strings.Join(handles, " ")
	for _, act := range []struct {
		act    account.Act
		fields []string
		done   func(account.User) bool
	}{
		{account.AddUser, nil, func(u account.User) bool { return u.Has("activity") && u.Email != "" && !u.EmailVerified }},
		{account.SetFlags, []string{"do", "flags", "flag.admin", "on", "flag.activity", ""}, func(u account.User) bool { return u.Has("admin") && u.Has("activity") }},
		{account.SetFlags, []string{"do", "flags", "flag.admin", "off"}, func(u account.User) bool { return !u.Has("admin") }},
		{account.SetEnd, []string{"do", "end", "ends", "2099-08-31"}, func(u account.User) bool { return u.EndsAt.Year() >= 2099 }},
		{account.Suspend, []string{"do", "suspend", "reason", "season over"}, account.User.Suspended},
	} {
		before := len(w.audited(act.act))
		if act.fields != nil {
			sent := append([]string{"who", who}, act.fields...)
			b.Page("/admin/users/selected", sent...).Is(200).Shows(`name="sure"`, `id="change-more"`)
			if w.audited(act.act); len(w.audited(act.act)) != before {
				t.Fatalf("%v: the question changed something", act.fields)
			}
			began := time.Now()
			b.Page("/admin/users/selected", append(sent, "sure", "yes")...).Is(200).Shows(`role="status"`)
			t.Logf("%v: %s", act.fields, time.Since(began))
		} else {
			before = 1 // root1
		}
		targets := w.audited(act.act)[:len(w.audited(act.act))-before]
		slices.Sort(targets)
		sameList(t, fmt.Sprintf("%v: %d audit rows, not one each", act.fields, len(targets)), targets, handles)
		for _, h := range handles {
			if !act.done(w.User(h)) {
				t.Fatalf("%v: not done to %s", act.fields, h)
			}
		}
	}
	b.Page("/admin/users/").Is(200).Hides(`id="select-all"`)
	b.Page("/admin/users/selected", "all", "true").Is(400).Shows("Select at most 500")
	b.Page("/admin/users/paste", "people", strings.Repeat("Ann,a@example.org\n", 501)).Is(400).
		Shows("Select at most 500", `id="people-error"`, "<p>One field needs you.</p>").Hides(`id="people-hint"`)
}

// Whoever lost a session as an administrator finds in the audit log what was made with it.
func TestAuditLogSaysWhatANewAccountMay(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.Flags, v.DefaultFlags = append(v.Flags, "coach"), []string{"activity"} })
	b := w.SignedIn("root1")
	b.Page("/admin/users/paste", "people", "Zoe,zoe@example.org,admin coach", "sure", "yes").Is(200)
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "yan", "flags": map[string]bool{"admin": true, "activity": true}}).Is(201)
	b.Call("POST", "/api/admin/users", map[string]any{"handle": "xia"}).Is(201)
	code := b.Call("POST", "/api/invites", map[string]any{"flags": []string{"admin"}}).Is(201).JSON()["code"]
	w.Browser().Call("POST", "/api/register", map[string]any{"code": code, "handle": "wim", "password": "correct horse 42 battery"}).Is(201)
	for who, want := range map[string]string{"zoe": "imported flag=admin flag=coach", "yan": "flag=admin", "xia": "", "wim": "invited by root1 flag=admin"} {
		rows, err := w.Store.AuditLog(t.Context(), account.AuditQuery{Person: who, Kind: "user.", Limit: 10})
		if err != nil || len(rows) != 1 || rows[0].Detail != want {
			t.Errorf("%s: %+v %v, want %q", who, rows, err, want)
		}
	}
}

func TestOneInTheWayLeavesEverybodyAsTheyAre(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada", account.FlagActivity)
	w.AddUser("bob")
	b, ada := w.SignedIn("root1"), w.SignedIn("ada")
	sent := []string{"who", "ada bob root1", "do", "suspend", "sure", "yes"}
	b.Page("/admin/users/selected", "who", "ada root1", "do", "end", "ends", "2099-08-31", "sure", "yes").Is(409).Hides(`aria-invalid="true"`)
	a := b.Page("/admin/users/selected", sent...).Is(409).Shows(`id="obstacles"`, "your own account", `data-user="root1"`, `value="ada bob"`)
	a.Hides(`id="sure-submit"`)
	if !ada.IsSignedIn() || len(w.audited(account.Suspend)) != 0 {
		t.Error("somebody was suspended")
	}
}

func TestLastAdministratorStandsInTheWay(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada", account.FlagActivity)
	b, ada := w.SignedIn("root1"), w.SignedIn("ada")
	b.Page("/admin/users/selected", "who", "ada root1", "do", "flags", "flag.admin", "off", "flag.activity", "off", "sure", "yes").
		Is(409).Shows(`id="obstacles"`, "last active administrator", `data-user="root1"`).Hides(`<li data-user="ada">`)
	if !w.User("ada").Has("activity") || len(w.audited(account.SetFlags)) != 0 {
		t.Error("something was changed")
	}
	w.SaveSettings(func(v *account.Settings) { v.SignOutOnFlagLoss = true })
	for _, done := range []string{"for 1 person", "for 0 people"} { // the second is a form that is sent again
		b.Page("/admin/users/selected", "who", "ada", "do", "flags", "flag.activity", "off", "sure", "yes").Is(200).Shows(done)
	}
	if ada.IsSignedIn() {
		t.Error("the loss of a flag has not ended the session")
	}
	w.AddUser("on") // which is a choice of a flag, too
	b.Page("/admin/users/selected", "who", "on", "do", "flags", "flag.activity", "on", "sure", "yes").Is(200)
}

func TestSelectionIsWhatWasSeen(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("old")
	w.Clock.Advance(100 * 24 * time.Hour)
	w.AddUser("young")
	b := w.SignedIn("root1")
	b.Send("GET", "/admin/users/?inactive=90", "", "", "Accept", "text/html").Is(200).
		Shows(`data-user="old"`, `id="select-all"`, `value="inactive=90"`).
		Hides(`data-user="young"`, `data-user="root1"`)
	b.Send("GET", "/admin/users/?invited_by=nobody", "", "", "Accept", "text/html").Is(200).Shows(`id="no-users"`)
	b.Send("GET", "/admin/users/?inactive=many", "", "", "Accept", "text/html").Is(400)
	b.Page("/admin/users/selected", "all", "true", "filter", "inactive=90", "seen", "2").Is(200).Shows(`value="old"`, `id="matched"`)
	b.Page("/admin/users/selected", "all", "true", "filter", "inactive=90", "seen", "1").Is(200).Hides(`id="matched"`)
	for _, nobody := range [][]string{{"who", ""}, {"all", "true", "filter", "query=nobody"}} {
		b.Page("/admin/users/selected", nobody...).Is(400).Shows("Select at least one person")
	}
	b.Page("/admin/users/selected", "who", "old", "do", "delete").Is(400)
	b.Page("/admin/users/selected", "who", "old", "do", "end", "ends", "2001-01-01").Is(400).Shows(`aria-invalid="true"`)
	b.Page("/admin/users/selected", "who", "old", "do", "end").Is(400)
	b.Page("/admin/users/selected", "who", "old", "do", "suspend", "reason", "a\u202eb").Is(400).Shows(`aria-invalid="true"`)
	b.Page("/admin/users/selected", "who", "old", "do", "flags", "flag.activity", "maybe").Is(400)
	b.Page("/admin/users/selected", "who", "old", "do", "flags", "flag.boss", "on").Is(400)
	b.Page("/admin/users/selected", "who", "old", "do", "invite", "sure", "yes").Is(409).Shows("does not send email")
	b.Call("POST", "/api/admin/join-requests/bo/accept", nil).Is(409, "mail_off")
	b.Page("/admin/users/selected", "all", "true", "filter", "query="+url.QueryEscape("\x00\xff")).Is(400)
	w.Clock.Advance(account.FreshFor + time.Second)
	b.Page("/admin/users/selected", "who", "old", "do", "suspend", "sure", "yes").Is(403).Shows(`name="confirm_password"`)
	b.Page("/admin/users/paste", "people", "Zoe,zoe@example.org", "sure", "yes").Is(403).Shows(`name="confirm_password"`)
	m := w.SignedIn("old")
	m.Page("/admin/users/selected", "who", "old", "do", "flags", "flag.admin", "on", "sure", "yes").Is(403)
	m.Page("/admin/users/paste", "people", "Zoe,zoe@example.org", "sure", "yes").Is(403)
}

// setVerified marks the address of a user as verified.
func setVerified(w *world, handle string) {
	w.T.Helper()
	if _, err := w.Administration().Amend(w.T.Context(), account.Operator(), w.User(handle), account.UserChange{"email_verified": "true"}); err != nil {
		w.T.Fatal(err)
	}
}

func TestPastedListIsCheckedLineByLine(t *testing.T) {
	w, b := administered(t, "jorg-muller")
	b.Page("/admin/users/paste", "people", "Zoë,zoe@example.org,activity@2099-06-30").Is(200).Shows("activity expires", "2099-06-30T23:59:59Z")
	b.Page("/admin/users/paste", "people", "Zoë Łuczak; zoe@example.org; activity\nИван; ivan@example.org\nAda; \"a@b.example\"; ; root1x\nJorg Muller\n").Is(200).
		Shows("@zoe-luczak", "@jorg-muller-2", "@ivan", "@root1x", `id="sure-submit"`)
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = fmt.Sprintf("Kim %d,kim%d@example.org", i, i)
	}
	lines[36] = "Kim 36,kim36.example.org,boss"
	list := strings.Join(lines, "\n")
	b.Page("/admin/users/paste", "people", list, "sure", "yes").Is(400).
		Shows(`data-line="37"`, "Enter an email address, such as ada@example.org.", "boss",
			"Nothing was changed. Correct 1 line").Hides(`data-line="36"`, `id="sure-submit"`)
	b.Page("/admin/users/paste", "people", "\n\nKim,kim@example.org,,,,x").Is(400).Shows("Line 3 has 6 cells")
	// As spreadsheets write: a byte order mark, empty cells and lines.
	b.Page("/admin/users/paste", "people", "\ufeffdisplay_name;email;;;;\r\nKim;kim@example.org;;;;\r\n;;;;;\r\n").Is(200).Shows("@kim", "Add 1 person")
	b.Page("/admin/users/paste", "people", ";;;;;\n\nKim;kim").Is(400).Shows(`data-line="3"`)
	b.Page("/admin/users/paste", "people", "Kim,kim@example.org,activity@12/11/2099\nLee,,activity@2001-01-01").Is(400).
		Shows(`data-line="1"`, `data-line="2"`, "that is not in the past").Hides("control characters")
	b.Page("/admin/users/paste", "people", "Ed,“ed@p.test”").Is(400).Shows(`data-line="1"`, "Enter an email address, such as ada@example.org.")
	b.Page("/admin/users/paste", "people", " ").Is(400).Shows("Select at least one person")
	for _, twice := range []string{"Al,x@example.org\nAL,X@example.org", "Al,x@example.org\n,X@example.org", ",x@example.org\nAl,X@example.org"} {
		b.Page("/admin/users/paste", "people", twice).Is(400).Shows("is already in row 1")
	}
	same(t, "accounts", len(w.audited(account.AddUser)), 2)
	// A family has one address: who has another name is another person.
	b.Page("/admin/users/paste", "people", "Ann,x@example.org\nBen,X@example.org").Is(200).
		Shows(`data-shares="ann"`, "@ann has this address too", "Add 2 people").Hides(`data-shares="ben"`)
	b.Page("/admin/users/paste", "people", "Ann,x@example.org", "sure", "yes").Is(200)
	setVerified(w, "ann")
	b.Page("/admin/users/paste", "people", "ANN,x@example.org\nBen,X@example.org", "sure", "yes").Is(200).Shows("belongs to @ann", `data-shares="ann"`)
	if u := w.User("ben"); u.Email != "x@example.org" || u.EmailVerified {
		t.Errorf("%q, verified %t", u.Email, u.EmailVerified)
	}
	b.Page("/admin/users/paste", "people", "Ann,x@example.org,boss", "sure", "yes").Is(400).Shows("The permission &#34;boss&#34; does not exist", "Correct 1 line")
	b.Page("/admin/users/paste", "people", ",x@example.org", "sure", "yes").Is(200).Shows("Skipped").Hides(`id="sure-submit"`, `role="status"`)
	// Twice the same name, and nobody is added twice.
	pair := "Kim Lee,kim@example.org\nKim Lee,lee@example.org"
	b.Page("/admin/users/paste", "people", pair, "sure", "yes").Is(200).Shows("kim-lee-2", "/reset-password/?code=")
	b.Page("/admin/users/paste", "people", pair+"\nNew One,new@example.org").Is(200).Shows("belongs to @kim-lee", "belongs to @kim-lee-2", "@new-one", "Add 1 person")
}

func TestInviteIsMailedToThoseWhoHaveNotChosenAPassword(t *testing.T) {
	w := newWorld(t, func(o *accounttest.Options) { o.Mail = noMail{} })
	w.AddUser("root1", account.FlagAdmin)
	w.AddUser("ada")
	b := w.SignedIn("root1")
	queued := func() (n int) {
		due, err := w.Store.DueMails(t.Context(), w.Clock.Now().Add(time.Hour), time.Second, 100)
		must(t, err)
		for _, m := range due {
			if m.Kind == account.MailWelcome {
				n++
			}
			must(t, w.Store.MailDone(t.Context(), m.ID, nil))
		}
		return n
	}
	b.Page("/admin/users/paste", "people", "Kim,kim@example.org\nLee,lee@example.org\nNo Address", "sure", "yes").Is(200).
		Shows(`id="links"`, "no-address").Hides("@kim</dt>")
	same(t, "mails to those who were added", queued(), 2)
	w.AddUser("bo")
	w.Suspend("bo")
	b.Page("/admin/users/selected", "who", "kim lee ada bo no-address", "do", "invite", "sure", "yes").Is(409).
		Shows("already set up their sign-in", "This account is suspended.", "no email address", `value="kim lee"`)
	same(t, "mails although somebody stood in the way", queued(), 0)
	b.Page("/admin/users/selected", "who", "kim lee", "do", "invite", "sure", "yes").Is(200)
	if rows := w.audited(account.InviteUser); queued() != 2 || len(rows) != 2 {
		t.Errorf("rows of %v", rows)
	}
}

func TestListThatIsTooLongIsRefusedWithItsLimit(t *testing.T) {
	_, root := administered(t)
	root.Page("/admin/users/paste", "people", strings.Repeat("x", 128<<10)).Is(413).Shows("larger than 128 KiB")
	root.Page("/admin/users/root1/suspend", "reason", strings.Repeat("x", 65<<10)).Is(413).Shows("larger than 64 KiB")
	many := []string{"do", "suspend"}
	for i := range 501 {
		many = append(many, "who", fmt.Sprint("member", i))
	}
	root.Page("/admin/users/selected", many...).Is(400).Shows("Select at most 500 people at once.")
}

func TestListIsPastedTwiceAtOnce(t *testing.T) {
	w, b := administered(t)
	var list strings.Builder
	for i := range 100 {
		fmt.Fprintf(&list, "Ann %d,ann%d@example.org\n", i, i)
	}
	var clicks sync.WaitGroup
	for range 3 {
		clicks.Go(func() {
			b.Clone().Page("/admin/users/paste", "people", list.String(), "sure", "yes").Is(200).Hides(`role="alert"`)
		})
	}
	clicks.Wait()
	same(t, "accounts", len(w.audited(account.AddUser)), 101)
}

// What is pasted from spreadsheets, mails and member lists of clubs is read, or refused with what to do.
func TestPasteIsReadAsPeopleHaveIt(t *testing.T) {
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	w.SaveSettings(func(v *account.Settings) { v.Flags = append(v.Flags, "coach") })
	b := w.SignedIn("root1")
	max := []string{`<bdi>Max Müller</bdi>`, ">max@example.org<", "Add 1 person"}
	for name, c := range map[string]struct {
		language, list string
		shows          []string
	}{
		"name with a comma":        {"", `"Müller, Max";max@example.org`, []string{"<bdi>Müller, Max</bdi>", ">max@example.org<", "Add 1 person"}},
		"without marks":            {"", "Müller, Max;max@example.org", []string{"<bdi>Müller, Max</bdi>", ">max@example.org<"}},
		"copied cells":             {"", "Max Müller\tmax@example.org\tcoach, activity\n", append(max, "coach")},
		"permissions in commas":    {"", "Max Müller,max@example.org,coach;activity", max},
		"cell with a line break":   {"", "\"Max\nMüller\"\tmax@example.org\r\nEva\teva\r\n", []string{`data-line="3"`, "Correct 1 line"}},
		"marks within a name":      {"", `Max "Maxl" Müller,max@example.org`, []string{"Max &#34;Maxl&#34; Müller"}},
		"marks around a part":      {"", "Eva,eva@example.org\n\"Max\" Müller,max@example.org", []string{"Line 2: a quotation mark"}},
		"spaces that do not break": {"", "\u00a0Max\u00a0Müller\u00a0;\u00a0max@example.org\u00a0", max},
		"from a mail":              {"", "Max Müller <max@example.org>", max},
		"address first":            {"", "max@example.org;Max Müller", max},
		"address alone":            {"", "max@example.org", []string{"@max", ">max@example.org<", "Add 1 person"}},
		"separator line":           {"", "sep=;\nName;E-Mail\nMax Müller;max@example.org\nEva;eva", []string{`data-line="4"`, "Correct 1 line"}},
		"separator in capitals":    {"", "SEP=;\nMüller, Max\nLee, Kim", []string{"<bdi>Müller, Max</bdi>", "Add 2 people"}},
		"empty lines":              {"", "\n\nName;E-Mail\n\nMax Müller;max@example.org;;;\n;;;;\n", max},
		"German":                   {"de", "Nachname;Vorname;E\u2011Mail\u2011Adresse;Rechte;Letzter Tag\nMüller;Max;max@example.org;coach@31.12.2099;1.3.2099", []string{`<bdi>Max Müller</bdi>`, "2099-12-31T23:59:59Z", "2099-03-01T23:59:59Z"}},
		"German, with Name":        {"de", "Name;Vorname;E-Mail\nMüller;Max;max@example.org", []string{`<bdi>Max Müller</bdi>`}},
		"French":                   {"fr", "Nom;Prénom;Courriel;Dernier jour\nMüller;Max;max@example.org;31/12/99", []string{`<bdi>Max Müller</bdi>`, "2099-12-31T23:59:59Z"}},
		"Spanish":                  {"es", "Nombre;Apellidos;Correo electrónico\nMax;Müller;max@example.org", []string{`<bdi>Max Müller</bdi>`}},
		"Dutch":                    {"nl", "Naam\tE-mailadres\tLaatste dag\nMax Müller\tmax@example.org\t31-12-2099", []string{`<bdi>Max Müller</bdi>`, "2099-12-31T23:59:59Z"}},
		"American date":            {"", "Name,Email,Ends\nMax Müller,max@example.org,12/31/2099", append(max, "2099-12-31T23:59:59Z")},
		"no date in German":        {"de", "Name;E-Mail;Austritt\nMax Müller;max@example.org;12/31/2099", []string{"ein Datum wie 2030-12-24"}},
		"a date of two days":       {"", "Name,Email,Ends\nMax Müller,max@example.org,3/4/2099", []string{`data-line="2"`, "a date such as 2030-12-24"}},
		"unknown permission":       {"", "Max Müller,max@example.org,trainer", []string{`The permission &#34;trainer&#34; does not exist`, "There are: activity, admin, coach"}},
		"unknown column":           {"", "Name;E-Mail;Birthday\nMax Müller;max@example.org;1.1.1999", []string{"The column Birthday is unknown. Remove it, or rename it to one of: display_name, email"}},
		"title above":              {"", "TSV Neustadt Mitgliederliste 2026\n;Stand: 1.1.2026\n\nName;E-Mail\nMax Müller;max@example.org\nEva;eva", []string{`data-line="6"`, "Correct 1 line"}},
		"one name above":           {"", "Eva Lee\nMax Müller", []string{"<bdi>Eva Lee</bdi>", "<bdi>Max Müller</bdi>"}},
		"only an address known":    {"", "E-Mail;Birthday\nmax@example.org;1.1.1999", []string{"The column Birthday is unknown"}},
		"all three names":          {"de", "Vorname;Nachname;Name;E-Mail\nMax;M.;Max Müller;max@example.org", []string{`<bdi>Max Müller</bdi>`}},
		"a day before the 13th":    {"de", "Name;E-Mail;Austritt\nMax Müller;max@example.org;3/4/2099", []string{"2099-04-03T23:59:59Z"}},
		"a date of one day":        {"", "Name,Email,Ends\nMax Müller,max@example.org,3/3/2099", append(max, "2099-03-03T23:59:59Z")},
		"a name of four letters":   {"", "Anna;\nBen;ben@example.org", []string{"<bdi>Anna</bdi>", "<bdi>Ben</bdi>", "Add 2 people"}},
		"eleven of one name":       {"", strings.Repeat("Kim Lee\n", 11), []string{"@kim-lee-9<", "Add 11 people"}},
		"a user name further down": {"", "Kim Lee\nLee Kim,,,kim-lee", []string{"@kim-lee-2<", "@kim-lee<", "Add 2 people"}},
		"a name that is reserved":  {"", "Support", []string{"@support-2<", "Add 1 person"}},
		"no letters a-z":           {"", "李雷", []string{"<bdi>李雷</bdi>", "@member"}},
		"dates of one meaning":     {"", "Name,Email,Ends\nMax Müller,max@example.org,31/12/2099\nEva,eva@example.org,3.4.2099", []string{"2099-12-31T23:59:59Z", "2099-04-03T23:59:59Z"}},
		"bars":                     {"", "Name|E-Mail\nMax Müller|max@example.org", max},
		"read as Latin-1":          {"", "Name;E-Mail\nMax MÃ¼ller;max@example.org", []string{"Line 2: “Ã¼” is a letter"}},
		"read as Windows-1252":     {"", "Name;E-Mail\nEva;eva@example.org\nJerzy ŁukÅ›;max@example.org", []string{"Line 3: “Å›” is a letter that another program has damaged"}},
		"letters that look so":     {"", "Name;E-Mail\nJOÃO ÅSE ÂNGELA “Ä” – Ã;max@example.org", []string{"<bdi>JOÃO ÅSE ÂNGELA “Ä” – Ã</bdi>"}},
		"column twice":             {"", "Name;E-Mail;Email\nMax Müller;max@example.org;", []string{"The column Email is there twice"}},
	} {
		a := b.Send("POST", "/admin/users/paste", "application/x-www-form-urlencoded",
			url.Values{"people": {c.list}}.Encode(), "Accept", "text/html", "Accept-Language", c.language)
		if !t.Run(name, func(t *testing.T) { a.Shows(c.shows...) }) {
			t.Log(name)
		}
	}
}
