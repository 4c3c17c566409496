package httpd

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// forge makes a JWT with any header and claims.
func forge(t *testing.T, header, claims any, sign func(input []byte) []byte) string {
	t.Helper()
	h, err := json.Marshal(header)
	noError(t, err)
	c, err := json.Marshal(claims)
	noError(t, err)
	input := encode64(h) + "." + encode64(c)
	return input + "." + encode64(sign([]byte(input)))
}

func hmacWith(newHash func() hash.Hash, key []byte) func([]byte) []byte {
	return func(input []byte) []byte {
		m := hmac.New(newHash, key)
		m.Write(input)
		return m.Sum(nil)
	}
}

func changed(claims map[string]any, pairs ...any) map[string]any {
	c := maps.Clone(claims)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			delete(c, pairs[i].(string))
			continue
		}
		c[pairs[i].(string)] = pairs[i+1]
	}
	return c
}

// as asks who a cookie is.
func (s *service) as(token string) response {
	return s.visitor().do("GET", "/api/me", "", "", "Cookie", "cairn_session="+token)
}

// Attacks 64 to 71: nothing but what the service has signed, for a session that
// it knows, is a session; in either scheme.
func TestForgedTokenIsNoSession(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		admin := s.addUser("keeper", "admin")
		b := s.signedIn("ada")
		good := b.cookie("cairn_session")
		header, claims := jwtHeader(t, good), jwtPayload(t, good)
		parts := strings.Split(good, ".")
		needStatus(t, "the genuine one", s.as(good), http.StatusOK)
		nothing, bySecret := func([]byte) []byte { return nil }, hmacWith(sha256.New, s.secret)
		hs := map[string]any{"alg": "HS256", "typ": "JWT"}
		forged := map[string]string{
			"stripped signature": parts[0] + "." + parts[1] + ".", "two parts": parts[0] + "." + parts[1], "changed claims": parts[0] + "." + encode64([]byte(strings.Replace(mustJSON(t, claims), "ada", "eve", 1))) + "." + parts[2],
			"half a signature": good[:len(good)-20], "longer signature": good + "AA", "other user, own session": forge(t, hs, changed(claims, "sub", admin.Sub), bySecret),
			"other jti": forge(t, hs, changed(claims, "jti", "AAAAAAAAAAAAAAAAAAAAAAAAAA"), bySecret), "no jti": forge(t, hs, changed(claims, "jti", nil), bySecret), "unknown sid": forge(t, hs, changed(claims, "sid", "00000000-0000-0000-0000-000000000000"), bySecret),
			"no sid": forge(t, hs, changed(claims, "sid", nil), bySecret), "blank sid": forge(t, hs, changed(claims, "sid", ""), bySecret), "NUL in sid": forge(t, hs, changed(claims, "sid", "\x00"), bySecret),
			"minted without a row": forge(t, hs, changed(claims, "sid", "11111111-2222-4333-8444-555555555555", "jti", "x", "sub", admin.Sub, "groups", []string{"admin"}), bySecret),
			"expired":              forge(t, hs, changed(claims, "exp", time.Now().Add(-time.Hour).Unix(), "iat", time.Now().Add(-2*time.Hour).Unix()), bySecret), "no exp": forge(t, hs, changed(claims, "exp", nil), bySecret),
			"exp as text": forge(t, hs, changed(claims, "exp", "9999999999"), bySecret), "exp null": forge(t, hs, changed(claims, "exp", json.RawMessage("null")), bySecret), "exp in 100 years": forge(t, hs, changed(claims, "exp", 4_000_000_000), bySecret),
			"iat in future": forge(t, hs, changed(claims, "iat", time.Now().Add(time.Hour).Unix()), bySecret), "nbf in future": forge(t, hs, changed(claims, "nbf", time.Now().Add(time.Hour).Unix()), bySecret), "no iat": forge(t, hs, changed(claims, "iat", nil), bySecret),
			"other iss": forge(t, hs, changed(claims, "iss", "https://evil.example"), bySecret), "iss with slash": forge(t, hs, changed(claims, "iss", s.URL+"/"), bySecret), "other aud": forge(t, hs, changed(claims, "aud", "app"), bySecret),
			"aud list": forge(t, hs, changed(claims, "aud", []string{"app", "activity"}), bySecret), "no aud": forge(t, hs, changed(claims, "aud", nil), bySecret),
			"HS512": forge(t, map[string]any{"alg": "HS512", "typ": "JWT"}, claims, hmacWith(sha512.New, s.secret)), "typ of an access token": forge(t, map[string]any{"alg": "HS256", "typ": "at+jwt"}, claims, bySecret),
			"crit": forge(t, map[string]any{"alg": "HS256", "crit": []string{"exp"}}, claims, bySecret), "b64": forge(t, map[string]any{"alg": "HS256", "b64": false, "crit": []string{"b64"}}, claims, bySecret),
			"too long": forge(t, hs, changed(claims, "x", strings.Repeat("x", 4500)), bySecret), "JSON": `{"payload":"` + parts[1] + `"}`,
		}
		for _, alg := range []string{"none", "None", "NONE", "nOnE", "", "HS0"} {
			forged["alg "+alg] = forge(t, map[string]any{"alg": alg, "typ": "JWT"}, claims, nothing)
			forged["alg "+alg+" with the old signature"] = encode64([]byte(`{"alg":"`+alg+`"}`)) + "." + parts[1] + "." + parts[2]
		}
		for _, key := range []string{"", " ", "\x00", "secret", "changeme", "activity", "cairn", s.URL, strings.Repeat("0", 32), strings.Repeat("\x00", 32), "SERVICE_AUTH_JWT_SECRET", string(s.secret)[:len(s.secret)-1], string(s.secret) + "\n", encode64(s.secret)} {
			forged[fmt.Sprintf("key %.10q", key)] = forge(t, hs, claims, hmacWith(sha256.New, []byte(key)))
		}
		mine, err := rsa.GenerateKey(rand.Reader, 2048)
		noError(t, err)
		byMine := func(input []byte) []byte {
			sum := sha256.Sum256(input)
			sig, _ := rsa.SignPKCS1v15(rand.Reader, mine, crypto.SHA256, sum[:])
			return sig
		}
		jwk := map[string]any{"kty": "RSA", "n": encode64(mine.N.Bytes()), "e": "AQAB"}
		for _, with := range []map[string]any{
			{"kid": header["kid"]}, {"jwk": jwk}, {"jwk": jwk, "kid": header["kid"]}, {"jku": "http://127.0.0.1:1/keys"}, {"x5u": "http://127.0.0.1:1/cert"}, {"x5c": []string{encode64(mine.N.Bytes())}},
			{"kid": "../../../../dev/null"}, {"kid": "' OR 1=1 --"}, {"kid": "http://127.0.0.1:1/"}, {"kid": ""}, {"kid": 7}, {},
		} {
			for _, alg := range []string{"RS256", "PS256", "RS512", "ES256"} {
				forged[fmt.Sprintf("%s %.60v", alg, with)] = forge(t, changed(with, "alg", alg, "typ", "JWT"), claims, byMine)
			}
		}
		for name, key := range publicEncodings(t, s.key) {
			forged["HS256 with the public key as "+name] = forge(t, changed(header, "alg", "HS256"), claims, hmacWith(sha256.New, key))
			forged["HS512 with the public key as "+name] = forge(t, changed(header, "alg", "HS512"), claims, hmacWith(sha512.New, key))
		}
		for name, token := range forged {
			if got := s.as(token); got.StatusCode != http.StatusUnauthorized || strings.Contains(got.Text, "ada") {
				t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
			}
		}
		wantStatus(t, "the genuine one afterwards", s.as(good), http.StatusOK)
		// What an honest holder of the secret signs again says nothing new.
		again := forge(t, hs, changed(claims, "groups", []string{"admin"}, "preferred_username", "keeper"), bySecret)
		if got := s.visitor().do("GET", "/api/admin/users", "", "", "Cookie", "cairn_session="+again); got.StatusCode == http.StatusOK {
			t.Error("groups of the token opened the administration")
		}
	})
}

