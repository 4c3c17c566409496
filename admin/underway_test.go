package admin_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
)

// headed is a store in which something happens after the head of a request was read, with its session and before
// its body.
type headed struct {
	*store.Store
	then func()
}

func (h *headed) Session(ctx context.Context, id string) (account.Session, account.User, error) {
	n, u, err := h.Store.Session(ctx, id)
	h.happen()
	return n, u, err
}

func (h *headed) SessionByLoginHash(ctx context.Context, hash []byte) (account.Session, account.User, error) {
	n, u, err := h.Store.SessionByLoginHash(ctx, hash)
	h.happen()
	return n, u, err
}

func (h *headed) happen() {
	if then := h.then; then != nil {
		h.then = nil
		then()
	}
}

type nobody struct{}

func (nobody) Send(context.Context, mail.Message) error { return nil }

// underWay is an installation in which somebody has sent the head of a request.
type underWay struct {
	*accounttest.World
	store *headed
	db    *sql.DB
	boss  *accounttest.Browser // another administrator

	me, bob     string // a thief of an administrator's session, and another member
	thief, mine *accounttest.Browser
	secret      string // of the authenticator app
	people      int
}

func newUnderWay(t *testing.T, dsn string) *underWay {
	t.Helper()
	w := &underWay{store: &headed{Store: storetest.Open(t, dsn)}}
	never := func(context.Context) (time.Time, error) { return time.Time{}, nil }
	mount := func(s *site.Site, m *mux.Router) { admin.New(s, admin.Options{Mail: true, LastBackup: never}).Mount(m) }
	w.World = accounttest.On(t, w.store, mount, func(o *accounttest.Options) { o.Mail = nobody{} })
	driver := "sqlite3"
	if store.IsPostgres(dsn) {
		driver = "pgx"
	}
	db, err := sql.Open(driver, dsn)
	w.must(err)
	t.Cleanup(func() { w.must(db.Close()) })
	w.db = db
	w.AddUser("boss", account.FlagAdmin)
	w.boss = w.SignedIn("boss")
	return w
}

func (w *underWay) must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// meet makes new people.
func (w *underWay) meet() {
	w.people++
	w.me, w.bob = fmt.Sprintf("me%d", w.people), fmt.Sprintf("bob%d", w.people)
	w.AddUser(w.me, account.FlagAdmin)
	w.AddUser(w.bob)
	w.mine, w.thief = w.SignedIn(w.me), w.SignedIn(w.me)
}

// changing are the tables that an act may change.
var changing = []string{"users", "user_flags", "sessions", "passkeys", "totp", "recovery_codes", "preferences", "invites",
	"join_requests", "settings", "logo", "reset_codes", "mailed_reset_codes", "email_changes", "user_pictures", "consents",
	"grants", "audit", "mail_outbox"}

// rows returns what the tables hold, without refusals in the audit log.
func (w *underWay) rows() []string {
	w.T.Helper()
	var all []string
	for _, table := range changing {
		rows, err := w.db.QueryContext(w.T.Context(), "SELECT * FROM "+table) //nolint:gosec // of the list above
		w.must(err)
		columns, err := rows.Columns()
		w.must(err)
		for rows.Next() {
			values, to := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				to[i] = &values[i]
			}
			w.must(rows.Scan(to...))
			if row := fmt.Sprint(table, " ", values); !strings.Contains(row, account.RefuseSuspended.Action) {
				all = append(all, row)
			}
		}
		w.must(rows.Err())
		w.must(rows.Close())
	}
	slices.Sort(all)
	return all
}

// body is what is sent: JSON, a form, a file, or nothing.
type body any

type file struct{ field string }

