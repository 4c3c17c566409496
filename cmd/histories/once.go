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
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
)

// once is something that is good once: a code of an invite, of a reset, ...
type once struct {
	w *world
	// use uses it; revoke makes it void, nil: nothing does.
	use     func(ctx context.Context, at int, s step) (outcome, string)
	revoke  func(ctx context.Context, at int) (outcome, string)
	release func()
	p       *person // nil: others use them too
	mu      sync.Mutex
	joined  map[string]outcome // handles of those who used an invite
	token   string             // of a device
}

func (o *once) do(ctx context.Context, s step) (outcome, string) {
	if s.Do == "use" {
		return o.use(ctx, s.At, s)
	}
	if o.revoke == nil {
		return skipped, ""
	}
	return o.revoke(ctx, s.At)
}

// seen is the person's account, if the history has one of its own.
func (o *once) seen(ctx context.Context) string {
	if o.p == nil {
		return ""
	}
	return o.w.seen(ctx, o.p.handle)
}

func (o *once) end(ctx context.Context, h *history) []string {
	o.release()
	wrong := o.w.registry.take()
	for handle, joined := range o.joined {
		there := o.w.seen(ctx, handle)
		if there != "" && joined != unknown && (there != nobody) != (joined == accepted) {
			wrong = append(wrong, fmt.Sprintf("the account @%s, whose registration was %s, is %s", handle, joined,
				there))
		}
	}
	count := map[outcome]int{}
	for _, op := range h.operations {
		if op.Do == "revoke" {
			count[op.outcome]++
		}
	}
	if o.token != "" && count[unknown] == 0 { // who asks once more for the tokens of a device ends nothing
		out, _ := o.w.read(0, func(at int) reply { return o.w.userinfo(ctx, at, o.token) })
		if out != skipped && (out == accepted) != (count[accepted] == 0) {
			wrong = append(wrong, "no order of these requests explains that the token of the device is "+out.String())
		}
	}
	return wrong
}

// endAccess is an act that ends what anybody has of a person's account, who has asked an administrator for it.
func (w *world) endAccess(ctx context.Context, at int, n uint64, p *person) (outcome, string) {
	user := "/api/admin/users/" + p.handle
	switch n % 3 {
	case 0:
		return w.manage(ctx, at, "POST", user+"/sessions/end-all", nil).result()
	case 1:
		out, note := w.manage(ctx, at, "POST", user+"/suspend", map[string]string{}).result()
		_ = w.manage(ctx, at, "POST", user+"/unsuspend", nil)
		return out, note
	}
	code := w.manage(ctx, at, "POST", user+"/reset-password-code", nil).Given("code")
	out, note := w.api(ctx, at, "POST", "/api/auth/reset-password", "",
		map[string]string{"handle": p.handle, "code": code, "password": password + " after"}).result()
	if out == refused { // the code may have been made twice
		out = unknown
	}
	return out, note
}

type onceState struct {
	used int
	void bool
}

// onceModel is that of what is good once, some invites twice, and not after it was made void.
func onceModel(s *script) model {
	uses := 1
	if s.Kind == "invite" {
		uses = usesOf(s)
	}
	return model{begin: onceState{}, next: func(state any, s step, o outcome) []any {
		st := state.(onceState)
		good := st.used < uses && !st.void
		switch {
		case s.Do == "use" && o == accepted:
			st.used++
			return only(good, st)
		case s.Do == "use":
			return only(!good, st)
		case o == accepted:
			st.void = true
			return []any{st}
		}
		return only(!good, st) // there is nothing to revoke
	}}
}

func only[S any](right bool, states ...S) (out []any) {
	if right {
		for _, st := range states {
			out = append(out, st)
		}
	}
	return out
}