// publicEncodings are the forms in which somebody could use the public key as
// an HMAC key; none without a key.
func publicEncodings(t *testing.T, file string) map[string][]byte {
	t.Helper()
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	noError(t, err)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	noError(t, err)
	public := &key.(*rsa.PrivateKey).PublicKey
	pkix, err := x509.MarshalPKIXPublicKey(public)
	noError(t, err)
	pkcs1 := x509.MarshalPKCS1PublicKey(public)
	spki := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})
	return map[string][]byte{
		"PEM": spki, "PEM without line break": []byte(strings.TrimSpace(string(spki))), "PKCS1 PEM": pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}),
		"DER": pkix, "PKCS1 DER": pkcs1, "n": public.N.Bytes(), "n in base64url": []byte(encode64(public.N.Bytes())), "JWK": []byte(`{"kty":"RSA","n":"` + encode64(public.N.Bytes()) + `","e":"AQAB"}`),
	}
}

// Attack 72: cookies in any number and shape neither break the request nor hide
// the genuine one.
func TestSessionIsFoundAmongManyCookies(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("ada")
		good := s.signedIn("ada").cookie("cairn_session")
		var many, fakes strings.Builder
		for i := range 300 {
			fmt.Fprintf(&many, "c%d=%d; ", i, i)
		}
		for i := range 60 {
			fmt.Fprintf(&fakes, "cairn_session=e30.%d.x; ", i)
		}
		for name, c := range map[string]struct {
			header string
			want   int
		}{
			"300 others": {many.String() + "cairn_session=" + good, 200}, "after a planted one": {"cairn_session=x; cairn_session=" + good, 200}, "before a planted one": {"cairn_session=" + good + "; cairn_session=x", 200},
			"after 60 planted ones": {fakes.String() + "cairn_session=" + good, 200}, "huge": {"cairn_session=" + strings.Repeat("a", 20_000), 401}, "binary": {"cairn_session=\xff\xfe\x01", 401},
			"blank": {"cairn_session=", 401}, "no name": {"=" + good, 401}, "quoted": {`cairn_session="x"`, 401}, "dots": {"cairn_session=" + strings.Repeat(".", 15_000), 401},
		} {
			if got := exchangeBytes(t, s, "GET /api/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: "+c.header+"\r\n\r\n"); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.want)) && !(c.want == 401 && strings.HasPrefix(got, "HTTP/1.1 400")) {
				t.Errorf("%s: %.60q", name, got)
			}
		}
	})
}