func (w *underWay) send(b *accounttest.Browser, route, path string, of body) *accounttest.Answer {
	w.T.Helper()
	method, _, _ := strings.Cut(route, " ")
	accept := []string{"Accept", "text/html"}
	if strings.HasPrefix(path, "/api/") {
		accept = nil
	}
	switch of := of.(type) {
	case nil:
		return b.Send(method, path, "", "", accept...)
	case url.Values:
		return b.Send(method, path, "application/x-www-form-urlencoded", of.Encode(), accept...)
	case file:
		var sent, picture bytes.Buffer
		w.must(png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64))))
		form := multipart.NewWriter(&sent)
		part, err := form.CreateFormFile(of.field, "a.png")
		w.must(err)
		_, err = part.Write(picture.Bytes())
		w.must(err)
		w.must(form.Close())
		return b.Send(method, path, form.FormDataContentType(), sent.String(), accept...)
	default:
		raw, err := json.Marshal(of)
		w.must(err)
		return b.Send(method, path, "application/json", string(raw), accept...)
	}
}

func (w *underWay) enrol() {
	drawn := w.thief.Call("POST", "/api/me/totp", nil).Is(200).JSON()
	w.secret = drawn["secret"].(string)
	w.thief.Call("POST", "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": w.code()}).Is(200)
	w.mine = w.thief.Clone() // the others have ended
}

func (w *underWay) code() string {
	code, err := totp.GenerateCode(w.secret, w.Clock.Now())
	w.must(err)
	return code
}

// passkey adds a passkey without a ceremony, and returns its id.
func (w *underWay) passkey() string {
	k := account.Passkey{ID: []byte(w.me + " key"), Sub: w.User(w.me).Sub, RPID: "localhost", Name: "key",
		PublicKey: []byte("k"), AAGUID: make([]byte, 16), CreatedAt: w.Clock.Now()}
	_, err := w.store.AddPasskey(w.T.Context(), k, account.MaxPasskeys,
		account.NewFactor{WayIn: true, Now: w.Clock.Now(), Audit: w.operator(account.AddFactor)})
	w.must(err)
	return base64.RawURLEncoding.EncodeToString(k.ID)
}

func (w *underWay) operator(act account.Act) account.Audit {
	return account.Operator().Audit(w.Clock.Now(), act, w.me, "")
}

func (w *underWay) invite(b *accounttest.Browser) string {
	return b.Call("POST", "/api/invites", nil).Is(201).JSON()["code"].(string)
}

func (w *underWay) app() string {
	id := "app-" + w.me
	c := &provider.Client{ID: id, Name: "Maps", RedirectURIs: []string{"https://maps.example.org/cb"}, AuthMethod: provider.AuthNone, CreatedAt: w.Clock.Now()}
	w.must(w.store.CreateClient(w.T.Context(), c, w.operator(account.RegisterClient)))
	w.must(w.store.SaveConsent(w.T.Context(), w.User(w.me).Sub, id, []string{"openid"}, w.Clock.Now(), w.operator(account.AllowApp)))
	return id
}

func verified(u *account.User) { u.EmailVerified = true }

func waiting(u *account.User) { u.Pending.Email = "new@example.org" }

// email gives who acts an address.
func (w *underWay) email(change ...func(*account.User)) {
	_, err := w.store.ChangeUser(w.T.Context(), w.User(w.me).Sub, func(u *account.User) error {
		u.Email = w.me + "@example.org"
		for _, change := range change {
			change(u)
		}
		return nil
	}, w.Clock.Now(), nil)
	w.must(err)
}

func (w *underWay) joining() string {
	r := account.JoinRequest{ID: "join-" + w.me, Name: "Kim", Email: "kim-" + w.me + "@example.org", Mailbox: w.me,
		AskedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(time.Hour)}
	w.must(w.store.AddJoinRequest(w.T.Context(), r, []byte(r.ID), 100000, w.operator(account.ConfirmJoin)))
	return r.ID
}

func (w *underWay) sessionOf(handle string) string {
	list, err := w.store.Sessions(w.T.Context(), w.User(handle).Sub, w.Clock.Now())
	w.must(err)
	return list[len(list)-1].ID
}

