package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/descope/virtualwebauthn"
)

// beginConsent begins with an application that asks, and was allowed nothing.
func beginConsent(ctx context.Context, w *world, s *script) (object, error) {
	o, err := beginAccount("asking", false)(ctx, w, s)
	if err != nil {
		return nil, err
	}
	r := w.api(ctx, w.any(), "DELETE", "/api/me/apps/asking", o.(*account).p.held, nil) // of a history before
	if r.status != http.StatusNoContent && r.status != http.StatusNotFound {
		o.end(ctx, nil)
		return nil, failed("remove the application", r)
	}
	return o, nil
}

type consentState struct {
	granted            string // scopes, sorted; "-": none, "" is openid alone
	left               bool   // profile, which is optional, was left out
	made, spent, ended uint64
}

func consentModel(s *script) model {
	roots := rootsOf(s)
	within := func(scopes, granted string) bool {
		for _, scope := range strings.Fields(scopes) {
			if !slices.Contains(strings.Fields(granted), scope) {
				return false
			}
		}
		return granted != "-"
	}
	return model{begin: consentState{granted: "-"}, next: func(state any, s step, o outcome) (after []any) {
		st, yes := state.(consentState), o == accepted
		root := bit(s.ID)
		if s.On >= 0 {
			root = bit(roots[s.On])
		}
		short := without(s.With, optionalScope)
		switch s.Do {
		case "less": // without the optional scope, which then ends with all that has it
			kept, ended := st, st
			kept.granted, kept.left = without(union(st.granted, s.With), optionalScope), true
			ended.granted, ended.left, ended.ended = kept.granted, true, st.ended|st.made
			if !yes {
				return []any{st, kept, ended}
			}
			kept.made, ended.made = st.made|root, st.made|root
			if strings.Contains(st.granted, optionalScope) {
				return []any{ended}
			}
			return []any{ended, kept} // the scope may have been granted between, for a code that then came without it
		case "allow":
			alone, both := st, st
			alone.left = st.left && short == s.With
			both.left = alone.left
			if st.left && short != s.With { // it is not asked for again, unless the page was there before
				less := st
				if less.granted = union(st.granted, short); yes {
					less.made |= root
				}
				defer func() { after = append(after, less) }()
			}
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
				return only(within(s.With, st.granted) || st.left && within(short, st.granted), st)
			}
			return only(!within(s.With, st.granted), state)
		case "remove":
			had := st.granted != "-" || st.made&^st.ended != 0
			if !yes {
				return only(!had, st)
			}
			st.granted, st.left, st.ended = "-", false, st.ended|st.made
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

// optionalScope may be left out.
const optionalScope = "profile"

func without(scopes, scope string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(scopes), func(s string) bool { return s == scope }), " ")
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
		if do == "allow" && r.IntN(4) == 0 {
			do, with = "less", scopes[2]
		}
		c := code{b.add(lane, do, -1, with), with}
		if do == "less" {
			c.scopes = without(with, optionalScope)
		}
		codes = append(codes, c)
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
	b.each(tokens, "userinfo")
	return b.steps
}

// factor is an authenticator app or a passkey: each of its proofs is good once, and a session that it
// has opened ends when it is removed.
type factor struct {
	w      *world
	p      *person
	method string                   // in the amr of the sessions that it opens
	signIn func(s step) reply       // With: which proof
	code   func(with string) string // of an app
	remove string                   // the path to delete
	mu     sync.Mutex
	opened map[int]string
}

func beginFactor(ctx context.Context, w *world, s *script) (object, error) {
	p, err := w.newPerson(ctx, false)
	if err != nil {
		return nil, err
	}
	f := &factor{w: w, p: p, opened: map[int]string{}}
	if s.Kind == "passkey" {
		return f, f.addPasskey(ctx)
	}
	return f, f.addApp(ctx, s)
}

func (f *factor) addApp(ctx context.Context, s *script) error {
	w := f.w
	secret, _, err := w.addApp(ctx, f.p)
	f.method, f.remove = "otp", "/api/me/totp"
	asked := map[int]string{} // cookies of sign-ins that wait for the code: the password takes its time, and the codes would not meet
	for _, st := range s.Steps {
		if st.Do != "signin" || err != nil {
			continue
		}
		r := w.api(ctx, st.At, "POST", "/api/auth/login", "", map[string]string{"handle": f.p.handle, "password": password})
		if asked[st.ID] = r.others; r.str("code") != "second_factor_required" {
			err = failed("password", r)
		}
	}
	f.code = func(with string) string {
		at := w.now()
		if with == "next" {
			at = at.Add(30 * time.Second)
		}
		return totp(secret, at)
	}
	f.signIn = func(s step) reply {
		return w.send(ctx, s.At, "POST", "/api/auth/login", "", jsonType, `{"otp":"`+f.code(s.With)+`"}`, "Cookie", asked[s.ID])
	}
	return err
}

func (f *factor) addPasskey(ctx context.Context) error {
	w, device, key := f.w, virtualwebauthn.NewAuthenticator(), newPasskey()
	party := virtualwebauthn.RelyingParty{ID: "localhost", Origin: w.issuer}
	r := w.api(ctx, w.any(), "POST", "/api/me/passkeys/begin", f.p.held, nil)
	options, err := virtualwebauthn.ParseAttestationOptions(r.text("publicKey"))
	if err != nil {
		return failed("begin a passkey", r)
	}
	device.Options.UserHandle = []byte(options.UserID)
	made := virtualwebauthn.CreateAttestationResponse(party, device, key, *options)
	r = w.api(ctx, w.any(), "POST", "/api/me/passkeys", f.p.held, map[string]any{"state": r.str("state"), "name": "Key", "credential": json.RawMessage(made)})
	if r.cookie == "" {
		return failed("passkey", r)
	}
	f.p.held = r.cookie
	f.method, f.remove = "user", "/api/me/passkeys/"+r.given("id")
	bodies, cookies := map[string]string{}, map[string]string{}
	for _, with := range []string{"", "next"} {
		r = w.api(ctx, w.any(), "POST", "/api/auth/passkey/begin", "", map[string]string{"purpose": "sign-in"})
		options, err := virtualwebauthn.ParseAssertionOptions(r.text("publicKey"))
		if err != nil || r.others == "" {
			return failed("begin a sign-in", r)
		}
		answer := virtualwebauthn.CreateAssertionResponse(party, device, key, *options)
		body, _ := json.Marshal(map[string]any{"purpose": "sign-in", "state": r.str("state"), "credential": json.RawMessage(answer)})
		bodies[with], cookies[with] = string(body), r.others
	}
	f.signIn = func(s step) reply {
		return w.send(ctx, s.At, "POST", "/api/auth/passkey/finish", "", jsonType, bodies[s.With], "Cookie", cookies[s.With])
	}
	return nil
}

// newPasskey returns a key whose coordinates have no leading zeros, which the library leaves out.
func newPasskey() virtualwebauthn.Credential {
	for {
		key := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		private, _ := x509.ParsePKCS8PrivateKey(key.Key.Data)
		if point, err := private.(*ecdsa.PrivateKey).PublicKey.Bytes(); err == nil && point[1] != 0 && point[33] != 0 {
			return key
		}
	}
}

func (f *factor) held() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.p.held
}