func generateOnce(r *rand.Rand) []step {
	b := &builder{r: r}
	if first := r.IntN(4); first < 2 { // revoked at the beginning, or after the first use
		if first == 0 {
			b.add(0, "use", -1, "")
			b.phase++
		}
		b.add(0, "revoke", -1, "")
		b.phase++
	}
	lanes := 2 + r.IntN(4)
	for lane := range lanes {
		b.add(lane, "use", -1, "")
	}
	if r.IntN(3) == 0 {
		b.add(lanes, "revoke", -1, "")
	}
	b.phase++
	b.add(0, "use", -1, "")
	if r.IntN(2) == 0 {
		b.phase++
		b.add(0, "revoke", -1, "")
		b.phase++
		b.add(0, "use", -1, "")
	}
	return b.steps
}

type beginning func(ctx context.Context, w *world, s *script, p *person, o *once) error

// beginOnce begins with a person who has a session, from the pool or for this history alone.
func beginOnce(own bool, begin beginning) func(context.Context, *world, *script) (object, error) {
	return func(ctx context.Context, w *world, s *script) (object, error) {
		p, release, err := w.who(ctx, own, false)
		o := &once{w: w, release: release, joined: map[string]outcome{}}
		if own {
			o.p = p
		}
		if err == nil {
			if err = begin(ctx, w, s, p, o); err != nil {
				release()
			}
		}
		return o, err
	}
}

// failed is the error of a request that begins a history.
func failed(what string, r reply) error {
	return errors.Join(fmt.Errorf("%s: %d %s", what, r.Status, r.Body), r.Err)
}

// usesOf is how often an invite may be used. One that a person made lets in one alone.
func usesOf(s *script) int { return max(1, int(s.Seed%4)) }

// beginInvite: an invite of a person ends with their access, for good.
func beginInvite(ctx context.Context, w *world, s *script, p *person, o *once) error {
	by, body := s.Seed%4 == 0, map[string]int{"uses": usesOf(s)}
	r := w.manage(ctx, w.any(), "POST", "/api/invites", body)
	maker := p.held
	if by && s.Seed/4%5 == 4 { // another session
		maker = w.login(ctx, w.any(), p.handle, password).Cookie(browser.SessionCookie)
	}
	if by {
		r = w.api(ctx, w.any(), "POST", "/api/invites", maker, body)
	}
	code := r.Given("code")
	if code == "" {
		return failed("invite", r)
	}
	o.use = func(ctx context.Context, at int, st step) (outcome, string) {
		handle := fmt.Sprintf("i%d-%d", w.names.Add(1), st.ID)
		out, note := w.api(ctx, at, "POST", "/api/register", "",
			map[string]string{"code": code, "handle": handle, "password": password}).result()
		o.mu.Lock()
		defer o.mu.Unlock()
		o.joined[handle] = out
		return out, note
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		switch n := s.Seed / 4 % 5; {
		case by && n < 3:
			return w.endAccess(ctx, at, n, p)
		case by && n == 3:
			return w.api(ctx, at, "DELETE", "/api/invites/"+code, p.held, nil).result()
		case by:
			return w.api(ctx, at, "POST", "/api/me/sessions/end-others", p.held, nil).result()
		}
		return w.manage(ctx, at, "DELETE", "/api/admin/invites/"+code, nil).result()
	}
	return nil
}

