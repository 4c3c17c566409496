package httpd

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/provider"
)

// What ends the other sessions ends the access that was given there, except that of the applications that
// the person keeps, by the API and by the pages, which list it first.
func TestKeptApplicationsOutliveTheOtherSessions(t *testing.T) {
	type scene struct {
		*life
		here      *browser
		phone     *phone
		key       *keyring
		id        string // of the passkey
		keep      object
		keepForms url.Values
	}
	// form sends the form that a page of here has for a path, with its fields, and answers the question after
	// it. What is kept is ticked where the list of what ends stands: on the page, or with the question.
	form := func(s *scene, page, path string, fields url.Values) response {
		shown := s.here.get(page)
		sent := maps.Clone(fields)
		if strings.Contains(shown.Text, `ends"><p>`) {
			maps.Copy(sent, s.keepForms)
		}
		got := s.here.postForm(path, sent)
		if f := ua.FormOf(got.Text, path); f != nil && got.StatusCode == 200 {
			sent = f.Hidden
			maps.Copy(sent, s.keepForms)
			shown, got = got, s.here.postForm(path, sent)
		}
		for _, want := range []string{"Sessions in other browsers: 1", "Open invites created there: 1", `name="keep_app" value="wiki"`, `value="tool"`} {
			if !strings.Contains(shown.Text, want) {
				s.t.Errorf("%s does not show %s", path, want)
			}
		}
		return got
	}
	none := func(*scene) {}
	totp := func(s *scene) { s.phone = s.addTOTP(s.here) }
	passkey := func(s *scene) { s.key, s.id = s.addPasskey(s.here, "Key", nil) }
	for name, c := range map[string]struct {
		before    func(*scene)
		api, page func(*scene) response
	}{
		"end others": {none, func(s *scene) response {
			return s.here.api("POST", "/api/me/sessions/end-others", object{"keep_apps": s.keep["keep_apps"]})
		}, func(s *scene) response {
			return form(s, "/account/devices", "/account/sessions/end-others", url.Values{})
		}},
		"email": {none, func(s *scene) response {
			in := object{"email": "new@example.org"}
			maps.Copy(in, s.keep)
			needStatus(s.t, "ask", s.here.api("PATCH", "/api/me", in), 200)
			return s.here.verifyEmail(s.verification("new@example.org"))
		}, func(s *scene) response {
			needStatus(s.t, "ask", form(s, "/account/profile", "/account/profile", url.Values{"email": {"newer@example.org"}}), 303)
			return s.here.verifyEmail(s.verification("newer@example.org"))
		}},
		"first app": {none, func(s *scene) response {
			return s.drawTOTP(s.here).confirmTOTP(s.here, s.keep)
		}, func(s *scene) response {
			p := s.drawTOTP(s.here)
			return form(s, "/account/security/totp", "/account/security/totp", url.Values{"token": {p.token}, "code": {p.code()}})
		}},
		"first passkey with a second step": {none, func(s *scene) response {
			in := s.keyring().create(s.here, "Key")
			in["second_step"] = true
			maps.Copy(in, s.keep)
			return s.here.api("POST", "/api/me/passkeys", in)
		}, func(s *scene) response {
			in := s.keyring().create(s.here, "Key")
			return form(s, "/account/security", "/account/passkeys",
				url.Values{"state": {fmt.Sprint(in["state"])}, "credential": {mustJSON(s.t, in["credential"])}, "second_step": {"yes"}, "end_other_sessions": {"yes"}})
		}},
		"app removed": {totp, func(s *scene) response { return removeTOTP(s.here, s.keep) }, func(s *scene) response {
			return form(s, "/account/security", "/account/security/totp/remove", url.Values{})
		}},
		"passkey removed": {passkey, func(s *scene) response { return removePasskey(s.here, s.id, s.keep) }, func(s *scene) response {
			return form(s, "/account/devices", "/account/passkeys/remove", url.Values{"id": {s.id}})
		}},
		"password removed": {passkey, func(s *scene) response {
			return s.here.api("DELETE", "/api/me/password", s.keep)
		}, func(s *scene) response {
			return form(s, "/account/devices", "/account/password/remove", url.Values{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLife(t, serviceOptions{})
			apps := map[string]*relyingParty{}
			for _, id := range []string{"wiki", "tool", "lost"} {
				apps[id] = l.app(id, func(c *provider.Client) { c.Trusted = true }, "openid", "offline_access")
			}
			online := l.app("online", func(c *provider.Client) { c.Trusted = true }, "openid")
			for by, act := range map[string]func(*scene) response{"api": c.api, "page": c.page} {
				l.member(by)
				s := &scene{life: l, keep: object{"keep_apps": []string{"wiki", "tool", "online"}},
					keepForms: url.Values{"keep_app": {"wiki", "tool", "online"}}}
				s.here = l.signedIn(by)
				c.before(s)
				other := l.visitor()
				switch {
				case s.key != nil:
					needStatus(t, "other", s.key.prove(other, "sign-in"), 200)
					needStatus(t, "here", s.key.prove(s.here, "confirm"), 200)
				case s.phone != nil:
					other = l.signedInWith(by, s.phone.code())
					needStatus(t, "here", s.here.confirm(password, s.phone.code()), 200)
				default:
					other = l.signedIn(by)
				}
				needStatus(t, "invite", other.api("POST", "/api/invites", nil), 201)
				refresh := map[string]string{}
				for id, app := range apps {
					token, err := app.exchange(answered(t, other.get(app.authURL())).Get("code"))
					noError(t, err)
					refresh[id] = token.RefreshToken
				}
				token, err := online.exchange(answered(t, other.get(online.authURL())).Get("code"))
				noError(t, err)
				if got := act(s); !slices.Contains([]int{200, 201, 204, 303}, got.StatusCode) {
					t.Fatalf("%s: %d %.300s", by, got.StatusCode, got.Text)
				}
				wantStatus(t, by+", other session", other.me(), 401)
				wantStatus(t, by+", own session", s.here.me(), 200)
				wantStatus(t, by+", kept", apps["wiki"].refresh(refresh["wiki"]), 200)
				wantStatus(t, by+", kept too", apps["tool"].refresh(refresh["tool"]), 200)
				wantInvalidGrant(t, by+", not kept", apps["lost"].refresh(refresh["lost"]))
				l.wantUserinfo(by+", kept without offline_access", token.AccessToken, 200)
				has(t, fmt.Sprintf("%s: invites", by), s.here.get("/api/invites").Text, `"invites":[]`)
			}
		})
	}
}
