package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- RFC 6238
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
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

func (o *once) end(ctx context.Context, h *history) []string {
	o.release()
	wrong := o.w.registry.take()
	if o.p != nil {
		wrong = append(wrong, o.w.owes(ctx, h, o.p)...)
	}
	for handle, joined := range o.joined {
		if rows := o.w.rowsOf(ctx, handle); rows != nil && joined != unknown && rows["user.register"] != map[outcome]int{accepted: 1}[joined] {
			wrong = append(wrong, fmt.Sprintf("the audit log has %d rows user.register of @%s, whose registration was %s", rows["user.register"], handle, joined))
		}
	}
	count := map[outcome]int{}
	for _, op := range h.operations {
		if op.Do == "revoke" {
			count[op.outcome]++
		}
	}
	if o.token != "" && count[unknown] == 0 { // who asks once more for the tokens of a device ends nothing
		out, _ := o.w.read(0, func(at int) reply {
			return o.w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+o.token)
		})
		if out != skipped && (out == accepted) != (count[accepted] == 0) {
			wrong = append(wrong, fmt.Sprintf("no order of these requests explains that the token of the device is %s", out))
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
	code := w.manage(ctx, at, "POST", user+"/reset-password-code", nil).given("code")
	out, note := w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": p.handle, "code": code, "password": password + " after"}).result()
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

// beginning makes what is good once.
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
	return errors.Join(fmt.Errorf("%s: %d %s", what, r.status, r.body), r.err)
}

// usesOf is how often an invite may be used. One that a person made lets in one alone.
func usesOf(s *script) int { return max(1, int(s.Seed%4)) }

// beginInvite: an invite of a person ends with their access, for good.
func beginInvite(ctx context.Context, w *world, s *script, p *person, o *once) error {
	by, body := s.Seed%4 == 0, map[string]int{"uses": usesOf(s)}
	r := w.manage(ctx, w.any(), "POST", "/api/invites", body)
	maker := p.held
	if by && s.Seed/4%5 == 4 { // another session
		maker = w.api(ctx, w.any(), "POST", "/api/auth/login", "", map[string]string{"handle": p.handle, "password": password}).cookie
	}
	if by {
		r = w.api(ctx, w.any(), "POST", "/api/invites", maker, body)
	}
	code := r.given("code")
	if code == "" {
		return failed("invite", r)
	}
	o.use = func(ctx context.Context, at int, st step) (outcome, string) {
		handle := fmt.Sprintf("i%d-%d", w.names.Add(1), st.ID)
		out, note := w.api(ctx, at, "POST", "/api/register", "", map[string]string{"code": code, "handle": handle, "password": password}).result()
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
		if code = r.given("code"); code == "" {
			return failed("reset code", r)
		}
	} else {
		r := w.manage(ctx, w.any(), "PATCH", user, map[string]any{"email": to, "email_verified": true})
		if r.status != http.StatusOK {
			return failed("address", r)
		}
		var err error
		if code, err = w.forget(ctx, s, p.handle, to); err != nil {
			return err
		}
	}
	o.use = func(ctx context.Context, at int, s step) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/auth/reset-password", "", map[string]string{"handle": p.handle, "code": code, "password": fmt.Sprint(password, s.ID)}).result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		switch n := s.Seed / 2 % 5; n {
		case 0:
			return w.api(ctx, at, "PUT", "/api/me/password", p.held, map[string]string{"current_password": password, "new_password": password + " anew"}).result()
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
func (w *world) forget(ctx context.Context, s *script, handle, to string) (code string, err error) {
	r := w.api(ctx, w.any(), "POST", "/api/auth/forgot-password", "", map[string]string{"handle": handle})
	if r.status != http.StatusOK {
		return "", failed("forgotten password", r)
	}
	text, err := w.mailTo(ctx, s, to, "Set a new password", resetLink.MatchString)
	if err != nil {
		return "", err
	}
	return resetLink.FindStringSubmatch(text)[1], nil
}

// resetLink is the link in the mail about a forgotten password.
var resetLink = regexp.MustCompile(`/reset-password/\?[^\s"<>]*code=([^\s"<>&]+)`)

var sixDigits = regexp.MustCompile(`(?m)^\s*([0-9]{6})\s*$`)

// askCode asks for the code that verifies an address, and waits for its mail.
func (w *world) askCode(ctx context.Context, s *script, p *person, to string, except ...string) (code string, err error) {
	if r := w.api(ctx, w.any(), "PATCH", "/api/me", p.held, map[string]any{"email": to}); r.status != http.StatusOK {
		return "", failed("address", r)
	}
	if r := w.api(ctx, w.any(), "POST", "/api/me/email/send-verification", p.held, nil); r.status != http.StatusNoContent && r.status != http.StatusOK {
		return "", failed("send verification", r)
	}
	_, err = w.mailTo(ctx, s, to, "Verify your email address", func(text string) bool {
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
	code, err := w.askCode(ctx, s, p, to)
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
func beginAddress(ctx context.Context, w *world, s *script, p *person, o *once) error {
	to, codes := p.handle+"@shared.example.org", [2]string{}
	other, err := w.newPerson(ctx, false)
	if err == nil {
		codes[0], err = w.askCode(ctx, s, p, to)
	}
	if err == nil {
		codes[1], err = w.askCode(ctx, s, other, to, codes[0])
	}
	o.use = func(ctx context.Context, at int, s step) (outcome, string) {
		n := s.ID % 2
		return w.api(ctx, at, "POST", "/api/me/email/verify", []*person{p, other}[n].held, map[string]string{"code": codes[n]}).result()
	}
	return err
}

// beginUndo is the link in the mail to the former address.
func beginUndo(ctx context.Context, w *world, s *script, p *person, o *once) error {
	user, from := "/api/admin/users/"+p.handle, p.handle+"@former.example.org"
	r := w.manage(ctx, w.any(), "PATCH", user, map[string]any{"email": from, "email_verified": true})
	if r.status == http.StatusOK {
		r = w.api(ctx, w.any(), "PATCH", "/api/me", p.held, map[string]any{"email": "x" + from})
	}
	if r.status != http.StatusOK {
		return failed("address", r)
	}
	text, err := w.mailTo(ctx, s, from, "Your email address was changed", undoLink.MatchString)
	if err != nil {
		return err
	}
	link, _ := url.QueryUnescape(undoLink.FindStringSubmatch(text)[1])
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.send(ctx, at, "POST", "/undo-email/", "", formType, url.Values{"link": {link}}.Encode()).result()
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
		if codes[st.ID] = r.given("code"); codes[st.ID] == "" {
			return failed("invite", r)
		}
	}
	o.use = func(ctx context.Context, at int, st step) (outcome, string) {
		name := handle
		if st.ID%2 == 0 {
			name = strings.ToLower(name)
		}
		return w.api(ctx, at, "POST", "/api/register", "", map[string]string{"code": codes[st.ID], "handle": name, "password": password}).result()
	}
	return nil
}

func beginPAR(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	q, _ := url.Parse(authorizePath("app", "openid"))
	r := w.oauth(ctx, w.any(), "/oauth2/par", w.clients["app"], q.Query())
	uri := r.given("request_uri")
	if uri == "" {
		return failed("par", r)
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.send(ctx, at, "GET", "/oauth2/authorize?client_id=app&request_uri="+url.QueryEscape(uri), p.held, "", "")
		out, note := r.result()
		if out == accepted && r.location().Query().Get("code") == "" {
			return refused, note + " " + r.location().Query().Get("error")
		}
		return out, note
	}
	return nil
}

// beginPage is a pushed request that is open in several tabs, each of which asks the person.
func beginPage(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	q, _ := url.Parse(authorizePath("asking", "openid email", "prompt", "consent"))
	r := w.oauth(ctx, w.any(), "/oauth2/par", w.clients["asking"], q.Query())
	uri := r.given("request_uri")
	if uri == "" {
		return failed("par", r)
	}
	tabs := make(chan reply, 8)
	for range cap(tabs) {
		r := w.send(ctx, w.any(), "GET", "/oauth2/authorize?client_id=asking&request_uri="+url.QueryEscape(uri), p.held, "", "")
		if r.status != http.StatusSeeOther || r.location().Query().Has("error") {
			return failed("authorize", r)
		}
		tabs <- r
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.decide(ctx, at, p.held, <-tabs, "allow")
		out, note := r.result()
		if out == accepted && r.location().Query().Get("code") == "" {
			return refused, note + " " + r.location().Query().Get("error")
		}
		return out, note
	}
	return nil
}

// beginAssertion is a JWT that authenticates a client (RFC 7523 section 3): its jti is good once.
func beginAssertion(ctx context.Context, w *world, s *script, _ *person, o *once) error {
	assertion := w.key.assertion(w.issuer, "signed", fmt.Sprint("a", w.names.Add(1), "-", s.Seed), w.now())
	o.use = func(ctx context.Context, at int, st step) (outcome, string) {
		return w.oauth(ctx, at, []string{"/oauth2/introspect", "/oauth2/revoke"}[st.ID%2], client{id: "signed"}, url.Values{
			"token": {"none"}, "client_assertion": {assertion}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		}).result()
	}
	return nil
}

// proof is a DPoP proof (RFC 9449 section 4.2).
func (w *world) proof(method, path, access, nonce string) string {
	claims := map[string]any{"jti": fmt.Sprint("d", w.names.Add(1), "-", time.Now().UnixNano()), "htm": method, "htu": w.issuer + path, "iat": w.now().Unix()}
	if access != "" {
		h := sha256.Sum256([]byte(access))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(h[:])
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return w.key.sign(claims, map[jose.HeaderKey]any{"typ": "dpop+jwt", "jwk": w.key.key.Public()})
}

func beginProof(ctx context.Context, w *world, s *script, p *person, o *once) error {
	ask := func() string {
		return w.send(ctx, w.any(), "GET", authorizePath("app", "openid"), p.held, "", "").location().Query().Get("code")
	}
	code := ask()
	r := w.exchange(ctx, w.any(), w.clients["app"], code, "DPoP", w.proof("POST", "/oauth2/token", "", ""))
	nonce := r.header.Get("DPoP-Nonce")
	if r.str("error") == "use_dpop_nonce" {
		r = w.exchange(ctx, w.any(), w.clients["app"], code, "DPoP", w.proof("POST", "/oauth2/token", "", nonce))
	}
	access := r.given("access_token")
	if access == "" {
		return failed("bound token", r)
	}
	if s.Kind == "proof" && s.Seed%2 == 0 { // for several codes
		codes, proof := map[int]string{}, w.proof("POST", "/oauth2/token", "", nonce)
		for _, st := range s.Steps {
			if codes[st.ID] = ask(); codes[st.ID] == "" {
				return errors.New("no code")
			}
		}
		o.use = func(ctx context.Context, at int, st step) (outcome, string) {
			return w.exchange(ctx, at, w.clients["app"], codes[st.ID], "DPoP", proof).result()
		}
		return nil
	}
	proof := w.proof("GET", "/oauth2/userinfo", access, nonce)
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "DPoP "+access, "DPoP", proof).result()
	}
	return nil
}

// totp is a code of an authenticator app (RFC 6238).
func totp(secret string, at time.Time) string {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha1.New, key)
	_ = binary.Write(mac, binary.BigEndian, at.Unix()/30)
	sum := mac.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) & 0x7fffffff
	return fmt.Sprintf("%06d", n%1_000_000)
}

// addApp adds an authenticator app; its own code is that of the step before.
func (w *world) addApp(ctx context.Context, p *person) (secret string, recovery []string, err error) {
	r := w.api(ctx, w.any(), "POST", "/api/me/totp", p.held, nil)
	if secret = r.given("secret"); secret == "" {
		return "", nil, failed("authenticator app", r)
	}
	at := w.now().Add(-30 * time.Second)
	r = w.api(ctx, w.any(), "POST", "/api/me/totp/confirm", p.held, map[string]string{"token": r.str("token"), "code": totp(secret, at)})
	if r.cookie == "" { // without, the app was added, but the session has not proven it
		return "", nil, failed("confirm the authenticator app", r)
	}
	p.held = r.cookie
	list, _ := r.json["recovery_codes"].([]any)
	for _, c := range list {
		recovery = append(recovery, fmt.Sprint(c))
	}
	return secret, recovery, nil
}

func beginRecovery(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	_, codes, err := w.addApp(ctx, p)
	if err != nil || len(codes) == 0 {
		return errors.Join(err, errors.New("no recovery codes"))
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": p.handle, "password": password, "otp": codes[0]}).result()
	}
	o.revoke = func(ctx context.Context, at int) (outcome, string) {
		return w.api(ctx, at, "POST", "/api/me/recovery-codes", p.held, nil).result()
	}
	return nil
}

var (
	tick     = regexp.MustCompile(`<input type="checkbox" id="scope-[^"]*" name="scope" value="([^"]*)"`)
	hidden   = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)
	formHead = regexp.MustCompile(`<form method="post" action="([^"]*)" id="consent"`)
)