// revoked reports whether the status list says that a session token is revoked: what
// applications that verify cookies on their own go by.
func (s *service) revoked(token string) bool {
	s.t.Helper()
	bit, answer := statusBit(s.t, s.visitor(), token)
	if bit < 0 {
		s.t.Fatalf("status list: %d %s", answer.StatusCode, answer.Text)
	}
	return bit == 1
}

// Attacks 73 to 75: whatever takes an account's standing takes all its open
// sessions with it, here and on the status list, at once, and nothing gives
// them back.
func TestEndedSessionStaysEnded(t *testing.T) {
	bothInstallations(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		keeper := s.signedIn("keeper")
		for i, c := range []struct {
			name string
			end  func(b *browser, handle string) response
			own  bool // the browser that asks stays signed in
		}{
			{"suspension", func(_ *browser, h string) response { return keeper.api("POST", "/api/admin/users/"+h+"/suspend", nil) }, false},
			{"deletion", func(_ *browser, h string) response { return keeper.api("DELETE", "/api/admin/users/"+h, nil) }, false},
			{"own deletion", func(b *browser, _ string) response {
				return b.api("DELETE", "/api/me", map[string]string{"password": password})
			}, false},
			{"reset", func(_ *browser, h string) response {
				return s.visitor().reset(h, keeper.resetCode(h), password+" reset")
			}, false},
			{"password change", func(b *browser, _ string) response {
				return b.api("PUT", "/api/me/password", map[string]string{"current_password": password, "new_password": password + " changed"})
			}, true},
			{"end others", func(b *browser, _ string) response { return b.api("POST", "/api/me/sessions/end-others", nil) }, true},
		} {
			handle := fmt.Sprintf("user%d", i)
			s.addUser(handle)
			own, other := s.signedIn(handle), s.signedIn(handle)
			ownToken, otherToken := own.cookie("cairn_session"), other.cookie("cairn_session")
			if s.revoked(ownToken) || s.revoked(otherToken) {
				t.Fatalf("%s: revoked before", c.name)
			}
			if got := c.end(own, handle); got.StatusCode/100 != 2 {
				t.Fatalf("%s: %d %s", c.name, got.StatusCode, got.Text)
			}
			if c.own {
				ownToken = own.cookie("cairn_session") // a new password brings a new one
			}
			if c.name == "suspension" {
				needStatus(t, "unsuspend", keeper.api("POST", "/api/admin/users/"+handle+"/unsuspend", nil), http.StatusOK)
			}
			wantProblem(t, c.name+", other session", s.as(otherToken), http.StatusUnauthorized, "not_authenticated")
			if !s.revoked(otherToken) || s.revoked(ownToken) == c.own || (s.as(ownToken).StatusCode == http.StatusOK) != c.own {
				t.Errorf("%s: own session %d, on the list: own %v, other %v", c.name, s.as(ownToken).StatusCode, s.revoked(ownToken), s.revoked(otherToken))
			}
		}
		if s.revoked(keeper.cookie("cairn_session")) {
			t.Error("a bystander's session is on the list")
		}
	})
}

