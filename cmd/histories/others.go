package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// consent is what a person allows an application that asks.
type consent struct {
	w     *world
	p     *person
	mu    sync.Mutex
	codes map[int]made
	wrong []string
}

func beginConsent(ctx context.Context, w *world, _ *script) (object, error) {
	p, err := w.lease(ctx)
	if err != nil {
		return nil, err
	}
	c := &consent{w: w, p: p, codes: map[int]made{}}
	r := w.api(ctx, w.any(), "DELETE", "/api/me/apps/asking", p.held, nil) // of a history before
	if r.status != http.StatusNoContent && r.status != http.StatusNotFound {
		w.idle <- p
		return nil, failed("remove the application", r)
	}
	return c, nil
}

func (c *consent) do(ctx context.Context, s step) (outcome, string) {
	w, client := c.w, c.w.clients["asking"]
	c.mu.Lock()
	on, has := c.codes[s.On]
	c.mu.Unlock()
	if s.On >= 0 && (!has || s.Do == "exchange" && on.code == "" || s.Do == "userinfo" && on.access == "") {
		return skipped, ""
	}
	var r reply
	got := made{}
	switch s.Do {
	case "allow", "ask":
		var more []string
		if s.Do == "ask" {
			more = []string{"prompt", "none"}
		}
		r = w.send(ctx, s.At, "GET", authorizePath("asking", "openid "+s.With, more...), c.p.held, "", "")
		if s.Do == "allow" {
			r = w.decide(ctx, s.At, c.p.held, r, "allow")
		}
		o, note := r.result()
		got.code = r.location().Query().Get("code")
		if o == accepted && got.code == "" {
			return refused, note + " " + r.location().Query().Get("error")
		}
		c.keep(s.ID, got)
		return o, note
	case "remove":
		return w.api(ctx, s.At, "DELETE", "/api/me/apps/asking", c.p.held, nil).result()
	case "exchange":
		r = w.oauth(ctx, s.At, "/oauth2/token", client, url.Values{"grant_type": {"authorization_code"}, "code": {on.code}, "redirect_uri": {callback}, "code_verifier": {verifier}})
		got.access = r.given("access_token")
		for _, scope := range strings.Fields(r.given("scope")) {
			if scope != "openid" && !slices.Contains(strings.Fields(s.With), scope) {
				c.mu.Lock()
				c.wrong = append(c.wrong, fmt.Sprintf("step %d got the scope %s, which was not asked for", s.ID, scope))
				c.mu.Unlock()
			}
		}
		o, note := r.result()
		if o == accepted {
			c.keep(s.ID, got)
		}
		return o, note
	case "userinfo":
		return w.read(s.At, func(at int) reply {
			return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+on.access)
		})
	}
	panic("no step " + s.Do)
}

func (c *consent) keep(id int, m made) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.codes[id] = m
}

func (c *consent) end(context.Context, *history) []string {
	c.w.idle <- c.p
	return c.wrong
}

type consentState struct {
	granted            string // scopes, sorted; "-": none, "" is openid alone
	made, spent, ended uint64
}

func consentModel(s *script) model {
	roots := map[int]int{}
	for _, st := range s.Steps {
		if roots[st.ID] = st.ID; st.On >= 0 {
			roots[st.ID] = roots[st.On]
		}
	}
	within := func(scopes, granted string) bool {
		for _, scope := range strings.Fields(scopes) {
			if !slices.Contains(strings.Fields(granted), scope) {
				return false
			}
		}
		return granted != "-"
	}
	return model{begin: consentState{granted: "-"}, next: func(state any, s step, o outcome) []any {
		st, yes := state.(consentState), o == accepted
		root := bit(roots[s.ID])
		switch s.Do {
		case "allow":
			alone, both := st, st
			alone.granted = s.With
			both.granted = union(st.granted, s.With)
			if !yes { // asked again: removed before they answered, or after that and before the code
				return []any{st, both, alone}
			}
			alone.made, both.made = st.made|root, st.made|root
			if within(s.With, st.granted) {
				return []any{both}
			}
			return []any{both, alone} // the former may have been removed while the person decided
		case "ask":
			st.made |= root
			if yes {
				return only(within(s.With, st.granted), st)
			}
			return only(!within(s.With, st.granted), state)
		case "remove":
			had := st.granted != "-" || st.made&^st.ended != 0
			if !yes {
				return only(!had, st)
			}
			st.granted, st.ended = "-", st.ended|st.made
			return only(had, st)
		case "exchange":
			good := st.ended&root == 0 && st.spent&root == 0
			if yes {
				st.spent |= root
				return only(good, st)
			}
			after := st
			after.ended |= root
			return only(!good, after)
		case "userinfo":
			return only((st.ended&root == 0) == yes, st)
		}
		panic("no step " + s.Do)
	}}
}