// hiddenOf returns the hidden fields of a page.
func hiddenOf(page string) url.Values {
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	return form
}

// decide answers the question of an application, to which the answer to a request led: allow, or less,
// which leaves out what is optional.
func (w *world) decide(ctx context.Context, at int, session string, r reply, decision string) reply {
	for range 4 {
		if r.others != "" {
			session += "; " + strings.TrimSuffix(r.others, "; ")
		}
		if r.status != http.StatusSeeOther || !strings.HasPrefix(r.location().Path, "/oauth2/") && r.location().Path != "/device" || r.location().Query().Has("code") {
			break
		}
		r = w.send(ctx, at, "GET", r.location().RequestURI(), session, "", "")
	}
	if !formHead.MatchString(r.body) {
		return r
	}
	form := hiddenOf(r.body)
	if form.Set("decision", "allow"); decision == "allow" {
		for _, scope := range tick.FindAllStringSubmatch(r.body, -1) {
			form.Add("scope", scope[1])
		}
	}
	r = w.send(ctx, at, "POST", "/oauth2/consent", session, formType, form.Encode())
	for range 3 {
		if r.status != http.StatusSeeOther || r.location().Host != "" && !strings.HasPrefix(r.header.Get("Location"), w.issuer) {
			break
		}
		r = w.send(ctx, at, "GET", r.location().RequestURI(), session, "", "")
	}
	return r
}

