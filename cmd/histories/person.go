package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web/browser"
)

// person is somebody with an account and a session.
type person struct {
	handle, email string
	held          string // cookie of the session
	since         time.Time
}

// newPerson registers somebody by an invite; with an address they get mails.
func (w *world) newPerson(ctx context.Context, mails bool) (*person, error) {
	p := &person{handle: fmt.Sprintf("p%d", w.names.Add(1)), since: time.Now()}
	invite := w.manage(ctx, w.any(), "POST", "/api/invites", map[string]string{}).Given("code")
	r := w.api(ctx, w.any(), "POST", "/api/register", "",
		map[string]string{"code": invite, "handle": p.handle, "password": password})
	if p.held = r.Cookie(browser.SessionCookie); p.held == "" {
		return nil, failed("register", r)
	}
	w.registry.note(p.held, p.held)
	if mails {
		p.email = p.handle + "@example.org"
		if r := w.manage(ctx, w.any(), "PATCH", "/api/admin/users/"+p.handle,
			map[string]any{"email": p.email, "email_verified": true}); r.Status != http.StatusOK {
			return nil, failed("address", r)
		}
	}
	return p, nil
}

func (w *world) any() int { return rand.IntN(len(w.each)) }

// who returns somebody for one history alone, or a person of the pool, who is to be released.
func (w *world) who(ctx context.Context, own, mails bool) (p *person, release func(), err error) {
	if own {
		p, err = w.newPerson(ctx, mails)
		return p, func() {}, err
	}
	p, err = w.lease(ctx)
	return p, func() { w.idle <- p }, err
}

// lease returns a person whom no other history uses and whose session is fresh.
func (w *world) lease(ctx context.Context) (*person, error) {
	var p *person
	select {
	case p = <-w.idle:
	default:
		return w.newPerson(ctx, false)
	}
	if time.Since(p.since) < 5*time.Minute {
		return p, nil
	}
	r := w.login(ctx, w.any(), p.handle, password)
	if r.Cookie(browser.SessionCookie) == "" {
		w.idle <- p
		return nil, failed("sign-in", r)
	}
	w.registry.note(r.Cookie(browser.SessionCookie), r.Cookie(browser.SessionCookie))
	p.held, p.since = r.Cookie(browser.SessionCookie), time.Now()
	return p, nil
}

// account is a person with sessions and the grants of applications.
type account struct {
	w       *world
	p       *person
	s       *script
	roots   map[int]int // of a token: the step that made its session or its grant
	app     string      // which client
	mu      sync.Mutex
	made    map[int]made
	own     bool // the person is of no use to other histories
	release func()
	api     bool      // the access tokens are JWTs for an API
	many    []*person // to whom an administrator does the same
	wrong   []string
}

// made is what a step has made.
type made struct {
	session, code, access, refresh string
	wrong                          []string
}

func beginAccount(app string, own bool) func(context.Context, *world, *script) (object, error) {
	return func(ctx context.Context, w *world, s *script) (object, error) {
		p, release, err := w.who(ctx, own, own && s.Seed%2 == 0)
		if err != nil {
			return nil, err
		}
		app := app
		if flagged(s) {
			app = "flag"
		} else if s.Kind == "code" && s.Seed%4 == 0 {
			app = "both"
		}
		a := &account{w: w, p: p, release: release, own: own, s: s, roots: rootsOf(s), app: app, api: forAPI(s),
			made: map[int]made{-1: {session: p.held}}}
		for own && s.Seed%2 == 1 && len(a.many) < 2 && slices.ContainsFunc(s.Steps, step.ofMany) {
			other, err := w.newPerson(ctx, false)
			if err != nil {
				return nil, err
			}
			a.many = append(a.many, other)
		}
		return a, nil
	}
}

// ofMany reports whether it is an act that an administrator can do to many.
func (s step) ofMany() bool { return s.Do == "suspend" || s.Do == "flag" }

// forAPI reports whether the applications of a script ask for an API.
func forAPI(s *script) bool { return s.Kind == "account" && s.Seed%3 == 0 }

// flagged reports whether it is an application that requires a flag.
func flagged(s *script) bool { return s.Kind == "account" && s.Seed%3 == 1 }

// rootsOf returns for each session token the step that made its session, and for each code or
// token of a client the step that made its grant.
func rootsOf(s *script) map[int]int {
	roots := map[int]int{-1: -1}
	for _, st := range s.Steps {
		switch st.Do {
		case "signin", "authorize", "allow", "less", "ask":
			roots[st.ID] = st.ID
		case "confirm", "password", "endothers", "addapp", "exchange", "rotate":
			roots[st.ID] = st.ID
			if root, has := roots[st.On]; has {
				roots[st.ID] = root
			}
		}
	}
	return roots
}