// Attack 74: what a suspended member has given out is worth nothing, but for
// the time after.
func TestSuspensionEndsWhatWasGivenOut(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		s.addUser("ada", "activity")
		keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
		invite, reset := ada.invite(), keeper.resetCode("ada")
		needStatus(t, "suspend", keeper.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": "a word with you"}), http.StatusOK)
		wantProblem(t, "the reset code from before", s.visitor().reset("ada", reset, password+"!"), http.StatusBadRequest, "invalid_reset_code")
		wantProblem(t, "the invite from before", s.visitor().register(invite, "grace"), http.StatusBadRequest, "invalid_invite")
		got := s.visitor().login("ada", password)
		wantProblem(t, "sign-in", got, http.StatusForbidden, "account_suspended")
		if strings.Contains(got.Text, "a word") || got.Header.Get("Set-Cookie") != "" {
			t.Errorf("sign-in: %s", got.Text)
		}
		if page := s.visitor().postForm("/login/", map[string][]string{"handle": {"ada"}, "password": {password}}); page.StatusCode != http.StatusForbidden || page.Header.Get("Set-Cookie") != "" {
			t.Errorf("sign-in page: %d", page.StatusCode)
		}
		if page := ada.get("/account/"); page.StatusCode != http.StatusSeeOther || page.Header.Get("Location") != "/login/" {
			t.Errorf("account page: %d", page.StatusCode)
		}
		for _, reason := range []string{strings.Repeat("x", 201), "a\nb", "a\u202eb"} {
			got := keeper.api("POST", "/api/admin/users/ada/suspend", map[string]string{"reason": reason})
			wantProblem(t, "reason", got, http.StatusBadRequest, "invalid_text")
		}
		detail := keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)
		if detail["suspended"] != true || detail["suspend_reason"] != "a word with you" || len(detail["sessions"].([]any)) != 0 {
			t.Errorf("ada: %v", detail)
		}
		keeper.api("POST", "/api/admin/users/ada/unsuspend", nil)
		wantStatus(t, "after the suspension", s.visitor().login("ada", password), http.StatusOK)
	})
}

// Attacks 58 and 75: who is deleted is gone from every list, and nobody else
// ever gets the handle or the sub.
func TestDeletedMemberIsGone(t *testing.T) {
	oneInstallation(t, func(t *testing.T, s *service) {
		s.addUser("keeper", "admin")
		sub := s.addUser("ada").Sub
		keeper, ada := s.signedIn("keeper"), s.signedIn("ada")
		ada.api("PATCH", "/api/me", map[string]string{"display_name": "Ada Lovelace", "email": "ada@example.org"})
		invite := ada.invite()
		wantProblem(t, "with a wrong password", ada.api("DELETE", "/api/me", map[string]string{"password": "wrong"}), http.StatusUnauthorized, "invalid_credentials")
		if got := ada.api("DELETE", "/api/me", map[string]string{"password": password}); got.StatusCode != http.StatusNoContent || got.Text != "" || ada.cookie("cairn_session") != "" {
			t.Errorf("delete: %d %q", got.StatusCode, got.Text)
		}
		for _, path := range []string{"/api/admin/users", "/api/admin/users?query=lovelace", "/api/admin/users?query=ada@example", "/admin/"} {
			if text := keeper.get(path).Text; strings.Contains(text, "Lovelace") || strings.Contains(text, "ada@") || strings.Contains(text, sub) {
				t.Errorf("%s still shows her", path)
			}
		}
		if audit := keeper.get("/api/admin/audit").Text; strings.Contains(audit, "Lovelace") || strings.Contains(audit, "ada@") {
			t.Error("the audit log has her name or address")
		}
		wantProblem(t, "her page", keeper.api("GET", "/api/admin/users/ada", nil), http.StatusNotFound, "user_not_found")
		wantProblem(t, "her invite", s.visitor().register(invite, "grace"), http.StatusBadRequest, "invalid_invite")
		wantProblem(t, "her handle", s.visitor().register(keeper.invite(), "ADA"), http.StatusConflict, "handle_taken")
		wantProblem(t, "her sign-in", s.visitor().login("ada", password), http.StatusUnauthorized, "invalid_credentials")
		wantProblem(t, "again", ada.api("DELETE", "/api/me", map[string]string{"password": password}), http.StatusUnauthorized, "not_authenticated")
	})
}

