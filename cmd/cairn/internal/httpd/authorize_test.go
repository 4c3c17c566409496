package httpd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Attacks 5 to 15: before the redirect URI is proven the browser gets a page
// and never a Location.
func TestUnprovenRedirectURIGetsNoAnswer(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	urls := map[string]string{}
	for _, uri := range []string{
		"https://evil.example/callback", "https://app.example.org.evil.example/callback", "https://evil.app.example.org/callback", "https://app.example.org/callback/",
		"https://app.example.org/callback/../x", "https://app.example.org/%63allback", "https://app.example.org/..;/callback", "https://app.example.org//callback",
		"https://rp@app.example.org/callback", "https://app.example.org@evil.example/callback", "https://app.example.org\\@evil.example/callback",
		"https://app.example.org/callback#", "https://app.example.org/callback#x", "https://app.example.org/callback?code=attacker", "HTTPS://app.example.org/callback",
		"https://APP.example.org/callback", "http://app.example.org/callback", "https://app.example.org:8443/callback", "javascript:alert(1)", "data:text/html,x",
		"https://app.example.org/callback ", "https://app.example.org/callback\t", " https://app.example.org/callback", "https://app.example.org/callback\x00",
	} {
		urls[uri] = rp.authURL("redirect_uri", uri)
	}
	urls["missing"] = rp.authURL("redirect_uri", "")
	urls["twice"] = rp.authURL() + "&redirect_uri=" + url.QueryEscape("https://evil.example/")
	urls["unknown client"] = rp.authURL("client_id", "nobody")
	urls["no client"] = rp.authURL("client_id", "")
	urls["odd client"] = rp.authURL("client_id", "app\x00")
	urls["two clients"] = rp.authURL() + "&client_id=evil"
	urls["too long"] = rp.authURL("x", strings.Repeat("a", 5000))
	for name, u := range urls {
		got := b.get(u)
		if got.StatusCode != http.StatusBadRequest || got.Header.Get("Location") != "" || pageName(t, got.Text) != "error" {
			t.Errorf("%s: %d, Location %q, page %q", name, got.StatusCode, got.Header.Get("Location"), pageName(t, got.Text))
		}
		has(t, fmt.Sprintf("%s: the page does not show the request id", name), got.Text, got.Header.Get("X-Request-Id"))
	}
}

// Attack 14: the port of a loopback address is free, nothing else is.
func TestLoopbackRedirectOpensThePortAlone(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	s.addClient("native", func(c *provider.Client) {
		c.AuthMethod = provider.AuthNone
		c.RedirectURIs = []string{"http://127.0.0.1:9911/cb", "http://[::1]/cb?fixed=1", "http://localhost:7000/cb", "org.example.native:/callback"}
	})
	rp := s.relyingParty("native", "")
	b := s.signedIn("ada")
	for _, uri := range []string{"http://127.0.0.1:9911/cb", "http://127.0.0.1:51004/cb", "http://127.0.0.1/cb", "http://[::1]:51004/cb?fixed=1", "http://localhost:7000/cb", "org.example.native:/callback"} {
		got := b.follow(b.get(rp.authURL("redirect_uri", uri)), "ada")
		location := got.Header.Get("Location")
		if !strings.HasPrefix(location, uri) || !strings.Contains(location, "code=") {
			t.Errorf("%s: %d %s", uri, got.StatusCode, location)
			continue
		}
		u, err := url.Parse(location)
		noError(t, err)
		form := rp.codeForm(u.Query().Get("code"))
		form.Set("redirect_uri", uri)
		wantStatus(t, uri+": exchange", s.tokenRequest("native", "", form), http.StatusOK)
	}
	for _, uri := range []string{
		"http://localhost:51004/cb", "http://localhost/cb", "http://[::1]:9911/cb", "http://127.0.0.2:9911/cb", "http://0.0.0.0:9911/cb", "http://2130706433:9911/cb", "http://0177.0.0.1:9911/cb",
		"http://127.1:9911/cb", "http://[::ffff:127.0.0.1]:9911/cb", "http://[0:0:0:0:0:0:0:1]:80/cb?fixed=1", "http://[::1%25lo]:80/cb?fixed=1", "http://evil@127.0.0.1:51004/cb", "http://127.0.0.1:51004@evil.example/cb",
		"http://127.0.0.1:51004/cb/", "http://127.0.0.1:51004/other", "http://127.0.0.1:51004/cb?x=1", "http://127.0.0.1:51004/cb#", "http://127.0.0.1:51004/%63b", "https://127.0.0.1:9911/cb",
		"http://127.0.0.1.evil.example:9911/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+1/cb", "http://127.0.0.1:51004\\@evil.example/cb",
		"http://127.0.0.1:51004", "HTTP://127.0.0.1:9911/cb", "http://[::1]:51004/cb", "http://[::1]:51004/cb?fixed=2", "http://[::1]:51004/cb?fixed=1&x=1", "org.example.native:/other", "org.example.native://callback", "org.example.native:callback",
	} {
		wantPage(t, uri, b.get(rp.authURL("redirect_uri", uri)), http.StatusBadRequest)
	}
}

