package httpd

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/storetest"
)

// A cookie that was stolen when its session was old gets nothing that outlives the session, and what is given the owner
// is told, once in a month.
func TestStaleSessionGetsNothingThatLasts(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		wiki := l.app("wiki", func(c *provider.Client) { c.Trusted = true }, "openid", "offline_access")
		asks := l.app("asks", nil, "openid", "offline_access")
		l.addAPI(trails, "Trails", func(a *provider.API) { a.AllClients, a.Lifetime = true, 24*time.Hour })
		l.addAPI(maps3, "Maps", func(a *provider.API) { a.AllClients, a.Lifetime = true, time.Hour })
		l.addClient("tv", func(c *provider.Client) { c.DeviceGrant, c.Trusted, c.AuthMethod = true, true, provider.AuthNone })
		b, known := l.signedIn("ada"), l.signedIn("ada")
		l.later(stale)
		l.mails()
		device := l.startDevice("tv", "", url.Values{"scope": {"openid"}})
		entered := b.get(needStatus(t, "device", b.postForm("/device", url.Values{"user_code": {device.user}}), 303).Header.Get("Location"))
		for what, got := range map[string]response{
			"offline_access, trusted": b.get(wiki.authURL()),
			"offline_access":          b.get(asks.authURL()),
			"a long token":            b.get(wiki.authURL("scope", "openid", "resource", trails)),
			"a device":                entered,
		} {
			if !toLogin(got) {
				t.Errorf("%s: %d %s", what, got.StatusCode, got.Header.Get("Location"))
				continue
			}
			again := b.get("/oauth2/authorize?continue=" + continuationOf(t, got, "/login/"))
			if !toLogin(again) {
				t.Errorf("%s, came back without a sign-in: %d %s", what, again.StatusCode, again.Header.Get("Location"))
			}
		}
		silently := func(what string, b *browser) {
			t.Helper()
			got := wiki.redeem(answered(t, b.get(wiki.authURL("prompt", "none"))).Get("code"))
			if token := needStatus(t, what, got, 200).JSON(t); token["scope"] != "openid" || token["refresh_token"] != nil {
				t.Errorf("%s: %v", what, token)
			}
		}
		silently("silently", b)
		wantAnswer(t, "a long token, silently", answered(t, b.get(wiki.authURL("prompt", "none", "resource", trails))), "login_required")
		wantAnswer(t, "nothing that lasts", answered(t, b.get(wiki.authURL("scope", "openid"))), "code")
		wantAnswer(t, "an hour's token", answered(t, b.get(wiki.authURL("scope", "openid", "resource", maps3))), "code")
		wantOAuthError(t, "the device", device.poll(), 400, "authorization_pending")
		if sent := l.mails(); len(sent) > 0 {
			t.Errorf("mails about nothing: %v", sent)
		}

		// Whoever signs in is asked nothing more; of six at once one is told.
		// In one browser their sign-ins cost one another the sessions.
		together(6, func(int) response { return known.fill(40, known.get(wiki.authURL()), answersOf("ada", "allow")) })
		told := only(t, "offline_access", l.mails(), "ada@example.org")
		if told.Subject != "App wiki may now act for you while you are away" || !strings.Contains(told.Text, l.URL+"/account/apps") {
			t.Errorf("the mail: %s\n%s", told.Subject, told.Text)
		}
		// The six may have got another session each.
		needStatus(t, "exchange", wiki.redeem(known.authorize(wiki.authURL(), "ada").Get("code")), 200)
		if got := b.typed(device.user, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
			t.Fatalf("the device: %d %s", got.StatusCode, mainOf(got.Text))
		}
		if m := l.mail("device", "ada@example.org"); !strings.HasPrefix(m.Subject, "App tv may now act") {
			t.Errorf("of the device: %s", m.Subject)
		}

		// More of the same kind needs nothing, of another kind it does.
		l.later(stale)
		got := needStatus(t, "with living access", wiki.redeem(answered(t, known.get(wiki.authURL("prompt", "none"))).Get("code")), 200)
		if got.text(t, "refresh_token") == "" {
			t.Errorf("with living access: %s", got.Text)
		}
		wantAnswer(t, "of another kind", answered(t, known.get(wiki.authURL("prompt", "none", "resource", trails))), "login_required")
		if again := known.get(wiki.authURL()); toLogin(again) {
			t.Error("asked twice in a session")
		}
		silently("with the living access of another session", b)
		needStatus(t, "remove", b.call("DELETE /api/me/apps/wiki"), http.StatusNoContent)
		silently("after its removal", known)
		refresh := needStatus(t, "exchange", wiki.redeem(b.authorize(wiki.authURL(), "ada").Get("code")), 200).text(t, "refresh_token")
		if sent := l.mails(); len(sent) > 0 {
			t.Errorf("told again within a month: %v", sent)
		}
		for range 2 {
			l.later(account.LastingTold / 2)
			refresh = needStatus(t, "refresh", wiki.refresh(refresh), 200).text(t, "refresh_token")
		}
		l.signedIn("ada").authorize(wiki.authURL(), "ada")
		told = only(t, "a month later", map[string][]mail.Message{"": aboutApps(l.mails()["ada@example.org"])}, "")
		rows, err := l.store.AuditLog(t.Context(), account.AuditQuery{Kind: "app.lasting"})
		noError(t, err)
		if len(rows) != 3 || rows[2].Actor != "ada" || rows[2].Detail != "wiki" || rows[1].Detail != "tv" || rows[0].Detail != "wiki" {
			t.Errorf("audit log: %+v", rows)
		}
	})
}