// A user has at most 100 live sessions: the sign-in that would make one more ends the
// oldest, here and on the status list. Lists of them come in pages.
func TestOldestOfTooManySessionsEnds(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var later atomic.Int64 // each sign-in is one second after the one before
		s := startService(t, serviceOptions{
			Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn },
			Now: func() time.Time { return time.Now().Add(time.Duration(later.Load()) * time.Second) },
		})
		s.addUser("ada")
		s.addUser("keeper", account.FlagAdmin)
		keeper := s.signedIn("keeper")
		browsers := make([]*browser, 102)
		for i := range browsers {
			later.Add(1)
			browsers[i] = s.browser()
			browsers[i].signIn("ada")
		}
		for i, want := range map[int]int{0: 401, 1: 401, 2: 200, 101: 200} {
			if got := browsers[i].api("GET", "/api/me", nil).StatusCode; got != want {
				t.Errorf("session %d: %d, want %d", i, got, want)
			}
		}
		for i, want := range []bool{true, true, false} {
			if got := s.revoked(browsers[i].cookie("cairn_session")); got != want {
				t.Errorf("session %d on the status list: %t", i, got)
			}
		}

		asker := browsers[50]
		list := needStatus(t, "sessions", asker.api("GET", "/api/me/sessions", nil), http.StatusOK).JSON(t)["sessions"].([]any)
		seen, last := map[string]bool{}, "9999"
		for _, e := range list {
			m := e.(map[string]any)
			if at := m["created_at"].(string); at > last {
				t.Errorf("%s comes after %s", at, last)
			} else {
				last = at
			}
			seen[m["id"].(string)] = true
		}
		if len(seen) != 100 {
			t.Errorf("%d sessions", len(seen))
		}

		rows := func(b *browser, path string) (n int, text string) {
			text = b.get(path).Text
			return strings.Count(text, `data-session="`), text
		}
		for name, c := range map[string]struct {
			b      *browser
			path   string
			latest int
		}{
			"the account page":  {asker, "/account/devices", 21}, // its own, which is older, too
			"one of the latest": {browsers[101], "/account/devices", 20}, "the administrator's page": {keeper, "/admin/users/ada", 20},
		} {
			n, text := rows(c.b, c.path)
			if all := fmt.Sprintf(`href="%s?sessions=all#sessions"`, c.path); n != c.latest || !strings.Contains(text, all) {
				t.Errorf("%s: %d sessions, want %d and a link to all", name, n, c.latest)
			}
			if n, text = rows(c.b, c.path+"?sessions=all"); n != 100 || strings.Contains(text, "sessions=all") {
				t.Errorf("%s, all of them: %d", name, n)
			}
		}
		if n := len(keeper.api("GET", "/api/admin/users/ada", nil).JSON(t)["sessions"].([]any)); n != 100 {
			t.Errorf("the administrator is told of %d sessions", n)
		}
		if n := len(asker.api("GET", "/api/me/export", nil).JSON(t)["sessions"].([]any)); n != 100 {
			t.Errorf("the export has %d sessions", n)
		}
	})
}

func TestSessionEndOfTheOperator(t *testing.T) {
	database := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, database)})
	s.addUser("ada")
	s.addUser("bob")
	browsers := []*browser{s.browser(), s.browser(), s.browser()}
	for _, b := range browsers {
		b.signIn("ada")
	}
	cairn := func(want int, args ...string) string {
		t.Helper()
		out, errs := cairn(t, want, append(args, "--database", database)...)
		return out + errs
	}
	alive := func(want ...bool) {
		t.Helper()
		for i, b := range browsers {
			if got := b.api("GET", "/api/me", nil).StatusCode == http.StatusOK; got != want[i] {
				t.Errorf("browser %d: signed in %t", i, got)
			}
		}
	}
	id := func(b *browser) string { return jwtPayload(t, b.cookie("cairn_session"))["sid"].(string) }
	ids := strings.Fields(cairn(exitDone, "session", "list", "ada", "-q"))
	if len(ids) != 3 || !slices.Contains(ids, id(browsers[0])) {
		t.Fatalf("%q", ids)
	}
	const unknown = "6a0e9b7e-0000-4000-8000-000000000000"
	for _, wrong := range [][]string{{"ada", id(browsers[0]), unknown}, {"ada", id(browsers[0]), "x"}, {"bob", id(browsers[0])}} {
		if got := cairn(exitFailed, append([]string{"session", "end"}, wrong...)...); !strings.Contains(got, "nothing was changed") {
			t.Errorf("%v: %s", wrong, got)
		}
	}
	alive(true, true, true)
	if got := cairn(exitDone, "session", "end", "ada", id(browsers[0]), id(browsers[1]), id(browsers[0])); !strings.Contains(got, "2") {
		t.Errorf("%s", got)
	}
	alive(false, false, true)
}