// Attacks 5 to 13 by POST, where a browser arrives with the form of any site.
func TestPostedRequestProvesItsRedirectURI(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	good, _ := url.Parse(rp.authURL())
	for name, change := range map[string]func(url.Values){
		"other address":    func(v url.Values) { v.Set("redirect_uri", "https://evil.example/") },
		"none":             func(v url.Values) { v.Del("redirect_uri") },
		"two":              func(v url.Values) { v.Add("redirect_uri", "https://evil.example/") },
		"two, other order": func(v url.Values) { v["redirect_uri"] = []string{"https://evil.example/", callbackOf("app")} },
		"the same twice":   func(v url.Values) { v.Add("redirect_uri", callbackOf("app")) },
		"two clients":      func(v url.Values) { v.Add("client_id", "evil") },
		"array":            func(v url.Values) { v["redirect_uri[]"] = v["redirect_uri"]; v.Del("redirect_uri") },
		"unknown client":   func(v url.Values) { v.Set("client_id", "APP") },
	} {
		form, _ := url.ParseQuery(good.RawQuery)
		change(form)
		wantPage(t, name, b.postForm("/oauth2/authorize", form), http.StatusBadRequest)
		wantPage(t, name+" by GET", b.get("/oauth2/authorize?"+form.Encode()), http.StatusBadRequest)
	}
	empty := b.do("POST", "/oauth2/authorize?"+good.RawQuery, "application/x-www-form-urlencoded", "&")
	wantAnswer(t, "an empty body", answered(t, b.follow(empty, "ada")), "code")
	// Parameters in two places: neither counts.
	wantPage(t, "query and body", b.postForm("/oauth2/authorize?redirect_uri=https://evil.example/", good.Query()), http.StatusBadRequest)
	for name, query := range map[string]string{"semicolon": good.RawQuery + ";redirect_uri=https://evil.example/", "broken escape": good.RawQuery + "&x=%zz"} {
		wantPage(t, name, b.get("/oauth2/authorize?"+query), http.StatusBadRequest)
	}
	got := b.do("POST", "/oauth2/authorize", "application/x-www-form-urlencoded", strings.Repeat("a", 100<<10), "Accept", "text/html")
	if got.StatusCode < 400 || got.StatusCode > 499 || got.Header.Get("Location") != "" {
		t.Errorf("100 KiB: %d", got.StatusCode)
	}
}

// Attacks 20 and 25: every answer names its issuer and is neither cached nor
// posted on, with the registered query kept.
func TestAnswerNamesItsIssuer(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	const uri = "https://app.example.org/cb?tenant=7&x=%20y"
	rp := s.app("app", func(c *provider.Client) { c.RedirectURIs = []string{uri} })
	rp.config.RedirectURL = uri
	b := s.browser()
	for name, change := range map[string][]string{
		"success": nil, "success without state": {"state", ""}, "nobody": {"prompt", "none", "client_id", "app"}, "bad request": {"response_type", "token"}, "bad request without state": {"response_type", "token", "state", ""},
		"form_post": {"response_mode", "form_post"}, "form_post error": {"response_mode", "form_post", "max_age", "x"},
		"fragment": {"response_mode", "fragment"}, "fragment error": {"response_mode", "fragment", "max_age", "x"},
	} {
		if name == "nobody" {
			b = s.browser()
		}
		got := b.follow(b.get(rp.authURL(change...)), "ada")
		target, answer := answerOf(t, got)
		form, begin := strings.HasPrefix(name, "form_post"), uri+"&"
		if strings.HasPrefix(name, "fragment") {
			begin = uri + "#"
		}
		if answer.Get("iss") != s.URL || got.Header.Get("Cache-Control") != "no-store" || len(answer["iss"]) != 1 {
			t.Errorf("%s: %v, Cache-Control %q", name, answer, got.Header.Get("Cache-Control"))
		}
		if form && (target != uri || got.Header.Get("Location") != "") || !form &&
			(got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(got.Header.Get("Location"), begin)) {
			t.Errorf("%s: %d to %s", name, got.StatusCode, got.Header.Get("Location"))
		}
		if strings.Contains(name, "without state") == answer.Has("state") {
			t.Errorf("%s: state %q", name, answer["state"])
		}
		for key := range answer {
			has(t, fmt.Sprintf("%s: unexpected parameter %s", name, key),
				" tenant x iss state code error error_description ", " "+key+" ")
		}
	}
}

// state is the client's: returned byte by byte, or not at all when it was not
// sent (openid-client and Auth.js send none with PKCE).
func TestStateComesBackAsItWas(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	for _, state := range []string{"/", "x", strings.Repeat("s", 1200), "ünïcödé \u2028", "a b+c%20d&e=f", "\r\nSet-Cookie: a=b", "<script>alert(1)</script>"} {
		got := b.authorize(rp.authURL("state", state), "ada")
		if got.Get("state") != state || got.Get("code") == "" {
			t.Errorf("state %.40q came back as %.40q", state, got.Get("state"))
		}
	}
	for _, more := range []string{"", "&state="} {
		got := b.authorize(rp.authURL("state", "")+more, "ada")
		if got.Has("state") || got.Get("code") == "" {
			t.Errorf("without state: %v", got)
		}
	}
}