func (f *factor) do(ctx context.Context, s step) (outcome, string) {
	switch s.Do {
	case "signin":
		r := f.signIn(s)
		o, note := r.result()
		if o == accepted {
			f.mu.Lock()
			f.opened[s.ID] = r.cookie
			f.mu.Unlock()
			if !slices.Contains(claimsOf(r.cookie).AMR, f.method) { // the app was not asked for any longer
				return accepted, note + " by the password alone"
			}
		}
		return o, note
	case "again": // a confirmation of who is signed in
		if f.code == nil {
			return skipped, ""
		}
		r := f.w.api(ctx, s.At, "POST", "/api/auth/confirm", f.held(), map[string]string{"password": password, "otp": f.code(s.With)})
		if r.cookie != "" {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.p.held = r.cookie
		}
		return r.result()
	case "remove":
		return f.w.api(ctx, s.At, "DELETE", f.remove, f.held(), nil).result()
	case "resetfactors":
		return f.w.manage(ctx, s.At, "POST", "/api/admin/users/"+f.p.handle+"/reset-factors", nil).result()
	case "suspend":
		return f.w.manage(ctx, s.At, "POST", "/api/admin/users/"+f.p.handle+"/suspend", map[string]string{}).result()
	case "me":
		f.mu.Lock()
		token := f.opened[s.On]
		f.mu.Unlock()
		if token == "" || !slices.Contains(claimsOf(token).AMR, f.method) {
			return skipped, ""
		}
		return f.w.read(s.At, func(at int) reply { return f.w.api(ctx, at, "GET", "/api/me", token, nil) })
	}
	panic("no step " + s.Do)
}