// beginReset is a code of an administrator, or one that was mailed. Acts that end the access of others
// end both; a code of an administrator is replaced by the next, one that was mailed goes with the address.
func beginReset(ctx context.Context, w *world, s *script, p *person, o *once) error {
	user := "/api/admin/users/" + p.handle
	to, code := p.handle+"@reset.example.org", ""
	if s.Seed%2 == 0 {
		r := w.manage(ctx, w.any(), "POST", user+"/reset-password-code", nil)
		if code = r.Given("code"); code == "" {
			return failed("reset code", r)
		}
	} else {
		r := w.manage(ctx, w.any(), "PATCH", user, map[string]any{"email": to, "email_verified": true})
		if r.Status != http.StatusOK {
			return failed("address", r)
		}
		var err error
		if code, err = w.forget(ctx, p.handle, to); err != nil {
			return err
		}
	}
	o.use = func(ctx context.Context, at int, s step) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/auth/reset-password", "",
			map[string]string{"handle": p.handle, "code": code, "password": fmt.Sprint(password, s.ID)}).result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		switch n := s.Seed / 2 % 5; n {
		case 0:
			return w.api(ctx, at, "PUT", "/api/me/password", p.held,
				map[string]string{"current_password": password, "new_password": password + " anew"}).result()
		case 1, 2:
			return w.endAccess(ctx, at, n-1, p)
		case 3:
			return w.manage(ctx, at, "POST", user+"/reset-factors", nil).result()
		}
		if s.Seed%2 == 0 {
			return w.manage(ctx, at, "POST", user+"/reset-password-code", nil).result()
		}
		return w.manage(ctx, at, "PATCH", user, map[string]any{"email": "x" + to}).result()
	}
	return nil
}

// forget asks for a code for a new password, and waits for its mail.
func (w *world) forget(ctx context.Context, handle, to string) (code string, err error) {
	r := w.api(ctx, w.any(), "POST", "/api/auth/forgot-password", "", map[string]string{"handle": handle})
	if r.Status != http.StatusOK {
		return "", failed("forgotten password", r)
	}
	text, err := w.mail.wait(ctx, to, 15*time.Second, resetLink.MatchString)
	if err != nil {
		return "", err
	}
	return resetLink.FindStringSubmatch(text)[1], nil
}

// resetLink is the link in the mail about a forgotten password.
var resetLink = regexp.MustCompile(`/reset-password/\?[^\s"<>]*code=([^\s"<>&]+)`)

var sixDigits = regexp.MustCompile(`(?m)^\s*([0-9]{6})\s*$`)

// askCode asks for the code that verifies an address, and waits for its mail.
func (w *world) askCode(ctx context.Context, p *person, to string, except ...string) (code string, err error) {
	if r := w.api(ctx, w.any(), "PATCH", "/api/me", p.held, map[string]any{"email": to}); r.Status != http.StatusOK {
		return "", failed("address", r)
	}
	if r := w.api(ctx, w.any(), "POST", "/api/me/email/send-verification", p.held,
		nil); r.Status != http.StatusNoContent && r.Status != http.StatusOK {
		return "", failed("send verification", r)
	}
	_, err = w.mail.wait(ctx, to, 15*time.Second, func(text string) bool {
		if found := sixDigits.FindStringSubmatch(text); found != nil && !slices.Contains(except, found[1]) {
			code = found[1]
		}
		return code != ""
	})
	return code, err
}

// beginMailed is a code that was mailed to verify an address.
func beginMailed(ctx context.Context, w *world, s *script, p *person, o *once) error {
	to := p.handle + "@mailed.example.org"
	code, err := w.askCode(ctx, p, to)
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/me/email/verify", p.held, map[string]string{"code": code}).result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		if s.Seed%2 == 0 {
			return w.api(ctx, at, "POST", "/api/me/sessions/end-others", p.held, nil).result()
		} // or another address
		return w.api(ctx, at, "PATCH", "/api/me", p.held, map[string]any{"email": "x" + to}).result()
	}
	return err
}

// beginAddress is an address that two persons want to verify.
func beginAddress(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	to, codes := p.handle+"@shared.example.org", [2]string{}
	other, err := w.newPerson(ctx, false)
	if err == nil {
		codes[0], err = w.askCode(ctx, p, to)
	}
	if err == nil {
		codes[1], err = w.askCode(ctx, other, to, codes[0])
	}
	o.use = func(ctx context.Context, at int, s step) (outcome, string) {
		n := s.ID % 2
		return w.api(ctx, at, "POST", "/api/me/email/verify", []*person{p, other}[n].held,
			map[string]string{"code": codes[n]}).result()
	}
	return err
}