// Beside those of the golden file errors.json: nothing but a code is given out, and a
// prompt that contradicts itself is an error.
func TestUnsupportedRequestIsRefused(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.signedIn("ada")
	for name, c := range map[string][]string{
		"id_token": {"response_type", "id_token", "unsupported_response_type"}, "hybrid": {"response_type", "code id_token", "unsupported_response_type"},
		"none": {"response_type", "none", "unsupported_response_type"}, "unknown mode": {"response_mode", "x", "unsupported_response_mode"}, "hint": {"id_token_hint", "a.b.c", "invalid_request"},
	} {
		got := b.authorize(rp.authURL(c[0], c[1]), "ada")
		wantAnswer(t, name, got, c[2])
		if d := got.Get("error_description"); got.Get("state") != rp.state || got.Get("iss") != s.URL || d == "" || strings.ContainsAny(d, "\"\\") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Attack 21: silence means silence, whatever is missing.
func TestSilentRequestShowsNoPage(t *testing.T) {
	s, rp := startApp(t, nil)
	for _, mode := range []string{"query", "fragment", "form_post"} {
		b := s.browser()
		silent := func(change ...string) url.Values {
			_, answer := answerOf(t, b.get(rp.authURL(append([]string{"prompt", "none", "response_mode", mode}, change...)...)))
			return answer
		}
		if got := silent(); got.Get("error") != "login_required" {
			t.Errorf("nobody: %v", got)
		}
		if got := silent("id_token_hint", "a.b.c"); got.Get("error") == "" {
			t.Errorf("nobody, bad hint: %v", got)
		}
		b.signIn("ada")
		if mode == "query" {
			if got := silent(); got.Get("error") != "consent_required" {
				t.Errorf("no consent: %v", got)
			}
			b.authorize(rp.authURL("scope", "openid"), "ada")
		}
		if got := silent("scope", "openid"); got.Get("code") == "" {
			t.Errorf("all is there: %v", got)
		}
		if got := silent("scope", "openid address phone"); got.Get("error") != "consent_required" {
			t.Errorf("more scopes than allowed: %v", got)
		}
		if got := silent("max_age", "0"); got.Get("error") != "login_required" {
			t.Errorf("max_age=0: %v", got)
		}
		for _, prompts := range []string{"none login", "none consent", "none none", "none bogus", "NONE"} {
			if got := silent("prompt", prompts); got.Get("error") != "invalid_request" {
				t.Errorf("prompt=%s: %v", prompts, got)
			}
		}
	}
}

// Attack 22: silent single sign-on in spite of prompt=login or max_age.
func TestFreshSignInIsAskedFor(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada") // signed in, with consent
	for _, change := range [][]string{{"prompt", "login"}, {"prompt", "select_account"}, {"max_age", "0"}} {
		got := b.get(rp.authURL(change...))
		login := got.Header.Get("Location")
		if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(login, "/login/?") {
			t.Fatalf("%v: %d %s", change, got.StatusCode, login)
		}
		if page := b.get(login); change[1] != "select_account" && strings.Contains(page.Text, "login-continue") {
			t.Errorf("%v: the page offers to go on without a sign-in", change)
		}
		// Going back without signing in does not help.
		sealed, _ := url.Parse(login)
		back := b.get("/oauth2/authorize?" + url.Values{"continue": {sealed.Query().Get("continue")}}.Encode())
		if !strings.HasPrefix(back.Header.Get("Location"), "/login/?") {
			t.Errorf("%v: went on without a sign-in to %s", change, back.Header.Get("Location"))
		}
		if answer := b.authorize(rp.authURL(change...), "ada"); answer.Get("code") == "" {
			t.Errorf("%v: no code after the sign-in: %v", change, answer)
		}
	}
}

// Attack 22: nothing a request can say stands for a sign-in.
func TestForgedProofOfSignIn(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada", "eve")
	rp := s.app("app", nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	for _, more := range []string{"&reauthenticated=1", "&login=done", "&auth_time=9999999999", "&a=0&p=x", "&returned=true", "&decision=allow", "&p="} {
		if c := continuationOf(t, b.get(rp.authURL("prompt", "login")+more), "/login/"); c == "" {
			t.Errorf("%s: no continuation", more)
		}
	}
	sealed := continuationOf(t, b.get(rp.authURL("prompt", "login")), "/login/")
	body, mac, _ := strings.Cut(sealed, ".")
	plain := continuationOf(t, b.get(rp.authURL("prompt", "login", "state", "another")), "/login/")
	plainBody, plainMAC, _ := strings.Cut(plain, ".")
	for name, forged := range map[string]string{
		"no seal": body + ".", "other seal": body + "." + plainMAC, "other body": plainBody + "." + mac, "changed": "f" + sealed[1:], "cut": sealed[:len(sealed)-1], "longer": sealed + "A",
		"two": sealed + "." + mac, "newline": body + "\n." + mac, "padding": sealed + "=", "empty": ".", "huge": strings.Repeat("A", 13<<10) + "." + mac,
	} {
		wantPage(t, name, b.get("/oauth2/authorize?"+url.Values{"continue": {forged}}.Encode()), http.StatusBadRequest)
		wantPage(t, name+" at consent", b.get("/oauth2/consent?"+url.Values{"continue": {forged}}.Encode()), http.StatusBadRequest)
	}
	// The sealed request itself, with parameters beside it: they do not count.
	if c := continuationOf(t, b.get("/oauth2/authorize?"+url.Values{"continue": {sealed}, "prompt": {"none"},
		"redirect_uri": {"https://evil.example"}}.Encode()), "/login/"); c != sealed {
		t.Error("parameters beside the continuation changed it")
	}
	// A decision on one request does not serve another, nor a sign-in.
	next, _ := url.Parse(b.decide(b.consentPage(rp.authURL("prompt", "consent")), "allow"))
	got := b.get("/oauth2/authorize?" + url.Values{"continue": {sealed}, "decision": {next.Query().Get("decision")}}.Encode())
	continuationOf(t, got, "/login/")
	// Another person's sign-in in this browser is one: the code is hers.
	wantAnswer(t, "signed in as another", b.authorize("/oauth2/authorize?"+url.Values{"continue": {sealed}}.Encode(), "eve"), "code")
}

// max_age and prompt=login by the clock: the ID token tells the new time.
func TestOldSignInDoesNotSatisfyMaxAge(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	db.exec("UPDATE sessions SET auth_time = auth_time - 100, created_at = created_at - 100")
	authTime := func(change ...string) int64 {
		token, err := rp.exchange(b.authorize(rp.authURL(change...), "ada").Get("code"))
		noError(t, err)
		raw := rawIDToken(token)
		at, ok := jwtPayload(t, raw)["auth_time"].(float64)
		if !ok {
			t.Fatal("no auth_time")
		}
		return int64(at)
	}
	old := authTime()
	if got := authTime("max_age", "10000"); got != old || got > time.Now().Unix()-99 {
		t.Errorf("max_age with room: auth_time %d, session of %d", got, old)
	}
	continuationOf(t, b.get(rp.authURL("max_age", "99")), "/login/")
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("max_age", "99", "prompt", "none"))), "login_required")
	if got := authTime("max_age", "99"); got < old+100 {
		t.Errorf("auth_time %d after the new sign-in, %d before", got, old)
	}
}

