package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/web/browser"
)

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

// decide answers the question of an application, to which the answer to a request led.
func (w *world) decide(ctx context.Context, at int, session string, r reply, leaveOut ...string) reply {
	return reply{browser.Decide(r.Answer, w.issuer, leaveOut,
		func(path, cookies string, form url.Values) browser.Answer {
			if form == nil {
				return w.get(ctx, at, path, session+cookies).Answer
			}
			return w.post(ctx, at, path, session+cookies, form).Answer
		})}
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