func (f *factor) end(ctx context.Context, h *history) []string {
	return append(f.w.registry.take(), f.w.owes(ctx, h, f.p)...)
}

type factorState struct {
	used    string // "", "now", "next": the latest code of an app that was used
	spent   uint64 // proofs of a passkey
	removed bool
	live    uint64
	// suspended: the account. renewed: the session has another token than who asks may know.
	suspended, renewed bool
}

// factorModel: a time step is accepted once, and none before it (RFC 6238 section 5.2); the answer to a
// challenge once (Web Authentication section 13.4.3).
func factorModel(script *script) model {
	return model{begin: factorState{}, next: func(state any, s step, o outcome) []any {
		st, yes := state.(factorState), o == accepted
		switch s.Do {
		case "suspend", "resetfactors": // an administrator's
			st.suspended, st.removed, st.live = st.suspended || s.Do == "suspend", st.removed || s.Do == "resetfactors", 0
			return only(yes, st)
		case "signin", "again":
			if st.suspended {
				return only(!yes, st)
			}
			if s.Do == "again" && !yes && st.renewed {
				return only(true, st)
			}
			st.renewed = st.renewed || s.Do == "again" && yes
			if script.Kind == "passkey" {
				proof := bit(len(s.With))
				good := !st.removed && st.spent&proof == 0
				if yes {
					st.spent, st.live = st.spent|proof, st.live|bit(s.ID)
				}
				return only(good == yes, st)
			}
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
			if s.Do == "signin" {
				st.live |= bit(s.ID)
			}
			return only(fresh, st)
		case "remove":
			if !yes { // the session may be over
				return only(st.removed || st.suspended || st.renewed, st)
			}
			was := st.removed || st.suspended
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
	if r.IntN(3) == 0 {
		b.add(5, "again", -1, b.pick("", "next"))
	}
	if r.IntN(3) > 0 {
		b.add(lanes, b.pick("remove", "remove", "suspend", "resetfactors"), -1, "")
	}
	b.phase++
	for i, id := range opened {
		b.add(i, "me", id, "")
	}
	return b.steps
}

// admins are administrators who want to be rid of one another.
type admins struct {
	w     *world
	who   []*person
	guest string
}

func beginAdmins(ctx context.Context, w *world, s *script) (object, error) {
	keeper, err := w.admin.session(ctx, w)
	if err != nil {
		return nil, err
	}
	a := &admins{w: w, who: []*person{{handle: "keeper", held: keeper}}}
	if err := a.gather(ctx, s); err != nil {
		a.end(ctx, nil)
		return nil, err
	}
	return a, nil
}

func (a *admins) gather(ctx context.Context, s *script) error {
	w := a.w
	for range 2 {
		p, err := w.newPerson(ctx, false)
		if err != nil {
			return err
		}
		a.who = append(a.who, p)
		if r := w.manage(ctx, w.any(), "PUT", "/api/admin/users/"+p.handle+"/flags", map[string]bool{"admin": true}); r.status != http.StatusOK {
			return failed("flag", r)
		}
	}
	// Somebody who cannot sign in yet does not count.
	if a.guest = fmt.Sprint("guest", w.names.Add(1)); s.Seed%2 == 0 {
		r := w.manage(ctx, w.any(), "POST", "/api/admin/users", map[string]any{"handle": a.guest, "flags": map[string]bool{"admin": true}})
		if r.status != http.StatusCreated {
			return failed("guest", r)
		}
	}
	return nil
}

func (a *admins) do(ctx context.Context, s step) (outcome, string) {
	by, other := a.who[s.On], "/api/admin/users/"+a.who[int(s.With[0]-'0')].handle
	switch s.Do {
	case "flags":
		return a.w.api(ctx, s.At, "PUT", other+"/flags", by.held, map[string]bool{"admin": false}).result()
	case "suspend":
		return a.w.api(ctx, s.At, "POST", other+"/suspend", by.held, map[string]string{}).result()
	case "delete":
		return a.w.api(ctx, s.At, "DELETE", other, by.held, nil).result()
	case "flag ends":
		return a.w.api(ctx, s.At, "PUT", other+"/flags", by.held, map[string]string{"admin": a.w.now().AddDate(0, 0, 9).Format(time.DateOnly)}).result()
	case "ends":
		return a.w.api(ctx, s.At, "PUT", other+"/end", by.held, map[string]string{"ends": a.w.now().AddDate(0, 0, 9).Format(time.DateOnly)}).result()
	}
	panic("no step " + s.Do)
}

// end makes the keeper an administrator again by the command line.
func (a *admins) end(ctx context.Context, _ *history) (wrong []string) {
	for _, args := range [][]string{{"user", "unsuspend", "keeper"}, {"user", "update", "keeper", "--no-end"}, {"user", "flags", "keeper", "+admin@never"}} {
		if _, err := a.w.cairn(ctx, args...); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	a.w.admin.forget()
	for _, p := range append(a.who[1:], &person{handle: a.guest}) {
		r := a.w.retry(ctx, func(at int) reply {
			return a.w.manage(ctx, at, "PUT", "/api/admin/users/"+p.handle+"/flags", map[string]bool{"admin": false})
		})
		if r.status != http.StatusOK && r.status != http.StatusNotFound {
			wrong = append(wrong, failed("flag", r).Error())
		}
	}
	return wrong
}

type adminsState struct{ can, stay, gone uint64 } // can act; have no end; are deleted

// adminsModel: there is always an administrator without an end.
func adminsModel(*script) model {
	return model{begin: adminsState{7, 7, 0}, next: func(state any, s step, o outcome) []any {
		st := state.(adminsState)
		other, rest := bit(int(s.With[0]-'0')), st
		if rest.stay &^= other; !strings.HasSuffix(s.Do, "ends") {
			rest.can &^= other
		}
		if s.Do == "delete" {
			rest.gone |= other
		}
		kept := rest.stay != 0 || rest.stay == st.stay
		if o == accepted { // the one who asked may have lost the flag meanwhile
			return only(kept, rest)
		}
		return only(st.can&bit(s.On) == 0 || st.gone&other != 0 || !kept, st)
	}}
}

func generateAdmins(r *rand.Rand) []step {
	b := &builder{r: r}
	for lane := range 3 {
		for range 2 {
			other := (lane + 1 + r.IntN(2)) % 3
			do := b.pick("flags", "suspend", "ends", "flag ends", "delete")
			if other == 0 && do == "delete" { // the keeper is needed again
				do = "flags"
			}
			b.add(lane, do, lane, fmt.Sprint(other))
		}
	}
	return b.steps
}