// A form of another site arrives without the session cookie (SameSite=Lax). The
// request goes on by GET, where the cookie is: nobody who is signed in is sent
// to the sign-in page or told "login_required".
func TestPostedRequestKeepsTheSession(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	b.authorize(rp.authURL(), "ada")
	posted := func(change ...string) response {
		u, _ := url.Parse(rp.authURL(change...))
		return s.browser().postForm("/oauth2/authorize", u.Query(), "Origin", "https://app.example.org", "Sec-Fetch-Site", "cross-site")
	}
	for _, change := range [][]string{nil, {"prompt", "none"}, {"max_age", "1000"}, {"response_mode", "form_post"}} {
		got := posted(change...)
		continuationOf(t, got, "/oauth2/authorize")
		if _, answer := answerOf(t, b.get(got.Header.Get("Location"))); answer.Get("code") == "" || answer.Get("state") != rp.state {
			t.Errorf("%v: %v", change, answer)
		}
	}
	// The detour is no proof of a fresh sign-in, in the same second or later.
	for _, change := range [][]string{{"prompt", "login"}, {"max_age", "0"}, {"prompt", "select_account"}} {
		b.signIn("ada")
		got := posted(change...)
		for range 2 {
			login := b.get(got.Header.Get("Location"))
			sealed := continuationOf(t, login, "/login/")
			continuationOf(t, b.get("/oauth2/authorize?"+url.Values{"continue": {sealed}}.Encode()), "/login/")
		}
		if _, answer := answerOf(t, b.follow(b.get(got.Header.Get("Location")), "ada")); answer.Get("code") == "" {
			t.Errorf("%v: %v", change, answer)
		}
	}
	// Nobody signed in: the detour ends at the sign-in page, once, or in the error.
	fresh := s.browser()
	got := fresh.follow(posted(), "ada")
	if _, answer := answerOf(t, got); answer.Get("code") == "" {
		t.Errorf("signed in on the way: %v", answer)
	} else if got := rp.redeem(answer.Get("code")); got.StatusCode != http.StatusOK {
		t.Errorf("exchange: %d %s", got.StatusCode, got.Text)
	}
	wantAnswer(t, "nobody, silently", answered(t, s.browser().follow(posted("prompt", "none"), "ada")), "login_required")
	// What is wrong is told at once.
	wantAnswer(t, "wrong request", answered(t, posted("response_type", "token")), "unsupported_response_type")
}

// A session may end between its check and the code: then the user has to sign in again, or the application is told.
func TestSessionThatEndsMeanwhileGivesNoCode(t *testing.T) {
	s, db, rp := startDatabaseApp(t, func(c *provider.Client) { c.Trusted = true })
	b := s.signedIn("ada")
	db.exec("CREATE TRIGGER ended BEFORE INSERT ON grants BEGIN SELECT RAISE(IGNORE); END") // as for an ended session
	login := b.get(rp.authURL())
	continuationOf(t, login, "/login/")
	lacks(t, "the page asks to confirm a session that has ended", login.Header.Get("Location"), "fresh=")
	wantAnswer(t, "silently", answered(t, b.get(rp.authURL("prompt", "none"))), "login_required")
	db.exec("DROP TRIGGER ended")
	if _, answer := answerOf(t, b.follow(login, "ada")); answer.Get("code") == "" {
		t.Errorf("after the new sign-in: %v", answer)
	}
}

// The longest request comes back from the sign-in page as it went.
func TestLongRequestComesBackFromTheSignIn(t *testing.T) {
	s, rp := startApp(t, nil)
	base := rp.authURL()
	query := base[strings.Index(base, "?")+1:]
	var more strings.Builder
	for i := 0; len(query)+more.Len() < 4080; i++ {
		more.WriteString("&" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + "=")
	}
	for name, u := range map[string]string{"many parameters": base + more.String(), "long state": rp.authURL("state", strings.Repeat("&", 1200))} {
		if _, answer := answerOf(t, s.browser().follow(s.browser().get(u), "ada")); answer.Get("code") == "" || answer.Get("state") == "" {
			t.Errorf("%s: %v", name, answer)
		}
	}
	wantPage(t, "too long", s.browser().get(base+"&x="+strings.Repeat("x", 4096)), http.StatusBadRequest)
}

// The Form Post Response Mode, for success and for every kind of error: never
// in the URL, escaped, framed by nobody, with state as it came.
func TestFormPost(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	for _, c := range []struct {
		change []string
		want   string
	}{
		{[]string{"prompt", "none"}, "login_required"}, {nil, ""}, {[]string{"response_type", ""}, "invalid_request"}, {[]string{"prompt", "bogus"}, "invalid_request"},
		{[]string{"request", "x"}, "request_not_supported"}, {[]string{"code_challenge_method", "plain"}, "invalid_request"},
		{[]string{"state", `"><script>alert(1)</script>&amp;'` + "ünï \u2028+%41"}, ""}, {[]string{"state", strings.Repeat("s", 1200)}, ""},
	} {
		change := append([]string{"response_mode", "form_post"}, c.change...)
		got := b.follow(b.get(rp.authURL(change...)), "ada")
		target, answer := answerOf(t, got)
		if got.StatusCode != http.StatusOK || target != callbackOf("app") || answer.Get("error") != c.want ||
			(answer.Get("code") == "") != (c.want != "") || answer.Get("iss") != s.URL {
			t.Errorf("%.60q: %d to %s: %v", c.change, got.StatusCode, target, answer)
		}
		state := rp.state
		if len(c.change) > 0 && c.change[0] == "state" {
			state = c.change[1]
		}
		if answer.Get("state") != state || strings.Contains(got.Text, "<script>") {
			t.Errorf("state %.40q came back as %.40q", state, answer.Get("state"))
		}
		csp := got.Header.Get("Content-Security-Policy")
		if got.Header.Get("Cache-Control") != "no-store" || got.Header.Get("X-Frame-Options") != "DENY" ||
			strings.Contains(csp, "unsafe") || strings.Contains(csp, "form-action") {
			t.Errorf("headers %v", got.Header)
		}
	}
	// A form normalizes line ends and replaces what is no character: such a state
	// could not come back as it was, so there is an error, not another state.
	for _, state := range []string{"a\r\nb", "a\nb", "a\x00b", "a\xffb", "a\rb"} {
		_, answer := answerOf(t, b.follow(b.get(rp.authURL("response_mode", "form_post", "state", state)), "ada"))
		if answer.Get("error") != "invalid_request" || answer.Has("state") || answer.Has("code") {
			t.Errorf("state %q: %v", state, answer)
		}
	}
}