// beginUndo is the link in the mail to the former address.
func beginUndo(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	user, from := "/api/admin/users/"+p.handle, p.handle+"@former.example.org"
	r := w.manage(ctx, w.any(), "PATCH", user, map[string]any{"email": from, "email_verified": true})
	if r.Status == http.StatusOK {
		r = w.api(ctx, w.any(), "PATCH", "/api/me", p.held, map[string]any{"email": ""})
	}
	if r.Status != http.StatusOK {
		return failed("address", r)
	}
	text, err := w.mail.wait(ctx, from, 15*time.Second, undoLink.MatchString)
	if err != nil {
		return err
	}
	link, _ := url.QueryUnescape(undoLink.FindStringSubmatch(text)[1])
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.post(ctx, at, "/undo-email/", "", url.Values{"link": {link}}).result()
	}
	return nil
}

// undoLink is the link in the mail about a new address.
var undoLink = regexp.MustCompile(`/undo-email/\?link=([^\s"<>&]+)`)

// beginHandle is a handle that several want, each with an invite.
func beginHandle(ctx context.Context, w *world, s *script, _ *person, o *once) error {
	handle, codes := fmt.Sprint("Wanted", w.names.Add(1)), map[int]string{}
	for _, st := range s.Steps {
		r := w.manage(ctx, w.any(), "POST", "/api/invites", map[string]string{})
		if codes[st.ID] = r.Given("code"); codes[st.ID] == "" {
			return failed("invite", r)
		}
	}
	o.use = func(ctx context.Context, at int, st step) (outcome, string) {
		name := handle
		if st.ID%2 == 0 {
			name = strings.ToLower(name)
		}
		return w.api(ctx, at, "POST", "/api/register", "",
			map[string]string{"code": codes[st.ID], "handle": name, "password": password}).result()
	}
	return nil
}

// addApp adds an authenticator app; its own code is that of the step before.
func (w *world) addApp(ctx context.Context, p *person) (recovery []string, err error) {
	r := w.api(ctx, w.any(), "POST", "/api/me/totp", p.held, nil)
	secret := r.Given("secret")
	if secret == "" {
		return nil, failed("authenticator app", r)
	}
	at := time.Now().Add(-30 * time.Second)
	r = w.api(ctx, w.any(), "POST", "/api/me/totp/confirm", p.held,
		map[string]string{"token": r.Str("token"), "code": browser.TOTP(secret, at)})
	if r.Cookie(browser.SessionCookie) == "" { // without, the app was added, but the session has not proven it
		return nil, failed("confirm the authenticator app", r)
	}
	p.held = r.Cookie(browser.SessionCookie)
	list, _ := r.JSON()["recovery_codes"].([]any)
	for _, c := range list {
		recovery = append(recovery, fmt.Sprint(c))
	}
	return recovery, nil
}

func beginRecovery(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	codes, err := w.addApp(ctx, p)
	if err != nil || len(codes) == 0 {
		return errors.Join(err, errors.New("no recovery codes"))
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{
			"handle": p.handle, "password": password, "otp": codes[0],
		}).result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/me/recovery-codes", p.held, nil).result()
	}
	return nil
}

func beginPAR(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	path, err := w.push(ctx, "app", "openid")
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.get(ctx, at, path, p.held).gotCode()
	}
	return err
}

// push pushes a request of a client (RFC 9126) and returns the path that it is asked with.
func (w *world) push(ctx context.Context, client, scope string, more ...string) (path string, err error) {
	c := w.clients[client]
	r := w.oauth(ctx, w.any(), "/oauth2/par", c, c.Authorization(scope, more...))
	if r.Given("request_uri") == "" {
		return "", failed("par", r)
	}
	return "/oauth2/authorize?" + url.Values{"client_id": {c.ID}, "request_uri": {r.Given("request_uri")}}.Encode(), nil
}