func form(pairs ...string) url.Values {
	out := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out.Add(pairs[i], pairs[i+1])
	}
	return out
}

// late is the rest of a body, before which something happens.
type late struct {
	io.Reader
	before func()
}

func (l *late) Read(p []byte) (int, error) {
	if before := l.before; before != nil {
		l.before = nil
		before()
	}
	return l.Reader.Read(p)
}

// The head of a request and half of its body come, then the remedy, then the rest.
func TestActUnderWayIsRefusedAfterARemedy(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		w := newUnderWay(t, dsn)
		halves := func(method, path, sent string, remedy func()) *accounttest.Answer {
			half := len(sent) / 2
			rest := &late{Reader: strings.NewReader(sent[half:]), before: remedy}
			return w.thief.Stream(method, path, "application/json",
				io.MultiReader(strings.NewReader(sent[:half]), rest))
		}
		w.meet()
		suspend := func() { w.boss.Call("POST", "/api/admin/users/"+w.me+"/suspend", nil).Is(200) }
		halves("PUT", "/api/admin/users/"+w.bob+"/flags", `{"admin":true}`, suspend).Is(401, "not_authenticated")
		if w.User(w.bob).Has(account.FlagAdmin) {
			t.Error("a suspended administrator has made another")
		}
		w.meet()
		demote := func() {
			w.boss.Call("PUT", "/api/admin/users/"+w.me+"/flags", map[string]bool{"admin": false}).Is(200)
		}
		halves("PUT", "/api/admin/users/"+w.bob+"/flags", `{"admin":true}`, demote).Is(403, "admin_required")
		w.meet()
		others := func() { w.mine.Call("POST", "/api/me/sessions/end-others", nil).Is(204) }
		halves("DELETE", "/api/me", `{"password":"`+password+`"}`, others).Is(401, "not_authenticated")
		w.mine.Call("GET", "/api/me", nil).Is(200)
		for _, begins := range []string{"/api/me/totp", "/api/me/passkeys/begin"} {
			for _, remedy := range []func(){others, suspend} {
				w.meet()
				w.store.then = remedy
				w.thief.Call("POST", begins, nil).Is(401, "not_authenticated")
			}
		}
	})
}

// route is a route of an act, with what makes it do something.
type route struct {
	act  account.Act
	name string
	// with prepares the act and returns what replaces the parameters of the path, and the body.
	with func(w *underWay) (path string, sent body)
}