// RFC 6749 sections 3.1 and 3.2: a parameter that is given twice is refused,
// at every endpoint, whichever of the two would have been good.
func TestRepeatedParameterIsRefused(t *testing.T) {
	s, rp := startApp(t, nil)
	b, token := s.signedInTokens(rp, "ada")
	for _, more := range []string{
		"response_type=token", "response_type=code", "scope=openid", "state=x", "nonce=x", "prompt=login&prompt=login", "response_mode=query&response_mode=form_post", "code_challenge=x",
		"code_challenge_method=plain", "max_age=1&max_age=100000", "id_token_hint=a&id_token_hint=b", "login_hint=a&login_hint=b", "x=1&x=2", "request_uri=a&request_uri=b", "state=",
	} {
		target, got := answerOf(t, b.get(rp.authURL()+"&"+more))
		if target != callbackOf("app") || got.Get("error") != "invalid_request" || got.Has("code") {
			t.Errorf("authorize, %s: %s %v", more, target, got)
		}
		if name, _, _ := strings.Cut(more, "="); name == "state" && got.Has("state") {
			t.Errorf("one of two states came back: %v", got)
		}
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	for name, extra := range map[string]string{
		"grant_type": "authorization_code", "code": code, "redirect_uri": callbackOf("app"), "code_verifier": rp.verifier, "client_id": "app", "unknown": "1",
	} {
		form := rp.codeForm(code)
		form.Set("client_id", "app")
		form.Set("unknown", "1")
		form.Add(name, extra)
		wantOAuthError(t, "token, two "+name, rp.token(form), http.StatusBadRequest, "invalid_request")
	}
	for _, name := range []string{"code", "refresh_token", "client_secret", "code_verifier"} {
		got := b.do("POST", "/oauth2/token?"+name+"=x", "application/x-www-form-urlencoded", rp.codeForm(code).Encode())
		wantOAuthError(t, "token, "+name+" in the URL", got, http.StatusBadRequest, "invalid_request")
	}
	wantStatus(t, "the code after all that", rp.redeem(code), http.StatusOK)
	form := url.Values{"access_token": {token.AccessToken, token.AccessToken}}
	wantStatus(t, "userinfo, two tokens", b.postForm("/oauth2/userinfo", form), http.StatusBadRequest)
	wantStatus(t, "userinfo, two headers", b.get("/oauth2/userinfo", "Authorization", "Bearer "+token.AccessToken,
		"Authorization", "Bearer "+token.AccessToken), http.StatusBadRequest)
	page := b.get(b.get(rp.authURL("prompt", "consent")).Header.Get("Location"))
	f := pageForm(t, page.Text)
	f.values["decision"] = []string{"deny", "allow"}
	wantPage(t, "consent, two decisions", b.postForm(f.action, f.values), http.StatusBadRequest)
}

// HEAD is GET without a body: it allows nothing, spends nothing, posts nothing.
func TestHeadChangesNothing(t *testing.T) {
	s, db, rp := startDatabaseApp(t, nil)
	secret := rp.config.ClientSecret
	b := s.signedIn("ada")
	consent := b.get(rp.authURL()).Header.Get("Location")
	f := pageForm(t, b.get(consent).Text)
	f.values.Set("decision", "allow")
	for _, path := range []string{f.action + "?" + f.values.Encode(), consent} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode == http.StatusSeeOther || got.Text != "" {
			t.Errorf("HEAD %.40s: %d %q", path, got.StatusCode, got.Text)
		}
	}
	got := b.do("HEAD", f.action, "application/x-www-form-urlencoded", f.values.Encode())
	if got.StatusCode == http.StatusSeeOther || db.count("SELECT count(*) FROM consents") != 0 || db.count("SELECT count(*) FROM grants") != 0 {
		t.Errorf("HEAD on the consent form: %d", got.StatusCode)
	}
	code := b.authorize(rp.authURL(), "ada").Get("code")
	before := db.count("SELECT count(*) FROM grants")
	for _, path := range []string{rp.authURL(), "/oauth2/logout"} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode != http.StatusMethodNotAllowed || db.count("SELECT count(*) FROM grants") != before {
			t.Errorf("HEAD %.40s: %d", path, got.StatusCode)
		}
	}
	form := rp.codeForm(code)
	form.Set("client_id", "app")
	form.Set("client_secret", secret)
	for _, method := range []string{"HEAD", "GET", "PUT", "PATCH", "DELETE", "TRACE"} {
		if got := b.do(method, "/oauth2/token?"+form.Encode(), "application/x-www-form-urlencoded",
			form.Encode()); got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != "POST" {
			t.Errorf("%s on the token endpoint: %d, Allow %q", method, got.StatusCode, got.Header.Get("Allow"))
		}
	}
	access := rp.redeem(code).JSON(t)["access_token"].(string)
	if got := b.do("HEAD", "/oauth2/userinfo", "", "", "Authorization", "Bearer "+access); got.StatusCode != http.StatusOK || got.Text != "" {
		t.Errorf("HEAD on userinfo: %d %q", got.StatusCode, got.Text)
	}
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/jwks.json"} {
		if got := b.do("HEAD", path, "", ""); got.StatusCode != http.StatusOK || got.Text != "" || got.Header.Get("ETag") == "" {
			t.Errorf("HEAD %s: %d", path, got.StatusCode)
		}
	}
}