// endsAfter is how soon an account ends by itself. The service cuts off parts of a second.
const endsAfter = 2 * time.Second

func passwordOf(id string) string {
	if id == "-1" || id == "" {
		return password
	}
	return password + " " + id
}

// reads are asked again until they have an answer: one without changes nothing and says nothing.
var reads = map[string]bool{"me": true, "userinfo": true, "introspect": true, "bit": true, "pending": true}

func (a *account) do(ctx context.Context, s step) (outcome, string) {
	a.mu.Lock()
	on, has := a.made[s.On]
	a.mu.Unlock()
	if !has && s.On >= 0 {
		return skipped, ""
	}
	if o, note, done := a.aside(ctx, s, on); done {
		return o, note
	}
	if (s.Do == "rotate" || s.Do == "revoke") && on.refresh == "" || s.Do == "exchange" && on.code == "" ||
		s.Do == "userinfo" && on.access == "" || (s.Do == "end" || s.Do == "endone") && a.sid(s.With) == "" ||
		s.Do == "email" && a.p.email != "" {
		return skipped, ""
	}
	got := made{}
	ask := func(at int) reply { return a.request(ctx, at, s, on, &got) }
	if reads[s.Do] {
		return a.read(s, on, ask)
	}
	r := ask(s.At)
	o, note := r.result()
	if slices.Contains([]string{"authorize", "allow", "less", "ask"}, s.Do) && o == accepted {
		got.code = r.Code()
		o, note = r.gotCode()
	}
	if o == accepted && len(a.many) > 0 && s.ofMany() && !strings.Contains(r.Body, a.p.handle) {
		o = unknown // the person was deleted, before or after
	}
	if s.Do == "ends" && o == refused && r.Status != http.StatusNotFound {
		return skipped, "" // asked for too late
	}
	if o == accepted {
		switch s.Do {
		case "ends":
			time.Sleep(endsAfter)
		case "signin", "confirm", "password", "endothers", "addapp":
			if got.session = r.Cookie(browser.SessionCookie); got.session != "" {
				a.w.registry.note(got.session, got.session)
			}
		case "exchange", "rotate":
			got.access, got.refresh = r.Given("access_token"), r.Given("refresh_token")
			a.w.registry.note(got.access, fmt.Sprint("a grant of ", a.p.handle, a.roots[s.ID]))
			for scope := range strings.FieldsSeq(r.Given("scope")) {
				if a.app == "asking" && !slices.Contains(strings.Fields("openid "+s.With), scope) {
					got.wrong = append(got.wrong, fmt.Sprintf("step %d got the scope %s, which was not asked for",
						s.ID, scope))
				}
			}
		case "resetcode":
			got.code = r.Given("code")
		case "notme":
			if f := browser.FormOf(r.Body, "/reset-password/"); f != nil {
				got.code = f.Hidden.Get("code")
			}
		}
		a.keep(s.ID, got)
	}
	return o, note
}

// aside does a step that asks nothing of the service. done is false for any other.
func (a *account) aside(ctx context.Context, s step, on made) (o outcome, note string, done bool) {
	switch s.Do {
	case "pause": // until an end is in the status list, as long as an application may use its copy, and a fetch
		time.Sleep(statusTTL + 2500*time.Millisecond)
		return accepted, "a pause", true
	case "link":
		if a.p.email == "" {
			return skipped, "", true
		}
		text, err := a.w.mail.wait(ctx, a.p.email, 3*time.Second, notMe.MatchString)
		if err != nil {
			return skipped, "", true
		}
		link, _ := url.QueryUnescape(notMe.FindStringSubmatch(text)[1])
		a.keep(s.ID, made{code: link})
		return accepted, "a mail", true
	case "local":
		var err error
		if on.access != "" && !a.api {
			return skipped, "", true
		}
		if on.access != "" {
			_, err = a.w.trails.Verify(ctx, on.access)
		} else {
			_, err = a.w.verifier.Verify(ctx, on.session)
		}
		switch {
		case errors.Is(err, session.ErrRevoked):
			return refused, "revoked", true
		case err != nil, a.s.Fault != "":
			// Its list or keys are out of reach, or were: it goes on with its copy until the issuer
			// answers again, at most until exp.
			return skipped, "", true
		}
		return accepted, "by an application", true
	}
	return skipped, "", false
}

func (a *account) keep(id int, m made) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.made[id], a.wrong = m, append(a.wrong, m.wrong...)
}

// notMe is the link in the mail about a sign-in.
var notMe = regexp.MustCompile(`/not-me/\?link=([^\s"<>&]+)`)