func routesUnderWay() []route {
	at := func(path string, sent body) func(*underWay) (string, body) {
		return func(*underWay) (string, body) { return path, sent }
	}
	onBob := func(rest string, sent body) func(*underWay) (string, body) {
		return func(w *underWay) (string, body) { return strings.Replace(rest, "BOB", w.bob, 1), sent }
	}
	passwords := func(w *underWay) { w.enrol(); w.passkey() }
	chosen := func(w *underWay) {
		passwords(w)
		w.thief.Call("DELETE", "/api/me/totp", nil).Is(204)
	}
	choosing := func(w *underWay) {
		chosen(w)
		w.thief.Call("PUT", "/api/me/second-step", map[string]bool{"on": false}).Is(200)
	}
	return []route{
		{account.EndSession, "DELETE /api/me/sessions/{id}", func(w *underWay) (string, body) {
			return "/api/me/sessions/" + w.sessionOf(w.me), nil
		}},
		{account.EndSession, "POST /account/sessions/end", func(w *underWay) (string, body) {
			return "/account/sessions/end", form("id", w.sessionOf(w.me))
		}},
		{account.EndOtherSessions, "POST /api/me/sessions/end-others", at("/api/me/sessions/end-others", nil)},
		{account.EndOtherSessions, "POST /account/sessions/end-others", at("/account/sessions/end-others", form("sure", "yes"))},
		{account.ChangeProfile, "PATCH /api/me", at("/api/me", map[string]string{"nickname": "x"})},
		{account.ChangeProfile, "POST /account/profile", at("/account/profile", form("nickname", "x"))},
		{account.ChangeProfile, "PUT /api/me/prefs", at("/api/me/prefs", map[string]string{"a": "b"})},
		{account.SetPicture, "POST /account/picture", at("/account/picture", file{"picture"})},
		{account.RemovePicture, "POST /account/picture/remove", at("/account/picture/remove", form())},
		{account.ChangeEmail, "PATCH /api/me", at("/api/me", map[string]string{"email": "new@example.org"})},
		{account.ChangeEmail, "POST /account/profile", at("/account/profile", form("email", "new@example.org"))},
		{account.RequestEmail, "PATCH /api/me", func(w *underWay) (string, body) {
			w.email(verified)
			return "/api/me", map[string]string{"email": "new@example.org"}
		}},
		{account.RequestEmail, "POST /account/profile", func(w *underWay) (string, body) {
			w.email(verified)
			return "/account/profile", form("email", "new@example.org")
		}},
		{account.CancelEmail, "DELETE /api/me/email/pending", func(w *underWay) (string, body) {
			w.email(verified)
			w.email(waiting)
			return "/api/me/email/pending", nil
		}},
		{account.CancelEmail, "POST /account/cancel-email", func(w *underWay) (string, body) {
			w.email(verified)
			w.email(waiting)
			return "/account/cancel-email", form()
		}},
		{account.AskVerification, "POST /api/me/email/send-verification", func(w *underWay) (string, body) {
			w.email()
			return "/api/me/email/send-verification", nil
		}},
		{account.AskVerification, "POST /account/send-verification", func(w *underWay) (string, body) {
			w.email()
			return "/account/send-verification", form()
		}},
		{account.ChangePassword, "PUT /api/me/password", at("/api/me/password", map[string]string{"current_password": password, "new_password": accounttest.NewPassword})},
		{account.ChangePassword, "POST /account/password", at("/account/password", form("current_password", password, "new_password", accounttest.NewPassword))},
		{account.RemovePassword, "DELETE /api/me/password", func(w *underWay) (string, body) {
			passwords(w)
			return "/api/me/password", nil
		}},
		{account.RemovePassword, "POST /account/password/remove", func(w *underWay) (string, body) {
			passwords(w)
			return "/account/password/remove", form("sure", "yes")
		}},
		{account.AddFactor, "POST /api/me/totp/confirm", func(w *underWay) (string, body) {
			drawn := w.thief.Call("POST", "/api/me/totp", nil).Is(200).JSON()
			w.secret = drawn["secret"].(string)
			return "/api/me/totp/confirm", map[string]any{"token": drawn["token"], "code": w.code()}
		}},
		{account.AddFactor, "POST /account/security/totp", func(w *underWay) (string, body) {
			drawn := w.thief.Call("POST", "/api/me/totp", nil).Is(200).JSON()
			w.secret = drawn["secret"].(string)
			return "/account/security/totp", form("token", drawn["token"].(string), "code", w.code())
		}},
		{account.RemoveFactor, "DELETE /api/me/totp", func(w *underWay) (string, body) { w.enrol(); return "/api/me/totp", nil }},
		{account.RemoveFactor, "POST /account/security/totp/remove", func(w *underWay) (string, body) {
			w.enrol()
			return "/account/security/totp/remove", form("sure", "yes")
		}},
		{account.RemoveFactor, "DELETE /api/me/passkeys/{id}", func(w *underWay) (string, body) { return "/api/me/passkeys/" + w.passkey(), nil }},
		{account.RemoveFactor, "POST /account/passkeys/remove", func(w *underWay) (string, body) {
			return "/account/passkeys/remove", form("id", w.passkey(), "sure", "yes")
		}},
		{account.AskSecondStep, "PUT /api/me/second-step", func(w *underWay) (string, body) {
			choosing(w)
			return "/api/me/second-step", map[string]bool{"on": true}
		}},
		{account.AskSecondStep, "POST /account/security/second-step", func(w *underWay) (string, body) {
			choosing(w)
			return "/account/security/second-step", form()
		}},
		{account.DropSecondStep, "PUT /api/me/second-step", func(w *underWay) (string, body) {
			chosen(w)
			return "/api/me/second-step", map[string]bool{"on": false}
		}},
		{account.DropSecondStep, "POST /account/security/second-step/off", func(w *underWay) (string, body) {
			chosen(w)
			return "/account/security/second-step/off", form("sure", "yes")
		}},
		{account.RenamePasskey, "PATCH /api/me/passkeys/{id}", func(w *underWay) (string, body) {
			return "/api/me/passkeys/" + w.passkey(), map[string]string{"name": "blue"}
		}},
		{account.RenamePasskey, "POST /account/passkeys/rename", func(w *underWay) (string, body) {
			return "/account/passkeys/rename", form("id", w.passkey(), "name", "blue")
		}},
		{account.RenewRecoveryCodes, "POST /api/me/recovery-codes", func(w *underWay) (string, body) { w.enrol(); return "/api/me/recovery-codes", nil }},
		{account.RenewRecoveryCodes, "POST /account/security/recovery-codes", func(w *underWay) (string, body) {
			w.enrol()
			return "/account/security/recovery-codes", form()
		}},
		{account.ExportAccount, "GET /api/me/export", at("/api/me/export", nil)},
		{account.ExportAccount, "POST /api/me/export", at("/api/me/export", nil)},
		{account.ExportAccount, "POST /account/export", at("/account/export", form())},
		{account.DeleteAccount, "DELETE /api/me", at("/api/me", map[string]string{"password": password})},
		{account.DeleteAccount, "POST /account/delete", at("/account/delete", form("password", password))},
		{account.RemoveApp, "DELETE /api/me/apps/{client_id}", func(w *underWay) (string, body) { return "/api/me/apps/" + w.app(), nil }},
		{account.RemoveApp, "POST /account/apps/remove", func(w *underWay) (string, body) {
			return "/account/apps/remove", form("client_id", w.app(), "sure", "yes")
		}},
		{account.CreateInvite, "POST /api/invites", at("/api/invites", nil)},
		{account.CreateInvite, "POST /account/invites", at("/account/invites", form())},
		{account.CreateWideInvite, "POST /api/invites", at("/api/invites", map[string]any{"uses": 2})},
		{account.CreateWideInvite, "POST /account/invites", at("/account/invites", form("uses", "2"))},
		{account.DeleteInvite, "DELETE /api/invites/{code}", func(w *underWay) (string, body) { return "/api/invites/" + w.invite(w.thief), nil }},
		{account.DeleteInvite, "POST /account/invites/delete", func(w *underWay) (string, body) {
			return "/account/invites/delete", form("code", w.invite(w.thief))
		}},

		{account.AcceptJoin, "POST /api/admin/join-requests/{id}/accept", func(w *underWay) (string, body) {
			return "/api/admin/join-requests/" + w.joining() + "/accept", nil
		}},
		{account.RefuseJoin, "POST /api/admin/join-requests/{id}/refuse", func(w *underWay) (string, body) {
			return "/api/admin/join-requests/" + w.joining() + "/refuse", nil
		}},
		{account.AcceptJoin, "POST /admin/join-requests", func(w *underWay) (string, body) {
			return "/admin/join-requests", form("id", w.joining(), "decision", "welcome")
		}},
		{account.RefuseJoin, "POST /admin/join-requests", func(w *underWay) (string, body) {
			return "/admin/join-requests", form("id", w.joining(), "decision", "refuse")
		}},
		{account.AddUser, "POST /api/admin/users", func(w *underWay) (string, body) {
			return "/api/admin/users", map[string]string{"handle": "new-" + w.me}
		}},
		{account.AddUser, "POST /admin/users/", func(w *underWay) (string, body) { return "/admin/users/", form("handle", "new-"+w.me) }},
		{account.AmendUser, "PATCH /api/admin/users/{handle}", onBob("/api/admin/users/BOB", map[string]string{"email": "bob@example.net"})},
		{account.AmendUser, "POST /admin/users/{handle}/profile", onBob("/admin/users/BOB/profile", form("display_name", "Robert", "email", ""))},
		{account.SetFlags, "PUT /api/admin/users/{handle}/flags", onBob("/api/admin/users/BOB/flags", map[string]bool{"admin": true})},
		{account.SetFlags, "POST /admin/users/{handle}/flags", onBob("/admin/users/BOB/flags", form("known", "admin", "flag", "admin"))},
		{account.SetFlags, "POST /admin/users/selected", func(w *underWay) (string, body) {
			return "/admin/users/selected", form("who", w.bob, "do", "flags", "flag.admin", "on", "sure", "yes")
		}},
		{account.Suspend, "POST /api/admin/users/{handle}/suspend", onBob("/api/admin/users/BOB/suspend", nil)},
		{account.Suspend, "POST /admin/users/{handle}/suspend", onBob("/admin/users/BOB/suspend", form("sure", "yes"))},
		{account.Suspend, "POST /admin/users/selected", func(w *underWay) (string, body) {
			return "/admin/users/selected", form("who", w.bob, "do", "suspend", "sure", "yes")
		}},
		{account.Unsuspend, "POST /api/admin/users/{handle}/unsuspend", func(w *underWay) (string, body) {
			w.Suspend(w.bob)
			return "/api/admin/users/" + w.bob + "/unsuspend", nil
		}},
		{account.Unsuspend, "POST /admin/users/{handle}/unsuspend", func(w *underWay) (string, body) {
			w.Suspend(w.bob)
			return "/admin/users/" + w.bob + "/unsuspend", form()
		}},
		{account.SetEnd, "PUT /api/admin/users/{handle}/end", onBob("/api/admin/users/BOB/end", map[string]string{"ends": "2099-12-24"})},
		{account.SetEnd, "POST /admin/users/{handle}/end", onBob("/admin/users/BOB/end", form("ends", "2099-12-24"))},
		{account.SetEnd, "POST /admin/users/selected", func(w *underWay) (string, body) {
			return "/admin/users/selected", form("who", w.bob, "do", "end", "ends", "2099-12-24", "sure", "yes")
		}},
		{account.UnlockUser, "POST /api/admin/users/{handle}/unlock", onBob("/api/admin/users/BOB/unlock", nil)},
		{account.UnlockUser, "POST /admin/users/{handle}/unlock", onBob("/admin/users/BOB/unlock", form())},
		{account.InviteUser, "POST /admin/users/selected", func(w *underWay) (string, body) {
			w.boss.Call("POST", "/api/admin/users", map[string]string{"handle": "asked-" + w.me, "email": "asked-" + w.me + "@example.org"}).Is(201)
			return "/admin/users/selected", form("who", "asked-"+w.me, "do", "invite", "sure", "yes")
		}},
		{account.IssueResetCode, "POST /api/admin/users/{handle}/reset-password-code", onBob("/api/admin/users/BOB/reset-password-code", nil)},
		{account.IssueResetCode, "POST /admin/users/{handle}/reset-password-code", onBob("/admin/users/BOB/reset-password-code", form())},
		{account.ResetFactors, "POST /api/admin/users/{handle}/reset-factors", onBob("/api/admin/users/BOB/reset-factors", nil)},
		{account.ResetFactors, "POST /admin/users/{handle}/reset-factors", onBob("/admin/users/BOB/reset-factors", form("sure", "yes"))},
		{account.EndUserSession, "DELETE /api/admin/users/{handle}/sessions/{id}", func(w *underWay) (string, body) {
			w.SignedIn(w.bob)
			return "/api/admin/users/" + w.bob + "/sessions/" + w.sessionOf(w.bob), nil
		}},
		{account.EndUserSession, "POST /admin/users/{handle}/end-session", func(w *underWay) (string, body) {
			w.SignedIn(w.bob)
			return "/admin/users/" + w.bob + "/end-session", form("id", w.sessionOf(w.bob))
		}},
		{account.EndUserSessions, "POST /api/admin/users/{handle}/sessions/end-all", func(w *underWay) (string, body) {
			w.SignedIn(w.bob)
			return "/api/admin/users/" + w.bob + "/sessions/end-all", nil
		}},
		{account.EndUserSessions, "POST /admin/users/{handle}/end-sessions", func(w *underWay) (string, body) {
			w.SignedIn(w.bob)
			return "/admin/users/" + w.bob + "/end-sessions", form()
		}},
		{account.DeleteUser, "DELETE /api/admin/users/{handle}", onBob("/api/admin/users/BOB", nil)},
		{account.DeleteUser, "POST /admin/users/{handle}/delete", func(w *underWay) (string, body) {
			return "/admin/users/" + w.bob + "/delete", form("confirm", w.bob)
		}},
		{account.RevokeInvite, "DELETE /api/admin/invites/{code}", func(w *underWay) (string, body) {
			return "/api/admin/invites/" + w.invite(w.SignedIn(w.bob)), nil
		}},
		{account.RevokeInvite, "POST /admin/invites/revoke", func(w *underWay) (string, body) {
			return "/admin/invites/revoke", form("code", w.invite(w.SignedIn(w.bob)))
		}},
		{account.RevokeBranch, "POST /api/admin/invites/revoke", func(w *underWay) (string, body) {
			w.invite(w.SignedIn(w.bob))
			return "/api/admin/invites/revoke", map[string]string{"handle": w.bob}
		}},
		{account.RevokeBranch, "POST /admin/invites/revoke", func(w *underWay) (string, body) {
			w.invite(w.SignedIn(w.bob))
			return "/admin/invites/revoke", form("under", w.bob)
		}},
		{account.UpdateSettings, "PUT /api/admin/settings", func(w *underWay) (string, body) {
			return "/api/admin/settings", map[string]string{"instance_name": "Club " + w.me}
		}},
		{account.UpdateSettings, "POST /admin/settings/general", func(w *underWay) (string, body) {
			return "/admin/settings/general", form("instance_name", "Club "+w.me)
		}},
		{account.UpdateSettings, "POST /admin/settings/joining", at("/admin/settings/joining", form("registration", "request"))},
		{account.UpdateSettings, "POST /admin/settings/advanced", at("/admin/settings/advanced", form("sign_out_on_flag_loss", "on"))},
		{account.UpdateSettings, "POST /admin/settings/flags", func(w *underWay) (string, body) {
			return "/admin/settings/flags", form("known", "admin", "known", "activity", "new_flag", w.me)
		}},
		{account.UpdateSettings, "POST /admin/settings/security", func(w *underWay) (string, body) {
			v, err := w.store.Settings(w.T.Context())
			w.must(err)
			sent := form()
			if !v.OfferPasskeys {
				sent.Set("offer_passkeys", "on")
			}
			return "/admin/settings/security", sent
		}},
		{account.CloseNextSteps, "POST /admin/steps", func(w *underWay) (string, body) {
			_, err := w.store.AmendSettings(w.T.Context(), func(v *account.Settings) (string, error) {
				v.NextSteps = true
				return "next_steps", nil
			}, w.operator(account.UpdateSettings))
			w.must(err)
			return "/admin/steps", form()
		}},
		{account.SetLogo, "POST /admin/settings/logo", at("/admin/settings/logo", file{"logo"})},
		{account.SetLogo, "POST /admin/settings/remove-logo", at("/admin/settings/remove-logo", form())},
		{account.SetLogo, "POST /admin/settings/dark-logo", at("/admin/settings/dark-logo", file{"logo"})},
		{account.SetLogo, "POST /admin/settings/remove-dark-logo", at("/admin/settings/remove-dark-logo", form())},
		{account.TestMail, "POST /admin/test-mail", func(w *underWay) (string, body) {
			_, err := w.db.ExecContext(w.T.Context(), "UPDATE users SET email = 'me@example.org' WHERE handle = '"+w.me+"'")
			w.must(err)
			return "/admin/test-mail", form()
		}},
		{account.ImportUsers, "POST /admin/users/paste", func(w *underWay) (string, body) {
			return "/admin/users/paste", form("people", "Kim "+w.me+",kim-"+w.me+"@example.net", "sure", "yes")
		}},
	}
}