// Attack 19 in what a header could carry: nothing of a request splits an answer.
func TestParameterBecomesNoHeader(t *testing.T) {
	s, rp := startApp(t, nil)
	b := s.browser()
	const evil = "x\r\nSet-Cookie: planted=1\r\nLocation: https://evil.example/\r\n\r\n<script>"
	for _, name := range []string{"state", "nonce", "login_hint", "ui_locales", "display", "acr_values", "scope", "prompt", "response_mode", "response_type", "client_id", "redirect_uri", "max_age", "continue", "decision", "handle"} {
		for _, value := range []string{evil, "openid " + evil, strings.ReplaceAll(evil, "\r", "")} {
			got := b.get(rp.authURL(name, value))
			if len(got.Header.Values("Set-Cookie")) > 0 || strings.Contains(got.Header.Get("Location"), "\n") ||
				len(got.Header.Values("Location")) > 1 || strings.HasPrefix(got.Header.Get("Location"),
				"https://evil") {
				t.Errorf("%s: %v", name, got.Header)
			}
			if got.StatusCode >= 500 || strings.Contains(got.Text, "<script>") && !strings.Contains(got.Text, "<script src") {
				t.Errorf("%s: %d %.200s", name, got.StatusCode, got.Text)
			}
		}
	}
	raw := exchangeBytes(t, s, "GET "+strings.TrimPrefix(rp.authURL("state", evil, "prompt", "none"), s.URL)+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.Contains(raw, "\nSet-Cookie: planted") || !strings.Contains(raw, "error=login_required") {
		t.Errorf("%.400s", raw)
	}
}

// Fact S21: what one of the two databases refuses to keep (NUL, broken UTF-8)
// or takes for a pattern is a refusal at every door, never a 5xx, and a nonce comes back.
func TestUnusualTextIsNoServerError(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		s := startService(t, serviceOptions{Store: st}, "ada")
		rp := s.app("app", func(c *provider.Client) { c.Trusted = true })
		secret := rp.config.ClientSecret
		b, token := s.signedInTokens(rp, "ada")
		odd := []string{"\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", "%", "_", "'", `"`, "\\", "' OR 1=1 --", "\u2028", "\ufeff", strings.Repeat("ü", 400), "$1", "?", "{}", "null", "\r\n"}
		check := func(where, text string, got response) {
			t.Helper()
			if got.StatusCode >= 500 {
				t.Errorf("%s = %q: %d %.200s", where, text, got.StatusCode, got.Text)
			}
		}
		for _, text := range odd {
			for _, name := range []string{"client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "prompt", "max_age", "id_token_hint", "login_hint", "ui_locales", "acr_values", "claims", "display", "response_mode", "continue", text} {
				check("authorize, "+name, text, b.get(rp.authURL(name, text)))
			}
			for _, name := range []string{"code", "redirect_uri", "code_verifier", "client_id", "client_secret", "scope", "refresh_token", "grant_type", "audience", "resource", text} {
				for _, grant := range []string{"authorization_code", "refresh_token"} {
					form := rp.codeForm("x.y")
					form.Set("grant_type", grant)
					form.Set("refresh_token", "x.y")
					form.Set(name, text)
					check("token, "+name, text, rp.token(form))
				}
			}
			check("basic id", text, s.tokenRequest(text, secret, rp.codeForm("x")))
			check("basic secret", text, s.tokenRequest("app", text, rp.codeForm("x")))
			check("userinfo", text, s.browser().postForm("/oauth2/userinfo", url.Values{"access_token": {text}}))
			check("userinfo, beside", text, s.browser().postForm("/oauth2/userinfo", url.Values{"access_token": {token.AccessToken}, text: {text}}))
			check("logo", text, s.browser().get("/logo/"+url.PathEscape(text)+".png"))
			for _, name := range []string{"continue", "token", "decision"} {
				check("consent, "+name, text, b.postForm("/oauth2/consent", url.Values{name: {text}}))
			}
			// What a client sends as nonce is its own business, and comes back.
			if _, answer := answerOf(t, b.get(rp.authURL("nonce", text))); answer.Get("code") != "" {
				got := rp.redeem(answer.Get("code"))
				check("exchange, nonce", text, got)
				raw, _ := got.JSON(t)["id_token"].(string)
				if nonce := jwtPayload(t, raw)["nonce"]; utf8.ValidString(text) && nonce != text { // JSON has no other
					t.Errorf("nonce %q came back as %q", text, nonce)
				}
			}
		}
		lacks(t, "the log calls a stranger's text an error of ours", s.log.String(), `"level":"ERROR"`)
		wantStatus(t, "a bystander's refresh", rp.refresh(token.RefreshToken), 200)
	})
}

