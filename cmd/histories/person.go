package main

import (
	"context"
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
)

// person is somebody with an account and a session.
type person struct {
	handle, email string
	held          string // cookie of the session
	since         time.Time
	epoch         int64
}

// newPerson registers somebody by an invite; with an address they get mails.
func (w *world) newPerson(ctx context.Context, mails bool) (*person, error) {
	p := &person{handle: fmt.Sprintf("p%d", w.names.Add(1)), since: time.Now(), epoch: w.epoch.Load()}
	invite := w.manage(ctx, w.any(), "POST", "/api/invites", map[string]string{}).given("code")
	r := w.api(ctx, w.any(), "POST", "/api/register", "", map[string]string{"code": invite, "handle": p.handle, "password": password})
	if r.cookie == "" {
		return nil, failed("register", r)
	}
	p.held = r.cookie
	w.registry.note(r.cookie, r.cookie)
	if mails {
		p.email = p.handle + "@example.org"
		if r := w.manage(ctx, w.any(), "PATCH", "/api/admin/users/"+p.handle, map[string]any{"email": p.email, "email_verified": true}); r.status != http.StatusOK {
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
	if time.Since(p.since) < 5*time.Minute && p.epoch == w.epoch.Load() {
		return p, nil
	}
	r := w.api(ctx, w.any(), "POST", "/api/auth/login", "", map[string]string{"handle": p.handle, "password": password})
	if r.cookie == "" {
		w.idle <- p
		return nil, failed("sign-in", r)
	}
	w.registry.note(r.cookie, r.cookie)
	p.held, p.since, p.epoch = r.cookie, time.Now(), w.epoch.Load()
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
		a := &account{w: w, p: p, release: release, own: own, s: s, roots: rootsOf(s), app: app, api: forAPI(s), made: map[int]made{-1: {session: p.held}}}
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
		case "confirm", "password", "addapp", "exchange", "rotate":
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
	switch s.Do {
	case "pause": // until an end is in the status list, as long as an application may use its copy, and a fetch
		time.Sleep(statusTTL + 2500*time.Millisecond)
		return accepted, "a pause"
	case "link":
		if a.p.email == "" {
			return skipped, ""
		}
		text, err := a.w.mail.wait(ctx, a.p.email, 3*time.Second, notMe.MatchString)
		if err != nil {
			return skipped, ""
		}
		link, _ := url.QueryUnescape(notMe.FindStringSubmatch(text)[1])
		a.keep(s.ID, made{code: link})
		return accepted, "a mail"
	case "local":
		var err error
		if on.access != "" && !a.api {
			return skipped, ""
		}
		if on.access != "" {
			_, err = a.w.trails.Verify(ctx, on.access)
		} else {
			_, err = a.w.verifier.Verify(ctx, on.session)
		}
		switch {
		case errors.Is(err, session.ErrRevoked):
			return refused, "revoked"
		case err != nil, a.s.Fault != "" && a.s.Fault != "skew":
			// Its list or keys are out of reach, or were: it goes on with its copy until the issuer
			// answers again, at most until exp.
			return skipped, ""
		}
		return accepted, "by an application"
	}
	if (s.Do == "rotate" || s.Do == "revoke") && on.refresh == "" || s.Do == "exchange" && on.code == "" || s.Do == "userinfo" && on.access == "" {
		return skipped, ""
	}
	if (s.Do == "end" || s.Do == "endone") && a.sid(s.With) == "" || s.Do == "email" && a.p.email != "" || s.Do == "ends" && a.s.Fault == "skew" {
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
		if got.code = r.location().Query().Get("code"); got.code == "" {
			o, note = refused, note+" "+r.location().Path+" "+r.location().Query().Get("error")
		}
	}
	if o == accepted && len(a.many) > 0 && s.ofMany() && !strings.Contains(r.body, a.p.handle) {
		o = unknown // the person was deleted, before or after
	}
	if s.Do == "ends" && o == refused && r.status != http.StatusNotFound {
		return skipped, "" // asked for too late
	}
	if o == accepted {
		switch s.Do {
		case "ends":
			time.Sleep(endsAfter)
		case "signin", "confirm", "password", "addapp":
			if got.session = r.cookie; got.session != "" {
				a.w.registry.note(got.session, got.session)
			}
		case "exchange", "rotate":
			got.access, got.refresh = r.given("access_token"), r.given("refresh_token")
			a.w.registry.note(got.access, fmt.Sprint("a grant of ", a.p.handle, a.roots[s.ID]))
			for scope := range strings.FieldsSeq(r.given("scope")) {
				if a.app == "asking" && !slices.Contains(strings.Fields("openid "+s.With), scope) {
					got.wrong = append(got.wrong, fmt.Sprintf("step %d got the scope %s, which was not asked for", s.ID, scope))
				}
			}
		case "resetcode":
			got.code = r.given("code")
		case "notme":
			got.code = hiddenOf(r.body).Get("code")
		}
		a.keep(s.ID, got)
	}
	return o, note
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
	return claimsOf(a.made[n].session).Sid
}

// read is the answer to a question that changes nothing.
func (a *account) read(s step, on made, ask func(at int) reply) (outcome, string) {
	var r reply
	o, note := a.w.read(s.At, ask, &r)
	switch {
	case s.Do == "introspect" && o == accepted && r.json["active"] != true:
		o, note = refused, note+" not active"
	case s.Do == "bit" && o == accepted:
		set, err := bitOf(r.body, claimsOf(on.session).Status.List.Index)
		if err != nil {
			return skipped, ""
		}
		if set {
			o, note = refused, note+" revoked"
		}
	}
	return o, note
}

func (a *account) request(ctx context.Context, at int, s step, on made, got *made) reply {
	w, c := a.w, a.w.clients[a.app]
	admin := "/api/admin/users/" + a.p.handle
	if s.Do == "suspend" && a.s.Seed%6 == 0 {
		if _, err := w.cairn(ctx, "user", "suspend", a.p.handle); err != nil {
			return reply{err: err}
		}
		return reply{status: http.StatusOK}
	}
	if len(a.many) > 0 && s.ofMany() {
		form := url.Values{"who": {a.p.handle}, "do": {map[string]string{"suspend": "suspend", "flag": "flags"}[s.Do]}, "flag.activity": {"off"}, "sure": {"yes"}}
		for _, other := range a.many {
			form.Add("who", other.handle)
		}
		token, err := w.admin.session(ctx, w)
		if err != nil {
			return reply{err: err}
		}
		return w.send(ctx, at, "POST", "/admin/users/selected", token, formType, form.Encode())
	}
	switch s.Do {
	case "signin":
		return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": a.p.handle, "password": passwordOf(s.With)})
	case "me":
		return w.api(ctx, at, "GET", "/api/me", on.session, nil)
	case "confirm":
		return w.api(ctx, at, "POST", "/api/auth/confirm", on.session, map[string]string{"password": passwordOf(s.With)})
	case "logout":
		return w.api(ctx, at, "POST", "/api/auth/logout", on.session, nil)
	case "end": // With: whose session
		return w.api(ctx, at, "DELETE", "/api/me/sessions/"+a.sid(s.With), on.session, nil)
	case "endone":
		return w.manage(ctx, at, "DELETE", admin+"/sessions/"+a.sid(s.With), nil)
	case "email":
		return w.api(ctx, at, "PATCH", "/api/me", on.session, map[string]any{"email": fmt.Sprint(a.p.handle, "-", s.ID, "@example.org")})
	case "resetfactors":
		return w.manage(ctx, at, "POST", admin+"/reset-factors", nil)
	case "ends":
		return w.manage(ctx, at, "PUT", admin+"/end", map[string]string{"ends": w.now().Add(endsAfter).UTC().Format(time.RFC3339)})
	case "addapp":
		r := w.api(ctx, at, "POST", "/api/me/totp", on.session, nil)
		if r.given("secret") == "" {
			return r
		}
		return w.api(ctx, at, "POST", "/api/me/totp/confirm", on.session, map[string]string{"token": r.str("token"), "code": totp(r.str("secret"), w.now())})
	case "endothers":
		return w.api(ctx, at, "POST", "/api/me/sessions/end-others", on.session, nil)
	case "password":
		return w.api(ctx, at, "PUT", "/api/me/password", on.session, map[string]string{"current_password": passwordOf(s.With), "new_password": passwordOf(strconv.Itoa(s.ID))})
	case "resetcode":
		return w.manage(ctx, at, "POST", admin+"/reset-password-code", nil)
	case "reset":
		return w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": a.p.handle, "code": on.code, "password": passwordOf(strconv.Itoa(s.ID))})
	case "notme":
		return w.send(ctx, at, "POST", "/not-me/", "", formType, url.Values{"link": {on.code}}.Encode())
	case "suspend":
		return w.manage(ctx, at, "POST", admin+"/suspend", map[string]string{})
	case "unsuspend":
		return w.manage(ctx, at, "POST", admin+"/unsuspend", nil)
	case "leave":
		return w.api(ctx, at, "DELETE", "/api/me", on.session, map[string]string{"password": passwordOf(s.With)})
	case "delete":
		return w.manage(ctx, at, "DELETE", admin, nil)
	case "endall":
		return w.manage(ctx, at, "POST", admin+"/sessions/end-all", nil)
	case "flag": // it may only be lost
		return w.manage(ctx, at, "PUT", admin+"/flags", map[string]bool{"activity": false})
	case "bit":
		u, err := url.Parse(claimsOf(on.session).Status.List.URI)
		if err != nil || u.Path == "" {
			return reply{}
		}
		return w.send(ctx, at, "GET", u.Path, "", "", "")
	case "removeapp", "remove": // the model of consent knows no session
		return w.api(ctx, at, "DELETE", "/api/me/apps/"+a.app, on.session, nil)
	case "allow":
		return w.decide(ctx, at, on.session, w.send(ctx, at, "GET", authorizePath(a.app, "openid "+s.With), on.session, "", ""), "allow")
	case "less":
		return w.decide(ctx, at, on.session, w.send(ctx, at, "GET", authorizePath(a.app, "openid "+s.With, "prompt", "consent"), on.session, "", ""), "less")
	case "ask":
		return w.send(ctx, at, "GET", authorizePath(a.app, "openid "+s.With, "prompt", "none"), on.session, "", "")
	case "authorize":
		scope := "openid profile"
		if s.With == "offline" {
			scope += " offline_access"
		}
		if a.api {
			scope += " trails.read"
		}
		return w.send(ctx, at, "GET", authorizePath(a.app, scope), on.session, "", "")
	case "exchange":
		form := url.Values{"grant_type": {"authorization_code"}, "code": {on.code}, "redirect_uri": {callback}, "code_verifier": {verifier}}
		switch s.With {
		case "verifier":
			form.Set("code_verifier", "x"+verifier)
		case "redirect":
			form.Set("redirect_uri", callback+"/x")
		case "client":
			c = w.clients["other"]
		}
		return w.oauth(ctx, at, "/oauth2/token", c, form)
	case "rotate":
		if s.With == "client" {
			c = w.clients["other"]
		}
		return w.oauth(ctx, at, "/oauth2/token", c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {on.refresh}})
	case "revoke":
		return w.oauth(ctx, at, "/oauth2/revoke", c, url.Values{"token": {on.refresh}})
	case "userinfo":
		return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+on.access)
	case "introspect":
		return w.oauth(ctx, at, "/oauth2/introspect", c, url.Values{"token": {on.access}})
	}
	panic("no step " + s.Do)
}

func (a *account) end(ctx context.Context, h *history) []string {
	a.release()
	wrong := append(a.wrong, a.w.registry.take()...)
	if a.own {
		wrong = append(wrong, a.w.owes(ctx, h, a.p)...)
	}
	for _, other := range a.many {
		wrong = append(wrong, a.w.owesToo(ctx, h, other)...)
	}
	return wrong
}