// beginApproval is the code that a device shows, which the person has typed in several tabs.
func beginApproval(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	r := w.oauth(ctx, w.any(), "/oauth2/device_authorization", w.clients["tool"], url.Values{"scope": {"openid"}})
	user := r.given("user_code")
	if user == "" {
		return failed("device authorization", r)
	}
	tabs := make(chan reply, 8)
	for range cap(tabs) {
		r := w.send(ctx, w.any(), "POST", "/device", p.held, formType, url.Values{"user_code": {user}}.Encode())
		if r.status != http.StatusSeeOther {
			return failed("device", r)
		}
		tabs <- r
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.decide(ctx, at, p.held, <-tabs, "allow")
		out, note := r.result()
		if out == accepted && !strings.Contains(r.body, `id="device-allowed"`) {
			return refused, note
		}
		return out, note
	}
	return nil
}

// beginDevice is a device code that somebody allows (RFC 8628). It is a grant of their session.
func beginDevice(ctx context.Context, w *world, s *script, p *person, o *once) error {
	r := w.oauth(ctx, w.any(), "/oauth2/device_authorization", w.clients["tool"], url.Values{"scope": {"openid"}})
	device, user := r.given("device_code"), r.given("user_code")
	if device == "" {
		return failed("device authorization", r)
	}
	at := w.any()
	r = w.send(ctx, at, "POST", "/device", p.held, formType, url.Values{"user_code": {user}}.Encode())
	if r = w.decide(ctx, at, p.held, r, "allow"); !strings.Contains(r.body, `id="device-allowed"`) {
		return failed("device", r)
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		r := w.oauth(ctx, at, "/oauth2/token", w.clients["tool"], url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}})
		if slices.Contains([]string{"slow_down", "authorization_pending"}, r.str("error")) {
			return skipped, ""
		}
		if token := r.given("access_token"); token != "" {
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
