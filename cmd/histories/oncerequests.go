package main

import (
	"context" // #nosec G505 -- RFC 6238
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func beginPAR(ctx context.Context, w *world, _ *script, p *person, o *once) error {
	q, _ := url.Parse(authorizePath("app", "openid"))
	r := w.oauth(ctx, w.any(), "/oauth2/par", w.clients["app"], q.Query())
	uri := r.given("request_uri")
	if uri == "" {
		return failed("par", r)
	}
	o.use = func(ctx context.Context, at int, _ step) (outcome, string) {
		return w.send(ctx, at, "GET", "/oauth2/authorize?client_id=app&request_uri="+url.QueryEscape(uri), p.held, "", "").gotCode()
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
		return w.decide(ctx, at, p.held, <-tabs, "allow").gotCode()
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