// What the first two begin changes nothing, and they are tried above; what ends the ceremony of a passkey is stored as an authenticator app is, and a
// consent is in package store.
var notUnderWay = []string{"POST /api/me/totp", "POST /api/me/passkeys/begin", "POST /api/me/passkeys", "POST /account/passkeys", "POST /oauth2/consent"}

// Each route of each act that needs its session: the head has come, with a good session and flag, when somebody else
// does what ends them. The act then is refused and changes nothing.
func TestNoRouteIsCarriedOutAfterARemedy(t *testing.T) {
	routes := routesUnderWay()
	for _, act := range account.Acts {
		bound := account.Audit{Session: "s", Action: act.Action, Proof: act.Proof}.Bound()
		for _, name := range act.Routes {
			has := slices.ContainsFunc(routes,
				func(r route) bool { return r.name == name && r.act.Action == act.Action })
			if bound && !act.Silent && !has && !slices.Contains(notUnderWay, name) {
				t.Errorf("%s of %s is not tried", name, act.Action)
			}
		}
	}
	// Each of a few has a database of its own: what is in one is read again and again.
	for some := range slices.Chunk(routes, 9) {
		storetest.EachDSN(t, func(t *testing.T, dsn string) {
			w := newUnderWay(t, dsn)
			suspend := func() { w.boss.Call("POST", "/api/admin/users/"+w.me+"/suspend", nil).Is(200) }
			others := func() { w.mine.Call("POST", "/api/me/sessions/end-others", nil).Is(204) }
			demote := func() {
				row := w.operator(account.SetFlags).Keeping(account.Keep{Sessions: true})
				_, err := w.store.SetFlagsOfAll(t.Context(), account.FlagChange{account.FlagAdmin: {On: false}},
					w.Clock.Now(), map[string]account.Audit{w.User(w.me).Sub: row})
				w.must(err)
			}
			for _, r := range some {
				remedies := map[string]func(){"nothing": nil, "suspension": suspend, "end of other sessions": others}
				if r.act.Proof == account.ProofAdministrator {
					remedies = map[string]func(){"nothing": nil, "suspension": suspend, "loss of the flag": demote}
				}
				for name, remedy := range remedies {
					w.meet()
					path, sent := r.with(w)
					if name == "end of other sessions" && w.secret != "" {
						w.secret = ""
						continue // the session that enrolled is the only one
					}
					w.secret = ""
					var before []string
					w.store.then = func() {
						if remedy != nil {
							remedy()
						}
						before = w.rows()
					}
					a := w.send(w.thief, r.name, path, sent)
					changed := !slices.Equal(before, w.rows())
					to := a.Header.Get("Location")
					refused := a.Status/100 == 4 || a.Status == 303 && strings.HasPrefix(to, "/login/")
					switch {
					case before == nil:
						t.Errorf("%s: nothing happened in between", r.name)
					case remedy == nil && (refused || a.Status >= 500 || !changed):
						t.Errorf("%s does nothing: %d %s %.300s", r.name, a.Status, to, a.Body)
					case remedy != nil && (!refused || changed):
						t.Errorf("%s after %s: %d %s, changed: %t; %.200s", r.name, name, a.Status, to, changed, a.Body)
					}
				}
			}
		})
	}
}