// sid is that of the session that a step has made.
func (a *account) sid(id string) string {
	n, _ := strconv.Atoi(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	return browser.ClaimsOf(a.made[n].session).Sid
}

// read is the answer to a question that changes nothing.
func (a *account) read(s step, on made, ask func(at int) reply) (outcome, string) {
	var r reply
	o, note := a.w.read(s.At, ask, &r)
	switch {
	case s.Do == "introspect" && o == accepted && r.JSON()["active"] != true:
		o, note = refused, note+" not active"
	case s.Do == "bit" && o == accepted:
		bit, err := browser.Bit(r.Body, browser.ClaimsOf(on.session).Status.List.Index)
		if err != nil {
			return skipped, ""
		}
		if bit == 1 {
			o, note = refused, note+" revoked"
		}
	}
	return o, note
}

func (a *account) request(ctx context.Context, at int, s step, on made, got *made) reply {
	w := a.w
	if s.Do == "suspend" && a.s.Seed%6 == 0 {
		_, err := w.cairn(ctx, "user", "suspend", a.p.handle)
		return reply{browser.Answer{Status: http.StatusOK, Err: err}}
	}
	if len(a.many) > 0 && s.ofMany() {
		form := url.Values{"who": {a.p.handle}, "do": {map[string]string{"suspend": "suspend",
			"flag": "flags"}[s.Do]}, "flag.activity": {"off"}, "sure": {"yes"}}
		for _, other := range a.many {
			form.Add("who", other.handle)
		}
		token, err := w.admin.session(ctx, w)
		if err != nil {
			return reply{browser.Answer{Err: err}}
		}
		return w.post(ctx, at, "/admin/users/selected", token, form)
	}
	for _, by := range []func(context.Context, int, step, made) (reply, bool){a.byPerson, a.byAdmin, a.byBrowser,
		a.byApp} {
		if r, has := by(ctx, at, s, on); has {
			return r
		}
	}
	panic("no step " + s.Do)
}

// byPerson is a request of the person at the API.
func (a *account) byPerson(ctx context.Context, at int, s step, on made) (reply, bool) {
	api := func(method, path string, body any) (reply, bool) {
		return a.w.api(ctx, at, method, path, on.session, body), true
	}
	switch s.Do {
	case "signin":
		return a.w.login(ctx, at, a.p.handle, passwordOf(s.With)), true
	case "me":
		return api("GET", "/api/me", nil)
	case "confirm":
		return api("POST", "/api/auth/confirm", map[string]string{"password": passwordOf(s.With)})
	case "logout":
		return api("POST", "/api/auth/logout", nil)
	case "end": // With: whose session
		return api("DELETE", "/api/me/sessions/"+a.sid(s.With), nil)
	case "email":
		return api("PATCH", "/api/me", map[string]any{"email": fmt.Sprint(a.p.handle, "-", s.ID, "@example.org")})
	case "addapp":
		r, _ := api("POST", "/api/me/totp", nil)
		secret := r.Given("secret")
		if secret == "" {
			return r, true
		}
		return api("POST", "/api/me/totp/confirm", map[string]string{
			"token": r.Str("token"), "code": browser.TOTP(secret, time.Now()),
		})
	case "endothers":
		return api("POST", "/api/me/sessions/end-others", nil)
	case "password":
		return api("PUT", "/api/me/password", map[string]string{
			"current_password": passwordOf(s.With), "new_password": passwordOf(strconv.Itoa(s.ID)),
		})
	case "reset":
		on.session = ""
		return api("POST", "/api/auth/reset-password", map[string]string{
			"handle": a.p.handle, "code": on.code, "password": passwordOf(strconv.Itoa(s.ID)),
		})
	case "leave":
		return api("DELETE", "/api/me", map[string]string{"password": passwordOf(s.With)})
	case "removeapp", "remove": // the model of consent knows no session
		return api("DELETE", "/api/me/apps/"+a.app, nil)
	}
	return reply{}, false
}

// byAdmin is a request of an administrator.
func (a *account) byAdmin(ctx context.Context, at int, s step, _ made) (reply, bool) {
	manage := func(method, path string, body any) (reply, bool) {
		return a.w.manage(ctx, at, method, "/api/admin/users/"+a.p.handle+path, body), true
	}
	switch s.Do {
	case "endone":
		return manage("DELETE", "/sessions/"+a.sid(s.With), nil)
	case "resetfactors":
		return manage("POST", "/reset-factors", nil)
	case "ends":
		return manage("PUT", "/end", map[string]string{"ends": time.Now().Add(endsAfter).UTC().Format(time.RFC3339)})
	case "resetcode":
		return manage("POST", "/reset-password-code", nil)
	case "suspend":
		return manage("POST", "/suspend", map[string]string{})
	case "unsuspend":
		return manage("POST", "/unsuspend", nil)
	case "delete":
		return manage("DELETE", "", nil)
	case "endall":
		return manage("POST", "/sessions/end-all", nil)
	case "flag": // it may only be lost
		return manage("PUT", "/flags", map[string]bool{"activity": false})
	}
	return reply{}, false
}

// byBrowser is a request of the person's browser, to which an application or a mail has led it.
func (a *account) byBrowser(ctx context.Context, at int, s step, on made) (reply, bool) {
	w, c := a.w, a.w.clients[a.app]
	switch s.Do {
	case "notme":
		return w.post(ctx, at, "/not-me/", "", url.Values{"link": {on.code}}), true
	case "allow":
		return w.decide(ctx, at, on.session, w.get(ctx, at, c.Authorize("openid "+s.With), on.session)), true
	case "less":
		asked, left, _ := strings.Cut(s.With, " but ")
		r := w.get(ctx, at, c.Authorize("openid "+asked, "prompt", "consent"), on.session)
		return w.decide(ctx, at, on.session, r, strings.Fields(left)...), true
	case "ask":
		return w.get(ctx, at, c.Authorize("openid "+s.With, "prompt", "none"), on.session), true
	case "authorize":
		scope := "openid profile"
		if s.With == "offline" {
			scope += " offline_access"
		}
		if a.api {
			scope += " trails.read"
		}
		return w.get(ctx, at, c.Authorize(scope), on.session), true
	}
	return reply{}, false
}

// byApp is a request of an application.
func (a *account) byApp(ctx context.Context, at int, s step, on made) (reply, bool) {
	w, c := a.w, a.w.clients[a.app]
	if s.With == "client" {
		c = w.clients["other"]
	}
	switch s.Do {
	case "bit":
		u, err := url.Parse(browser.ClaimsOf(on.session).Status.List.URI)
		if err != nil || u.Path == "" {
			return reply{}, true
		}
		return w.get(ctx, at, u.Path, ""), true
	case "exchange":
		form := c.Exchange(on.code)
		switch s.With {
		case "verifier":
			form.Set("code_verifier", "x"+form.Get("code_verifier"))
		case "redirect":
			form.Set("redirect_uri", callback+"/x")
		}
		return w.oauth(ctx, at, "/oauth2/token", c, form), true
	case "rotate":
		return w.oauth(ctx, at, "/oauth2/token", c, c.Refresh(on.refresh)), true
	case "revoke":
		return w.oauth(ctx, at, "/oauth2/revoke", c, url.Values{"token": {on.refresh}}), true
	case "userinfo":
		return w.userinfo(ctx, at, on.access), true
	case "introspect":
		return w.oauth(ctx, at, "/oauth2/introspect", c, url.Values{"token": {on.access}}), true
	}
	return reply{}, false
}

func (a *account) end(ctx context.Context, h *history) []string {
	a.release()
	wrong := append(a.wrong, a.w.registry.take()...)
	done := slices.ContainsFunc(h.operations, func(op operation) bool { return op.ofMany() && op.outcome == accepted })
	for _, other := range a.many {
		o, _ := a.w.read(0, func(at int) reply { return a.w.get(ctx, at, "/api/me", other.held) })
		if done && o == accepted {
			wrong = append(wrong, "no order of these requests explains that somebody else to whom that was done "+
				"lives on")
		}
	}
	return wrong
}

func (a *account) seen(ctx context.Context) string { return a.w.seen(ctx, a.p.handle) }

// nobody is an account that is not there.
const nobody = "nobody"

// seen is an account as an administrator sees it, without what a read or a sign-in changes; empty: unknown.
func (w *world) seen(ctx context.Context, handle string) string {
	r := w.manage(ctx, w.any(), "GET", "/api/admin/users/"+handle, nil)
	if r.Status == http.StatusNotFound {
		return nobody
	}
	var u struct {
		Email     string          `json:"email"`
		Verified  bool            `json:"email_verified"`
		Name      string          `json:"display_name"`
		Flags     map[string]bool `json:"flags"`
		Suspended bool            `json:"suspended"`
		Sessions  []struct {
			ID   string `json:"id"`
			Auth string `json:"auth_time"`
		} `json:"sessions"`
		Apps []struct {
			ID     string   `json:"client_id"`
			Scopes []string `json:"scopes"`
		} `json:"apps"`
	}
	if r.Status != http.StatusOK || json.Unmarshal([]byte(r.Body), &u) != nil {
		return ""
	}
	return fmt.Sprintf("%+v", u)
}
