package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
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
	w.registry.note(r.cookie)
	if mails {
		p.email = p.handle + "@example.org"
		if r := w.manage(ctx, w.any(), "PATCH", "/api/admin/users/"+p.handle, map[string]any{"email": p.email, "email_verified": true}); r.status != http.StatusOK {
			return nil, failed("address", r)
		}
	}
	return p, nil
}

func (w *world) any() int { return rand.IntN(len(w.each)) }

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
	w.registry.note(r.cookie)
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
	discard bool // the person is of no use to other histories
	mails   bool
}

// made is what a step has made.
type made struct{ session, code, access, refresh string }

func beginAccount(app string, discard bool) func(context.Context, *world, *script) (object, error) {
	return func(ctx context.Context, w *world, s *script) (object, error) {
		var p *person
		var err error
		mails := discard && s.Seed%2 == 0
		if discard {
			p, err = w.newPerson(ctx, mails)
		} else {
			p, err = w.lease(ctx)
		}
		if err != nil {
			return nil, err
		}
		return &account{w: w, p: p, s: s, roots: rootsOf(s), app: app, discard: discard, mails: mails, made: map[int]made{-1: {session: p.held}}}, nil
	}
}

// rootsOf returns for each session token the step that made its session, and for each code or
// token of a client the step that made its grant.
func rootsOf(s *script) map[int]int {
	roots := map[int]int{-1: -1}
	for _, st := range s.Steps {
		switch st.Do {
		case "signin", "authorize":
			roots[st.ID] = st.ID
		case "confirm", "password", "exchange", "rotate":
			roots[st.ID] = st.ID
			if root, has := roots[st.On]; has {
				roots[st.ID] = root
			}
		}
	}
	return roots
}

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
	case "pause": // as long as an application may use its copy of the status list, and a fetch
		time.Sleep(statusTTL + 1200*time.Millisecond)
		return accepted, "a pause"
	case "local":
		_, err := a.w.verifier.Verify(ctx, on.session)
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
	if (s.Do == "rotate" || s.Do == "revoke") && on.refresh == "" {
		return skipped, ""
	}
	if s.Do == "end" && a.sid(s.With) == "" {
		return skipped, ""
	}
	got := made{}
	ask := func(at int) reply { return a.request(ctx, at, s, on, &got) }
	if reads[s.Do] {
		r := reply{}
		for try := range 25 {
			if r = ask(s.At + try); r.status != 0 && r.status < 500 {
				return a.read(s, r, on)
			}
			time.Sleep(100 * time.Millisecond)
		}
		return skipped, ""
	}
	r := ask(s.At)
	o, note := r.result()
	if s.Do == "authorize" && o == accepted {
		if got.code = r.location().Query().Get("code"); got.code == "" {
			o, note = refused, note+" "+r.location().Path+" "+r.location().Query().Get("error")
		}
	}
	if o == accepted {
		switch s.Do {
		case "signin", "confirm", "password":
			if got.session = r.cookie; got.session != "" {
				a.w.registry.note(got.session)
			}
		case "exchange", "rotate":
			got.access, got.refresh = r.given("access_token"), r.given("refresh_token")
		case "resetcode":
			got.code = r.given("code")
		}
		a.mu.Lock()
		a.made[s.ID] = got
		a.mu.Unlock()
	}
	return o, note
}