func union(a, b string) string {
	all := slices.Concat(strings.Fields(strings.TrimPrefix(a, "-")), strings.Fields(b))
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

func generateConsent(r *rand.Rand) []step {
	b := &builder{r: r}
	scopes := []string{"email", "profile", "email profile"}
	type code struct {
		id     int
		scopes string
	}
	var codes []code
	add := func(lane int, do string) {
		with := one(r, scopes)
		codes = append(codes, code{b.add(lane, do, -1, with), with})
	}
	add(0, "allow")
	b.phase++
	var tokens []int
	for lane := range 2 + r.IntN(2) {
		for range 1 + r.IntN(2) {
			switch n := r.IntN(8); {
			case n < 2:
				add(lane, "allow")
			case n < 4:
				add(lane, "ask")
			case n < 6:
				b.add(lane, "remove", -1, "")
			default:
				c := one(r, codes[:1])
				tokens = append(tokens, b.add(lane, "exchange", c.id, c.scopes))
			}
		}
	}
	b.phase++
	add(0, "ask")
	for i, c := range codes[:len(codes)-1] {
		if r.IntN(2) == 0 {
			tokens = append(tokens, b.add(1+i%3, "exchange", c.id, c.scopes))
		}
	}
	b.phase++
	for i, t := range tokens {
		b.add(i%4, "userinfo", t, "")
	}
	return b.steps
}

// factor is an authenticator app: each of its codes is good once, and a session that it has opened
// ends when it is removed.
type factor struct {
	w      *world
	p      *person
	secret string
	mu     sync.Mutex
	opened map[int]string
	asked  map[int]string // cookies of sign-ins that wait for the code
}

func beginFactor(ctx context.Context, w *world, s *script) (object, error) {
	p, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	f := &factor{w: w, p: p, opened: map[int]string{}, asked: map[int]string{}}
	if f.secret, _, err = w.addApp(ctx, p); err != nil {
		return nil, err
	}
	for _, st := range s.Steps {
		if st.Do != "signin" {
			continue
		}
		// The password takes its time: the codes would not meet.
		r := w.api(ctx, st.At, "POST", "/api/auth/login", "", map[string]string{"handle": p.handle, "password": password})
		if r.str("code") != "second_factor_required" {
			return nil, failed("password", r)
		}
		for _, line := range r.header.Values("Set-Cookie") {
			name, _, _ := strings.Cut(line, ";")
			f.asked[st.ID] += name + "; "
		}
	}
	return f, nil
}

func (f *factor) do(ctx context.Context, s step) (outcome, string) {
	w := f.w
	switch s.Do {
	case "signin": // With: how many steps of 30 seconds ahead
		at := w.now()
		if s.With == "next" {
			at = at.Add(30 * time.Second)
		}
		r := w.send(ctx, s.At, "POST", "/api/auth/login", "", jsonType, `{"otp":"`+totp(f.secret, at)+`"}`, "Cookie", strings.TrimSuffix(f.asked[s.ID], "; "))
		o, note := r.result()
		if o == accepted {
			f.mu.Lock()
			f.opened[s.ID] = r.cookie
			f.mu.Unlock()
			if !slices.Contains(methodsOf(r.cookie), "otp") { // the app was not asked for any longer
				return accepted, note + " by the password alone"
			}
		}
		return o, note
	case "remove":
		return w.api(ctx, s.At, "DELETE", "/api/me/totp", f.p.held, nil).result()
	case "me":
		f.mu.Lock()
		token := f.opened[s.On]
		f.mu.Unlock()
		if token == "" || !slices.Contains(methodsOf(token), "otp") {
			return skipped, ""
		}
		return w.read(s.At, func(at int) reply { return w.api(ctx, at, "GET", "/api/me", token, nil) })
	}
	panic("no step " + s.Do)
}

// methodsOf are those by which the session of a token was opened.
func methodsOf(token string) []string {
	var c struct {
		AMR []string `json:"amr"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		b, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(b, &c)
	}
	return c.AMR
}

func (f *factor) end(context.Context, *history) []string { return f.w.registry.take() }

type factorState struct {
	used    string // "", "now", "next": the latest code that was used
	removed bool
	live    uint64
}

// factorModel: a time step is accepted once, and none before it (RFC 6238 section 5.2).
func factorModel(*script) model {
	return model{begin: factorState{}, next: func(state any, s step, o outcome) []any {
		st, yes := state.(factorState), o == accepted
		switch s.Do {
		case "signin":
			if st.removed { // by the password alone, or the code is in vain
				return []any{st}
			}
			fresh := st.used == "" || st.used == "now" && s.With == "next"
			if !yes {
				// The code is used up by a sign-in that fails afterwards too.
				if st.used == "" {
					return nil
				}
				return only(!fresh || s.With == "next", st)
			}
			if st.used = "now"; s.With == "next" {
				st.used = "next"
			}
			st.live |= bit(s.ID)
			return only(fresh, st)
		case "remove":
			if !yes {
				return only(st.removed, st)
			}
			was := st.removed
			st.removed, st.live = true, 0
			return only(!was, st)
		case "me":
			return only((st.live&bit(s.On) != 0) == yes, st)
		}
		panic("no step " + s.Do)
	}}
}

func generateFactor(r *rand.Rand) []step {
	b := &builder{r: r}
	var opened []int
	lanes := 2 + r.IntN(2)
	for lane := range lanes {
		opened = append(opened, b.add(lane, "signin", -1, b.pick("", "", "next")))
	}
	if r.IntN(3) > 0 {
		b.add(lanes, "remove", -1, "")
	}
	b.phase++
	for i, id := range opened {
		b.add(i, "me", id, "")
	}
	return b.steps
}

// admins are administrators who want to be rid of one another.
type admins struct {
	w   *world
	who []*person
}

func beginAdmins(ctx context.Context, w *world, _ *script) (object, error) {
	keeper, err := w.admin.session(ctx, w)
	if err != nil {
		return nil, err
	}
	a := &admins{w: w, who: []*person{{handle: "keeper", held: keeper}}}
	for range 2 {
		p, err := w.newPerson(ctx, false)
		if err != nil {
			return nil, err
		}
		if r := w.manage(ctx, w.any(), "PUT", "/api/admin/users/"+p.handle+"/flags", map[string]bool{"admin": true}); r.status != http.StatusOK {
			return nil, failed("flag", r)
		}
		a.who = append(a.who, p)
	}
	return a, nil
}

func (a *admins) do(ctx context.Context, s step) (outcome, string) {
	by, other := a.who[s.On], "/api/admin/users/"+a.who[int(s.With[0]-'0')].handle
	switch s.Do {
	case "flags":
		return a.w.api(ctx, s.At, "PUT", other+"/flags", by.held, map[string]bool{"admin": false}).result()
	case "suspend":
		return a.w.api(ctx, s.At, "POST", other+"/suspend", by.held, map[string]string{}).result()
	}
	panic("no step " + s.Do)
}

// end makes the keeper an administrator again by the command line.
func (a *admins) end(ctx context.Context, _ *history) (wrong []string) {
	alone, err := a.w.cairn(ctx, "user", "list", "-o", "json")
	var users []struct {
		Handle    string   `json:"handle"`
		Flags     []string `json:"flags"`
		Suspended bool     `json:"suspended"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(alone), &users)
	}
	left := 0
	for _, u := range users {
		if slices.Contains(u.Flags, "admin") && !u.Suspended {
			left++
		}
	}
	if err != nil {
		wrong = append(wrong, err.Error())
	} else if left == 0 {
		wrong = append(wrong, "there is no administrator left")
	}
	for _, args := range [][]string{{"user", "unsuspend", "keeper"}, {"user", "flags", "keeper", "+admin"}} {
		if _, err := a.w.cairn(ctx, args...); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	a.w.admin.forget()
	for _, p := range a.who[1:] {
		_ = a.w.manage(ctx, 0, "PUT", "/api/admin/users/"+p.handle+"/flags", map[string]bool{"admin": false})
	}
	return wrong
}

// adminsModel: there is always an administrator.
func adminsModel(*script) model {
	return model{begin: uint64(7), next: func(state any, s step, o outcome) []any {
		st := state.(uint64)
		rest := st &^ bit(int(s.With[0]-'0'))
		if o == accepted { // the one who asked may have lost the flag meanwhile
			return only(rest != 0, rest)
		}
		return only(st&bit(s.On) == 0 || rest == 0, st)
	}}
}

func generateAdmins(r *rand.Rand) []step {
	b := &builder{r: r}
	for lane := range 3 {
		for range 2 {
			b.add(lane, b.pick("flags", "suspend"), lane, fmt.Sprint((lane+1+r.IntN(2))%3))
		}
	}
	return b.steps
}