// Another process that holds the database (a backup, a command) keeps nobody
// waiting who only reads: that a session was seen is written beside the requests, and
// at the latest when the service stops.
func TestVisitsAreWrittenBesideTheRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cairn.db")
	st := storetest.Open(t, path)
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=20000")
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	t.Run("service", func(t *testing.T) { // which has stopped when it returns
		s := startService(t, serviceOptions{Store: st})
		s.addUser("ada")
		b := s.signedIn("ada")
		other, err := db.Conn(t.Context())
		noError(t, err)
		for _, query := range []string{"UPDATE sessions SET last_seen_at = last_seen_at - 7200", "BEGIN IMMEDIATE"} {
			if _, err := other.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		b.client.Timeout = 9 * time.Second // less than a write waits for the lock
		for range 3 {
			wantStatus(t, "while the database is held", b.api("GET", "/api/me", nil), http.StatusOK)
		}
		// What is not written yet is shown.
		seen, err := time.Parse(time.RFC3339, b.api("GET", "/api/me/sessions", nil).JSON(t)["sessions"].([]any)[0].(map[string]any)["last_seen_at"].(string))
		if err != nil || time.Since(seen) > time.Hour {
			t.Errorf("last seen %v (%v)", seen, err)
		}
		if _, err := other.ExecContext(t.Context(), "COMMIT"); err != nil { // held until here
			t.Fatal(err)
		}
		if log := s.log.String(); strings.Contains(log, `"level":"WARN"`) && strings.Contains(log, "visit") {
			t.Errorf("a visit was not written: %s", log)
		}
	})
	var fresh int
	err = db.QueryRowContext(context.Background(), "SELECT count(*) FROM sessions WHERE last_seen_at > ?", time.Now().Add(-time.Hour).Unix()).Scan(&fresh)
	if err != nil || fresh != 1 {
		t.Errorf("%d visits are written after the stop (%v)", fresh, err)
	}
}

// What a relying application does with the cookie, in both schemes, and across
// the change from one to the other.
func TestSessionCookieIsVerifiableByOtherApplications(t *testing.T) {
	old := startService(t, serviceOptions{HS256: true})
	u := old.addUser("ada", account.FlagActivity)
	b := old.browser()
	b.signIn("ada")
	hs := b.cookie("cairn_session")
	check := func(v *session.Verifier, token, alg string) {
		t.Helper()
		got, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Fatalf("%s: %v", alg, err)
		}
		if got.Subject != u.Sub || got.Handle != "ada" || got.Name != "Ada" || !slices.Equal(got.Groups, []string{"activity"}) || got.Status == nil {
			t.Errorf("%s: claims %+v", alg, got)
		}
		if life := got.ExpiresAt.Sub(got.IssuedAt); life != 30*24*time.Hour {
			t.Errorf("%s: lives %s", alg, life)
		}
		if len(token) > 4000 || jwtHeader(t, token)["alg"] != alg {
			t.Errorf("%s: %d bytes, header %v", alg, len(token), jwtHeader(t, token))
		}
	}
	check(&session.Verifier{Issuer: old.URL, Secret: old.secret}, hs, "HS256")

	// The same installation, now with a key.
	rs := startService(t, serviceOptions{Store: old.store})
	fresh := rs.browser()
	fresh.signIn("ada")
	keys := session.NewRemoteKeySet(rs.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	check(&session.Verifier{Issuer: rs.URL, Keys: keys}, fresh.cookie("cairn_session"), "RS256")
	both := &session.Verifier{Issuer: old.URL, Secret: old.secret, Keys: keys}
	check(both, hs, "HS256")
}