// A living token of an hour is no reason to give an old session one of a day, after the operator has raised the lifetime.
func TestRaisedLifetimeNeedsAProof(t *testing.T) {
	var minutes atomic.Int64
	begin := time.Now().Add(-time.Hour) // what the store calls now is later
	now := func() time.Time { return begin.Add(time.Duration(minutes.Load()) * time.Minute) }
	s := startService(t, serviceOptions{Now: now}, "ada")
	wiki := s.app("wiki", func(c *provider.Client) { c.Trusted = true }, "openid")
	b := s.signedIn("ada")
	needStatus(t, "an hour's token", wiki.redeem(b.authorize(wiki.authURL(), "ada").Get("code")), 200)
	c, err := s.store.Client(t.Context(), "wiki")
	noError(t, err)
	c.AccessLifetime = 24 * time.Hour
	noError(t, s.store.UpdateClient(t.Context(), c, operator(account.UpdateClient, "wiki", "")))
	minutes.Store(11)
	wantAnswer(t, "an old session", answered(t, b.get(wiki.authURL("prompt", "none"))), "login_required")
	b = s.signedIn("ada")
	needStatus(t, "a day's token", wiki.redeem(b.authorize(wiki.authURL(), "ada").Get("code")), 200)
	minutes.Store(22)
	wantAnswer(t, "beside a day's token", answered(t, b.get(wiki.authURL("prompt", "none"))), "code")
}

func aboutApps(sent []mail.Message) (about []mail.Message) {
	for _, m := range sent {
		if strings.Contains(m.Subject, "may now act for you") {
			about = append(about, m)
		}
	}
	return about
}

// Explain says when a sign-in has to be new.
func TestExplainSaysThatLastingAccessNeedsAProof(t *testing.T) {
	s, rp := startApp(t, func(c *provider.Client) { c.Trusted = true }, "openid", "offline_access")
	const step = "the sign-in page, unless the browser signed in during the last 10m0s"
	for range 2 {
		if e := s.explain(rp.authURL(), "ada"); e.Answer != provider.AnswerCode || e.Steps[0] != step {
			t.Errorf("without such access: %s %q", e.Answer, e.Steps)
		}
	}
	if e := s.explain(rp.authURL("scope", "openid"), "ada"); e.Steps[0] == step {
		t.Errorf("nothing lasts: %q", e.Steps)
	}
	s.signedInTokens(rp, "ada")
	if e := s.explain(rp.authURL(), "ada"); e.Answer != provider.AnswerCode || e.Steps[0] != step {
		t.Errorf("another session has such access: %s %q", e.Answer, e.Steps)
	}
	e := s.explain(rp.authURL("prompt", "none"), "ada")
	if e.Answer != provider.AnswerCode || !strings.Contains(e.Steps[0], "signed in already, else") || !strings.Contains(fmt.Sprint(e), "without offline_access") {
		t.Errorf("silently: %s %q", e.Answer, e.Steps)
	}
}

// A request whose session gets another token before its grant is stored, as by a sign-in in another tab, is decided
// again with the cookie that the browser has by then: also one that must not show a page. SQLite has one writer, and no
// sign-in while a grant waits.
func TestAuthorizationOvertakenByASignIn(t *testing.T) {
	dsn := storetest.PostgresDSN(t) // SQLite has one writer
	s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }}, "ada")
	b, wiki := s.signedIn("ada"), s.app("wiki", func(c *provider.Client) { c.Trusted = true }, "openid")
	db, err := sql.Open("pgx", dsn)
	noError(t, err)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	noError(t, err)
	_, err = tx.ExecContext(t.Context(), "LOCK TABLE grants IN EXCLUSIVE MODE")
	noError(t, err)
	overtaken := make(chan response, 1)
	go func() { overtaken <- b.get(wiki.authURL("prompt", "none")) }()
	for waiting := false; !waiting && len(overtaken) == 0; {
		noError(t, db.QueryRowContext(t.Context(), `SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE NOT l.granted AND a.query LIKE 'INSERT INTO grants%'`).Scan(&waiting))
	}
	needStatus(t, "sign-in in another tab", b.confirm(password, ""), 200)
	noError(t, tx.Rollback())
	got := <-overtaken
	if next := got.Header.Get("Location"); !strings.HasPrefix(strings.TrimPrefix(next, s.URL), "/oauth2/authorize?continue=") {
		t.Fatalf("overtaken: %d %s", got.StatusCode, next)
	}
	wantAnswer(t, "decided again", answered(t, b.get(got.Header.Get("Location"))), "code")
}