// Attack 18: nothing that a request names is ever fetched.
func TestNothingThatARequestNamesIsFetched(t *testing.T) {
	s, rp := startApp(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	defer func() { _ = l.Close() }()
	var hits atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	target := "http://" + l.Addr().String() + "/x"
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"redirect_uri":"https://evil.example","scope":"openid"}`)) + "."
	b := s.signedIn("ada")
	for _, c := range []struct{ name, value, want string }{
		{"request_uri", target, "request_uri_not_supported"}, {"request_uri", "", "request_uri_not_supported"},
		{"request", unsigned, "request_not_supported"}, {"request", "", "request_not_supported"},
		{"registration", `{"jwks_uri":"` + target + `"}`, "registration_not_supported"},
		{"jwks_uri", target, ""}, {"sector_identifier_uri", target, ""}, {"client_metadata_uri", target, ""}, {"logo_uri", target, ""}, {"claims", `{"userinfo":{"name":null}}`, ""},
	} {
		target, got := answerOf(t, b.follow(b.get(rp.authURL()+"&"+c.name+"="+url.QueryEscape(c.value)), "ada"))
		if target != callbackOf("app") || got.Get("error") != c.want || (got.Get("code") == "") != (c.want != "") {
			t.Errorf("%s=%.20s: %s %v", c.name, c.value, target, got)
		}
	}
	form := rp.codeForm("x")
	form.Set("client_id", target)
	form.Set("jwks_uri", target)
	wantOAuthError(t, "client_id that is an address", s.tokenRequest("", "", form), http.StatusUnauthorized, "invalid_client")
	wantPage(t, "client_id that is an address", b.get(rp.authURL("client_id", target)), http.StatusBadRequest)
	same(t, "outgoing connections", hits.Load(), 0)
}

// unsignedRequest is a request object without a signature.
func unsignedRequest(t *testing.T, claims map[string]any) string {
	t.Helper()
	b, err := json.Marshal(claims)
	noError(t, err)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(b) + "."
}

// What the object says of the way counts where nothing else does, and never for
// an address that the query does not prove.
func TestRefusedRequestObjectIsAnsweredInItsOwnResponseMode(t *testing.T) {
	s := startService(t, serviceOptions{})
	rp := s.app("app", nil)
	posted := unsignedRequest(t, map[string]any{"response_mode": "form_post", "redirect_uri": "https://evil.example/"})
	for name, c := range map[string]struct {
		change []string
		way    string // what the answer begins with, empty: a form
	}{
		"form_post":            {[]string{"request", posted}, ""},
		"query":                {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "query"})}, "?"},
		"fragment":             {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "fragment"})}, "#"},
		"none":                 {[]string{"request", unsignedRequest(t, map[string]any{})}, "?"},
		"unknown":              {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": "web_message"})}, "?"},
		"not a string":         {[]string{"request", unsignedRequest(t, map[string]any{"response_mode": []string{"form_post"}})}, "?"},
		"not an object":        {[]string{"request", "a.b.c"}, "?"},
		"the parameter counts": {[]string{"request", posted, "response_mode", "query"}, "?"},
		"an address":           {[]string{"request_uri", "https://app.example.org/" + posted}, "?"},
	} {
		got := s.browser().get(rp.authURL(c.change...))
		want := callbackOf("app") + c.way + "error=request_not_supported&"
		if name == "an address" {
			want = callbackOf("app") + "?error=request_uri_not_supported&"
		}
		if c.way != "" && !strings.HasPrefix(got.Header.Get("Location"), want) {
			t.Errorf("%s: %d to %s, want %s", name, got.StatusCode, got.Header.Get("Location"), want)
		}
		if c.way == "" {
			if target, answer := answerOf(t, got); got.StatusCode != http.StatusOK || target != callbackOf("app") ||
				answer.Get("error") != "request_not_supported" || answer.Get("state") != rp.state {
				t.Errorf("%s: %d to %s: %v", name, got.StatusCode, target, answer)
			}
		}
	}
	wantPage(t, "an address that is not the client's", s.browser().get(rp.authURL("request", posted, "redirect_uri", "https://evil.example/")), http.StatusBadRequest)
}

// An authorization request of somebody who is not signed in travels sealed in
// the URL: strangers cannot fill the database. What is refused is one of the last 20 of its application.
func TestStrangerWritesNothingByAuthorizing(t *testing.T) {
	s, db := startServiceWithDatabase(t, serviceOptions{Limits: true}, "ada")
	rp := s.app("app", nil)
	before := db.contents()
	b := s.browser()
	for _, change := range [][]string{nil, {"prompt", "none"}, {"prompt", "login"}, {"client_id", "nobody"}, {"redirect_uri", "https://evil.example/"}, {"request", "x"}, {"max_age", "0"}, {"response_mode", "form_post", "prompt", "none"}} {
		got := b.get(rp.authURL(change...))
		if next := got.Header.Get("Location"); next != "" && next[0] == '/' {
			b.get(next)
		}
	}
	b.postForm("/oauth2/authorize", url.Values{"client_id": {"app"}})
	b.get("/oauth2/consent?continue=x")
	b.get("/oauth2/logout?state=x")
	same(t, fmt.Sprintf("%s became", before), db.contents(), before)
	b.signIn("ada")
	if db.contents() == before {
		t.Error("writes are not seen: this test proves nothing")
	}
}

func TestUserWithoutTheRequiredFlag(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada", "activity")
	u := s.addUser("bob")
	rp := s.app("app", func(c *provider.Client) { c.RequireFlags = []string{"activity"} })
	wantAnswer(t, "without the flag", s.browser().authorize(rp.authURL(), "bob"), "access_denied")
	if _, err := s.store.SetFlagsOfAll(t.Context(), account.FlagChange{"activity": {On: true}}, time.Now(),
		map[string]account.Audit{u.Sub: operator(account.SetFlags, "bob", "")}); err != nil {
		t.Fatal(err)
	}
	_, token := s.signedInTokens(rp, "bob")
	if _, err := s.store.SetFlagsOfAll(t.Context(), account.FlagChange{"activity": {On: false}}, time.Now(),
		map[string]account.Audit{u.Sub: operator(account.SetFlags, "bob", "")}); err != nil {
		t.Fatal(err)
	}
	s.wantUserinfo("userinfo after the flag was taken away", token.AccessToken, http.StatusUnauthorized)
	got := rp.token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}})
	wantInvalidGrant(t, "refresh after the flag was taken away", got)
}

// With require-all one of several flags is not enough, at the request, at userinfo and on the page of the apps.
func TestUserWithOneOfTheRequiredFlags(t *testing.T) {
	s := startService(t, serviceOptions{})
	root := s.addUser("root1", account.FlagAdmin)
	s.addUser("ada", account.FlagActivity)
	s.addUser("bob", account.FlagActivity, account.FlagAdmin)
	both := func(all bool) func(c *provider.Client) {
		return func(c *provider.Client) {
			c.RequireFlags, c.RequireAll, c.HomeURI = []string{account.FlagActivity, account.FlagAdmin}, all, "https://app.example.org"
		}
	}
	all, one := s.app("all", both(true)), s.app("one", both(false))
	wantAnswer(t, "one of two", s.browser().authorize(all.authURL(), "ada"), "access_denied")
	wantAnswer(t, "the other", s.browser().authorize(all.authURL(), root.Handle), "access_denied")
	wantAnswer(t, "one is enough", s.browser().authorize(one.authURL(), "ada"), "code")
	page := s.signedIn("ada").get("/account/apps").Text
	if strings.Contains(page, `data-app="all"`) || !strings.Contains(page, `data-app="one"`) {
		t.Error("the page of the apps shows what is not for them, or hides what is")
	}
	_, token := s.signedInTokens(all, "bob")
	needStatus(t, "flags", s.signedIn("root1").api("PUT", "/api/admin/users/bob/flags", map[string]bool{account.FlagAdmin: false}), http.StatusOK)
	s.wantUserinfo("userinfo after one of them was taken away", token.AccessToken, http.StatusUnauthorized)
}

// Pitfall 42: a client that was just added works at once, also for who asked
// too early.
func TestUnknownClientIsNotRemembered(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	rp := s.relyingParty("late", "secret-of-late-0123456789abcdefghij")
	b := s.browser()
	wantPage(t, "before", b.get(rp.authURL()), http.StatusBadRequest)
	wantOAuthError(t, "before", s.tokenRequest("late", rp.config.ClientSecret, rp.codeForm("x")), http.StatusUnauthorized, "invalid_client")
	if secret := s.addClient("late", nil); secret != rp.config.ClientSecret {
		t.Fatal("another secret")
	}
	if _, err := rp.exchange(b.authorize(rp.authURL(), "ada").Get("code")); err != nil {
		t.Error(err)
	}
}

// recorded is an error as a client sees it.
type recorded struct {
	Status          int            `json:"status"`
	Location        string         `json:"location,omitempty"`
	WWWAuthenticate string         `json:"www_authenticate,omitempty"`
	Body            map[string]any `json:"body,omitempty"`
	Page            string         `json:"page,omitempty"`
}

// Every error of the OAuth endpoints, byte by byte: clients and people's
// scripts rely on names, statuses and descriptions.
func TestErrorBodiesAndRedirects(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	secret := s.addClient("app", nil)
	s.addClient("flagged", func(c *provider.Client) { c.RequireFlags = []string{"activity"} })
	s.addClient("public", func(c *provider.Client) { c.AuthMethod = provider.AuthNone })
	rp := s.relyingParty("app", secret)
	b, token := s.signedInTokens(rp, "ada")
	stranger := s.browser()
	out := map[string]recorded{}
	record := func(name string, got response) {
		r := recorded{Status: got.StatusCode, Location: strings.ReplaceAll(got.Header.Get("Location"), s.URL,
			"https://issuer"), WWWAuthenticate: got.Header.Get("WWW-Authenticate")}
		if enc := url.QueryEscape(s.URL); enc != "" {
			r.Location = strings.ReplaceAll(r.Location, enc, "https%3A%2F%2Fissuer")
		}
		switch kind := got.Header.Get("Content-Type"); {
		case strings.HasPrefix(kind, "application/json"), strings.HasPrefix(kind, "application/problem+json"):
			r.Body = got.JSON(t)
			delete(r.Body, "request_id")
		case strings.HasPrefix(kind, "text/html"):
			r.Page = pageName(t, got.Text)
		}
		out[name] = r
	}
	for name, change := range map[string][]string{
		"request": {"request", "x"}, "request_uri": {"request_uri", "https://x.example/"}, "registration": {"registration", "{}"}, "response_type": {"response_type", "token"},
		"response_type missing": {"response_type", ""}, "response_mode": {"response_mode", "web_message"}, "prompt": {"prompt", "x"}, "max_age": {"max_age", "x"}, "claims": {"claims", "["},
		"code_challenge": {"code_challenge", "x"}, "client": {"client_id", "x"}, "redirect_uri": {"redirect_uri", "https://evil.example/"}, "without state": {"state", "", "prompt", "x"},
		"flag": {"client_id", "flagged", "redirect_uri", callbackOf("flagged")}, "flag silently": {"client_id", "flagged", "redirect_uri", callbackOf("flagged"), "prompt", "none"},
	} {
		record("authorize "+name, b.get(rp.authURL(change...)))
	}
	record("authorize login_required", stranger.get(rp.authURL("prompt", "none")))
	record("authorize consent_required", b.get(rp.authURL("prompt", "none", "client_id", "public", "redirect_uri", callbackOf("public"))))
	form := func(pairs ...string) url.Values {
		v := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	for name, f := range map[string]url.Values{
		"no grant": form("code", "x"), "unknown grant": form("grant_type", "password"), "code": form("grant_type", "authorization_code", "code", "x.y", "redirect_uri", callbackOf("app")),
		"refresh": form("grant_type", "refresh_token", "refresh_token", "x.y"), "client_credentials": form("grant_type", "client_credentials"),
		"wider scope": form("grant_type", "refresh_token", "refresh_token", token.RefreshToken, "scope", "openid admin"),
	} {
		record("token "+name, s.tokenRequest("app", secret, f))
	}
	record("token client", s.tokenRequest("app", "wrong", form("grant_type", "refresh_token", "refresh_token", "x.y")))
	record("token method", stranger.do(http.MethodGet, "/oauth2/token", "", ""))
	record("userinfo without a token", stranger.do(http.MethodGet, "/oauth2/userinfo", "", ""))
	record("userinfo wrong token", stranger.do(http.MethodGet, "/oauth2/userinfo", "", "", "Authorization", "Bearer x.y"))
	record("userinfo token in the URL", stranger.do(http.MethodGet, "/oauth2/userinfo?access_token=x.y", "", ""))
	_, plain := s.signedInTokens(s.relyingParty("app", secret, "profile"), "ada")
	record("userinfo scope", stranger.do(http.MethodGet, "/oauth2/userinfo", "", "", "Authorization", "Bearer "+plain.AccessToken))
	for _, path := range []string{"/oauth2/revoke", "/oauth2/introspect", "/oauth2/par"} {
		record(path+" without a client", stranger.do(http.MethodPost, path, "application/x-www-form-urlencoded", "token=x.y"))
		record(path+" method", stranger.do(http.MethodGet, path, "", ""))
	}
	record("logout too long", stranger.get("/oauth2/logout?state="+strings.Repeat("x", 13<<10)))
	record("logout bad hint", b.get("/oauth2/logout?id_token_hint=a.b.c&post_logout_redirect_uri=https://evil.example/"))
	golden(t, "errors.json", indent(t, out))
}