// beginPage is a pushed request that is open in several tabs, each of which asks the person.
func beginPage(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	path, err := w.push(ctx, "asking", "openid email", "prompt", "consent")
	if err != nil {
		return err
	}
	tabs := make(chan reply, 8)
	for range cap(tabs) {
		r := w.get(ctx, w.any(), path, p.held)
		if r.Status != http.StatusSeeOther || r.Location().Query().Has("error") {
			return failed("authorize", r)
		}
		tabs <- r
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.decide(ctx, at, p.held, <-tabs).gotCode()
	}
	return nil
}

// decide allows an application all but some optional scopes, from the answer to its request on.
func (w *world) decide(ctx context.Context, at int, session string, r reply, leaveOut ...string) reply {
	asked := 0 // who answered twice, since what they allowed was removed meanwhile, would have allowed it twice
	fill := func(page string, f *browser.Form) bool {
		asked++
		f.Values.Set("decision", "allow")
		f.Values["scope"] = slices.DeleteFunc(append(f.Values["scope"], f.Unticked["scope"]...),
			func(scope string) bool { return slices.Contains(leaveOut, scope) })
		return page == "consent" && asked == 1
	}
	keep := func(a browser.Answer) browser.Answer {
		session += "; " + a.Cookies(browser.SessionCookie)
		return a
	}
	last, _ := browser.Follow(keep(r.Answer), 9, w.issuer, fill, func(path string, form url.Values) browser.Answer {
		path = strings.TrimPrefix(path, w.issuer)
		if form == nil {
			return keep(w.get(ctx, at, path, session).Answer)
		}
		return keep(w.post(ctx, at, path, session, form).Answer)
	})
	return reply{last}
}

// beginApproval is the code that a device shows, which the person has typed in several tabs.
func beginApproval(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	r := w.oauth(ctx, w.any(), "/oauth2/device_authorization", w.clients["tool"], url.Values{"scope": {"openid"}})
	user := r.Given("user_code")
	if user == "" {
		return failed("device authorization", r)
	}
	tabs := make(chan reply, 8)
	for range cap(tabs) {
		r := w.post(ctx, w.any(), "/device", p.held, url.Values{"user_code": {user}})
		if r.Status != http.StatusSeeOther {
			return failed("device", r)
		}
		tabs <- r
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.decide(ctx, at, p.held, <-tabs)
		out, note := r.result()
		if out == accepted && !strings.Contains(r.Body, `id="device-allowed"`) {
			return refused, note
		}
		return out, note
	}
	return nil
}

// beginDevice is a device code that somebody allows (RFC 8628). It is a grant of their session.
func beginDevice(ctx context.Context, w *world, s *script, p *person, o *once) error {
	r := w.oauth(ctx, w.any(), "/oauth2/device_authorization", w.clients["tool"], url.Values{"scope": {"openid"}})
	device, user := r.Given("device_code"), r.Given("user_code")
	if device == "" {
		return failed("device authorization", r)
	}
	at := w.any()
	r = w.post(ctx, at, "/device", p.held, url.Values{"user_code": {user}})
	if r = w.decide(ctx, at, p.held, r); !strings.Contains(r.Body, `id="device-allowed"`) {
		return failed("device", r)
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.oauth(ctx, at, "/oauth2/token", w.clients["tool"],
			url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}})
		if slices.Contains([]string{"slow_down", "authorization_pending"}, r.Str("error")) {
			return skipped, ""
		}
		if token := r.Given("access_token"); token != "" {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.token = token
		}
		return r.result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		switch n := s.Seed % 5; n {
		case 3:
			return w.api(ctx, at, "POST", "/api/auth/logout", p.held, nil).result()
		case 4:
			return w.api(ctx, at, "DELETE", "/api/me/apps/tool", p.held, nil).result()
		default:
			return w.endAccess(ctx, at, n, p)
		}
	}
	return nil
}