// sid is that of the session that a step has made.
func (a *account) sid(id string) string {
	n, _ := strconv.Atoi(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	return claimsOf(a.made[n].session).Sid
}

// read is the answer to a question that changes nothing.
func (a *account) read(s step, r reply, on made) (outcome, string) {
	o, note := r.result()
	switch {
	case s.Do == "introspect" && r.json["active"] != true:
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
	case "endothers":
		return w.api(ctx, at, "POST", "/api/me/sessions/end-others", on.session, nil)
	case "password":
		return w.api(ctx, at, "PUT", "/api/me/password", on.session, map[string]string{"current_password": passwordOf(s.With), "new_password": passwordOf(strconv.Itoa(s.ID))})
	case "resetcode":
		return w.manage(ctx, at, "POST", admin+"/reset-password-code", nil)
	case "reset":
		return w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": a.p.handle, "code": on.code, "password": passwordOf(strconv.Itoa(s.ID))})
	case "suspend":
		return w.manage(ctx, at, "POST", admin+"/suspend", map[string]string{})
	case "unsuspend":
		return w.manage(ctx, at, "POST", admin+"/unsuspend", nil)
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
	case "removeapp":
		return w.api(ctx, at, "DELETE", "/api/me/apps/"+a.app, on.session, nil)
	case "authorize":
		scope := "openid profile"
		if s.With == "offline" {
			scope += " offline_access"
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
	if !a.discard {
		select {
		case a.w.idle <- a.p:
		default:
		}
		return a.w.registry.take()
	}
	wrong := a.w.registry.take()
	return append(wrong, a.w.owes(ctx, h, a.p)...)
}

// accountState is what the service must have of the account. Each bit is that of the step which
// made the thing.
type accountState struct {
	live                     uint64 // session tokens
	spent                    uint64 // codes and refresh tokens
	made, ended              uint64 // grants
	suspended, deleted, flag bool
	password, reset          int8 // the step that set it; of reset: -2 for none
}

// accountModel is that of a person's account. With a grace, a refresh token that was used once is
// good for a while.
func accountModel(grace bool) func(s *script) model {
	return func(s *script) model {
		roots, by := rootsOf(s), map[int]step{}
		for _, st := range s.Steps {
			by[st.ID] = st
		}
		a := accountRules{roots: roots, by: by, grace: grace}
		return model{begin: accountState{live: bit(-1), password: -1, reset: -2, flag: true}, next: a.next}
	}
}

type accountRules struct {
	roots map[int]int
	by    map[int]step
	grace bool
}

// alive reports whether some token of the session counts.
func (a accountRules) alive(st accountState, root int) bool {
	for token, of := range a.roots {
		if of == root && st.live&bit(token) != 0 {
			return true
		}
	}
	return false
}

// endSessions ends the sessions for which which holds, and of the grants that they made those that
// a sign-out ends, or all.
func (a accountRules) endSessions(st accountState, all bool, which func(root int) bool) accountState {
	for token, root := range a.roots {
		if which(root) {
			st.live &^= bit(token)
		}
	}
	for id, s := range a.by {
		// offline_access outlives the session (OpenID Connect Core section 11), but not as a code
		// that no client has spent.
		if s.Do == "authorize" && which(a.roots[s.On]) && (all || s.With != "offline" || st.spent&bit(id) == 0) {
			st.ended |= bit(id)
		}
	}
	return st
}

// endAccess ends everything.
func (a accountRules) endAccess(st accountState) accountState {
	st = a.endSessions(st, true, func(int) bool { return true })
	st.reset = -2
	return st
}

func (a accountRules) next(state any, s step, o outcome) []any {
	st := state.(accountState)
	yes, is := o == accepted, func(ok bool, after ...accountState) (out []any) {
		if ok {
			for _, st := range after {
				out = append(out, st)
			}
		}
		return out
	}
	live, root := st.live&bit(s.On) != 0 || s.proven, a.roots[s.On]
	grantOf := func() uint64 { return bit(root) }
	ended := func() accountState { st := st; st.ended |= grantOf(); return st }
	living := func() bool { return st.ended&grantOf() == 0 }
	right := strconv.Itoa(int(st.password)) == s.With || st.password == -1 && s.With == ""
	switch s.Do {
	case "signin":
		if after := st; yes {
			after.live |= bit(s.ID)
			return is(right && !st.suspended && !st.deleted, after)
		}
		return is(!right || st.suspended || st.deleted, st)
	case "me", "bit", "local":
		return is(live == yes, st)
	case "pause":
		return is(yes, st)
	case "confirm", "password":
		if !yes {
			return is(!live || !right, st)
		}
		// The transaction asks again for the session, but not for the token, which another request
		// of the same session may have replaced meanwhile.
		live = live && a.alive(st, root)
		after := st
		for token, of := range a.roots {
			if of == root {
				after.live &^= bit(token)
			}
		}
		if s.Do == "password" {
			after = a.endSessions(after, true, func(r int) bool { return r != root })
			for id, by := range a.by {
				if by.Do == "authorize" {
					after.ended |= bit(id)
				}
			}
			after.password, after.reset = int8(s.ID), -2
		}
		after.live |= bit(s.ID)
		return is(live && right, after)
	case "logout":
		if !yes {
			return nil
		}
		after := a.endSessions(st, false, func(r int) bool { return r == root })
		if live {
			return is(true, after)
		}
		return is(true, st, after) // a former cookie of the session
	case "end":
		n, _ := strconv.Atoi(s.With)
		victim, has := a.roots[n]
		alive := has && a.alive(st, victim)
		if !yes {
			return is(!live || !alive, st)
		}
		return is(live && alive, a.endSessions(st, false, func(r int) bool { return r == victim }))
	case "endothers":
		if !yes {
			return is(!live, st)
		}
		after := a.endSessions(st, true, func(r int) bool { return r != root })
		after.reset = -2
		return is(live, after)
	case "resetcode":
		after := st
		if after.reset = int8(s.ID); yes {
			return is(!st.deleted, after)
		}
		return is(st.deleted, st)
	case "reset":
		if !yes {
			return is(int(st.reset) != s.On || st.suspended || st.deleted, st)
		}
		after := a.endAccess(st)
		after.password = int8(s.ID)
		return is(int(st.reset) == s.On && !st.deleted, after)
	case "suspend", "delete":
		if !yes {
			return is(st.deleted, st)
		}
		if st.suspended && s.Do == "suspend" { // nothing more ends
			return is(!st.deleted, st)
		}
		after := a.endAccess(st)
		after.suspended, after.deleted = true, s.Do == "delete"
		return is(!st.deleted, after)
	case "endall":
		if !yes {
			return is(st.deleted, st)
		}
		return is(!st.deleted, a.endAccess(st))
	case "flag":
		if !yes {
			return is(st.deleted, st)
		}
		after := st
		if st.flag {
			after = a.endSessions(st, false, func(int) bool { return true })
		}
		after.flag = false
		return is(!st.deleted, after)
	case "unsuspend":
		after := st
		if after.suspended = false; yes {
			return is(!st.deleted, after)
		}
		return is(st.deleted, st)
	case "removeapp":
		if !yes {
			return is(!live || st.made&^st.ended == 0, st)
		}
		after := st
		after.ended |= st.made
		return is(live, after)
	case "authorize":
		after := st
		after.ended &^= bit(s.ID) // it was not there when the others ended
		if after.made |= bit(s.ID); yes {
			return is(live, after)
		}
		return is(!live, st)
	case "exchange":
		spent := st.spent&bit(s.On) != 0
		switch {
		case s.With != "" && spent: // whether it ends the grant is not said
			return is(!yes, st, ended())
		case s.With != "":
			return is(!yes, st)
		case yes:
			after := st
			after.spent |= bit(s.On)
			return is(living() && !spent, after)
		}
		return is(spent || !living(), ended())
	case "rotate":
		spent := st.spent&bit(s.On) != 0
		switch {
		case s.With == "client":
			if spent {
				return is(!yes, st, ended())
			}
			return is(!yes, st)
		case yes:
			after := st
			after.spent |= bit(s.On)
			return is(living() && (!spent || a.grace), after)
		}
		return is(spent && !a.grace || !living(), ended())
	case "revoke":
		if st.spent&bit(s.On) != 0 {
			return is(yes, st, ended())
		}
		return is(yes, ended())
	case "userinfo", "introspect":
		return is(living() == yes, st)
	}
	panic("no step " + s.Do)
}

func generateCode(r *rand.Rand) []step {
	b := &builder{r: r}
	code := b.add(0, "authorize", -1, b.pick("offline", "online"))
	b.phase++
	var tokens []int
	for lane := range 2 + r.IntN(3) {
		if r.IntN(3) == 0 {
			b.add(lane, "exchange", code, b.pick("verifier", "redirect", "client"))
		}
		t := b.add(lane, "exchange", code, "")
		tokens = append(tokens, t)
		if r.IntN(2) == 0 {
			b.add(lane, b.pick("userinfo", "introspect"), t, "")
		}
	}
	if r.IntN(4) == 0 {
		b.add(5, "removeapp", -1, "")
	}
	b.phase++
	for _, t := range tokens {
		b.add(t%4, b.pick("userinfo", "introspect", "rotate"), t, "")
	}
	if r.IntN(2) == 0 {
		b.phase++
		b.add(0, "exchange", code, b.pick("", "", "verifier"))
		b.phase++
		for _, t := range tokens {
			b.add(t%4, b.pick("userinfo", "introspect"), t, "")
		}
	}
	return b.steps
}

func generateRefresh(r *rand.Rand) []step {
	b := &builder{r: r}
	code := b.add(0, "authorize", -1, "offline")
	t := b.add(0, "exchange", code, "")
	tokens := []int{t}
	b.phase++
	for lane := range 2 + r.IntN(3) {
		at := one(r, tokens[:1])
		for range 1 + r.IntN(3) {
			switch n := r.IntN(12); {
			case n < 7:
				at = b.add(lane, "rotate", at, "")
				tokens = append(tokens, at)
			case n == 7:
				b.add(lane, "rotate", at, "client")
			case n == 8:
				b.add(lane, "revoke", at, "")
			case n == 9 && r.IntN(3) == 0:
				b.add(lane, "removeapp", -1, "")
			default:
				b.add(lane, b.pick("userinfo", "introspect"), at, "")
			}
		}
	}
	b.phase++
	for i, t := range tokens {
		b.add(i%4, b.pick("userinfo", "introspect"), t, "")
	}
	if r.IntN(2) == 0 {
		b.phase++
		b.add(0, "rotate", one(r, tokens), "")
		b.phase++
		for i, t := range tokens {
			b.add(i%4, b.pick("userinfo", "introspect"), t, "")
		}
	}
	return b.steps
}

func generateAccount(r *rand.Rand) []step {
	b := &builder{r: r}
	sessions := []int{-1}
	for lane := range 1 + r.IntN(2) {
		sessions = append(sessions, b.add(lane, "signin", -1, ""))
	}
	reset := -2
	if r.IntN(3) == 0 {
		reset = b.add(3, "resetcode", -1, "")
	}
	b.phase++
	var tokens, unspent []int
	for lane, s := range sessions {
		if r.IntN(4) > 0 {
			c := b.add(lane, "authorize", s, b.pick("offline", "online"))
			if r.IntN(4) > 0 {
				tokens = append(tokens, b.add(lane, "exchange", c, ""))
			} else {
				unspent = append(unspent, c)
			}
		}
	}
	b.phase++
	passwords := []string{"-1"}
	for lane := range 2 + r.IntN(3) {
		for range 1 + r.IntN(2) {
			s := one(r, sessions)
			switch n := r.IntN(22); {
			case n == 0:
				b.add(lane, "logout", s, "")
			case n == 1:
				b.add(lane, "end", s, strconv.Itoa(one(r, sessions)))
			case n < 4:
				b.add(lane, "endothers", s, "")
			case n < 6:
				p := b.add(lane, "password", s, "-1")
				passwords, sessions = append(passwords, strconv.Itoa(p)), append(sessions, p)
			case n < 8:
				b.add(lane, "suspend", -1, "")
				if r.IntN(2) == 0 {
					b.add(lane, "unsuspend", -1, "")
				}
			case n == 8:
				b.add(lane, b.pick("delete", "endall", "flag"), -1, "")
			case n == 9 && reset >= 0:
				passwords = append(passwords, strconv.Itoa(b.add(lane, "reset", reset, "")))
			case n < 13:
				sessions = append(sessions, b.add(lane, "confirm", s, "-1"))
			case n < 15:
				sessions = append(sessions, b.add(lane, "signin", -1, "-1"))
			case n < 18:
				c := b.add(lane, "authorize", s, b.pick("offline", "online"))
				tokens = append(tokens, b.add(lane, "exchange", c, ""))
			case n < 20 && len(tokens) > 0:
				tokens = append(tokens, b.add(lane, "rotate", one(r, tokens), ""))
			default:
				b.add(lane, b.pick("me", "bit"), s, "")
			}
		}
	}
	b.phase++
	for i, s := range sessions {
		b.add(i%4, b.pick("me", "me", "bit"), s, "")
	}
	for i, t := range tokens {
		b.add(i%4, b.pick("userinfo", "introspect"), t, "")
	}
	if r.IntN(2) == 0 {
		b.add(5, "signin", -1, one(r, passwords))
	}
	for i, c := range unspent {
		b.add(i%4, "exchange", c, "")
	}
	if r.IntN(5) == 0 {
		b.phase++
		b.add(0, "pause", -1, "")
		b.phase++
		for i, s := range sessions {
			b.add(i%4, "local", s, "")
		}
	}
	return b.steps
}
