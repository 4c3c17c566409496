package httpd

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/accounttest"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// device is a command line that waits for its user.
type device struct {
	s                *service
	id, secret       string
	code, user, link string
}

func (s *service) startDevice(id, secret string, form url.Values) *device {
	s.t.Helper()
	got := s.clientPost("device_authorization", id, secret, form)
	if got.StatusCode != http.StatusOK || got.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("device authorization: %d %s", got.StatusCode, got.Text)
	}
	a := got.JSON(s.t)
	d := &device{s: s, id: id, secret: secret, code: a["device_code"].(string), user: a["user_code"].(string), link: a["verification_uri_complete"].(string)}
	if a["verification_uri"] != s.URL+"/device" || d.link != s.URL+"/device?user_code="+d.user ||
		a["expires_in"] != 600.0 || a["interval"] != 5.0 || len(d.user) != 9 || d.user[4] != '-' {
		s.t.Errorf("answer %v", a)
	}
	return d
}

func (d *device) poll() response {
	d.s.t.Helper()
	return d.s.tokenRequest(d.id, d.secret, url.Values{"grant_type": {deviceGrant}, "device_code": {d.code}})
}

// typed sends a code on the page and returns what the browser ends on, signed in as handle.
func (b *browser) typed(code, handle, decision string) response {
	b.t.Helper()
	return b.fill(8, b.postForm("/device", url.Values{"user_code": {code}}), answersOf(handle, decision))
}

func startDevices(t *testing.T, o serviceOptions) *service {
	s := startService(t, o)
	s.addUser("ada", account.FlagActivity)
	s.addClient("tool", func(c *provider.Client) { c.AuthMethod, c.DeviceGrant, c.RedirectURIs = provider.AuthNone, true, nil })
	s.addClient("tv", func(c *provider.Client) { c.DeviceGrant, c.Trusted = true, true })
	s.addClient("app", nil)
	return s
}

func TestDeviceSignsInWithACodeThatIsTypedElsewhere(t *testing.T) {
	clock := accounttest.NewClock()
	s := startDevices(t, serviceOptions{Now: clock.Now})
	b := s.browser()
	for _, c := range []struct{ id, secret string }{{"tool", ""}, {"tv", "secret-of-tv-0123456789abcdefghij"}, {"tool", ""}} {
		d := s.startDevice(c.id, c.secret, url.Values{"scope": {"openid profile offline_access"}})
		wantOAuthError(t, "before", d.poll(), 400, "authorization_pending")
		wantOAuthError(t, "too soon", d.poll(), 400, "slow_down")
		clock.Advance(6 * time.Second)
		wantOAuthError(t, "too soon for the longer interval", d.poll(), 400, "slow_down")
		clock.Advance(15 * time.Second)
		wantOAuthError(t, "then", d.poll(), 400, "authorization_pending")
		// People type small letters and spaces. The question is asked each time, also where it was answered before, and
		// of trusted clients.
		typed := " " + strings.ToLower(strings.ReplaceAll(d.user, "-", " "))
		page := mainOf(b.typed(typed, "ada", "").Text)
		for _, text := range []string{"App " + c.id, "only if you started this", "127.0.0.1", "Sign you in", "your device shows this code", d.user} {
			has(t, "the question lacks", page, text)
		}
		lacks(t, "the question names an address to go on", page, "Then you go to")
		clock.Advance(time.Second)
		wantOAuthError(t, "while it is asked", d.poll(), 400, "slow_down")
		clock.Advance(20 * time.Second)
		if got := b.typed(d.user, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
			t.Fatalf("allowed: %d %s", got.StatusCode, mainOf(got.Text))
		}
		wantOAuthError(t, "of another client", s.tokenRequest("app", "secret-of-app-0123456789abcdefghij",
			url.Values{"grant_type": {deviceGrant}, "device_code": {d.code}}), 400, "unauthorized_client")
		wantInvalidGrant(t, "as an authorization code", s.tokenRequest(d.id, d.secret, url.Values{
			"grant_type": {"authorization_code"}, "code": {d.code}, "code_verifier": {strings.Repeat("v", 43)}}))
		got := d.poll().JSON(t)
		access, _ := got["access_token"].(string)
		if got["scope"] != "openid profile offline_access" || got["refresh_token"] == nil || jwtPayload(t, got["id_token"].(string))["aud"] != c.id {
			t.Fatalf("tokens: %v", got)
		}
		if who := s.userinfo(access); who["preferred_username"] != "ada" {
			t.Errorf("userinfo: %v", who)
		}
		if page := b.get("/account/apps").Text; !strings.Contains(page, `data-app="`+c.id+`"`) {
			t.Errorf("the page of applications lacks %s: %s", c.id, mainOf(page))
		}
		again := d.poll()
		wantInvalidGrant(t, "again", again)
		has(t, "again", again.Text, `It was used before."`)
		s.wantUserinfo("after a poll that came too late", access, http.StatusOK)
		wantStatus(t, "refresh", s.refreshRequest(d.id, d.secret, got["refresh_token"].(string)), http.StatusOK)
		wantStatus(t, "its code on the page again", b.typed(d.user, "ada", "allow"), http.StatusNotFound)
	}
	b.api("POST", "/api/auth/logout", nil)
}

func TestDeviceIsRefused(t *testing.T) {
	clock := accounttest.NewClock()
	s := startDevices(t, serviceOptions{Now: clock.Now})
	s.addClient("members", func(c *provider.Client) {
		c.DeviceGrant, c.RequireFlags, c.AuthMethod = true, []string{account.FlagAdmin}, provider.AuthNone
	})
	b := s.browser()
	d := s.startDevice("tool", "", nil)
	if got := b.typed(d.user, "ada", "deny"); !strings.Contains(got.Text, `id="device-denied"`) {
		t.Errorf("denied: %d %s", got.StatusCode, mainOf(got.Text))
	}
	wantOAuthError(t, "denied", d.poll(), 400, "access_denied")
	wantStatus(t, "denied, its code again", b.typed(d.user, "ada", "allow"), http.StatusNotFound)
	d = s.startDevice("members", "", url.Values{"scope": {"openid"}})
	again := b.postForm("/device", url.Values{"user_code": {d.user}}).Header.Get("Location")
	for _, what := range []string{"without the flag", "without the flag, loaded again"} {
		if got := b.get(again); got.StatusCode != http.StatusForbidden || pageName(t, got.Text) != "access-denied" {
			t.Errorf("%s: %d %s", what, got.StatusCode, mainOf(got.Text))
		}
		wantOAuthError(t, what, d.poll(), 400, "access_denied")
	}
	allowed := s.startDevice("tool", "", url.Values{"scope": {"openid"}})
	if got := b.typed(allowed.user, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
		t.Errorf("allowed: %d %s", got.StatusCode, mainOf(got.Text))
	}
	d = s.startDevice("tool", "", url.Values{"scope": {"openid"}})
	clock.Advance(10*time.Minute + time.Second)
	wantOAuthError(t, "expired", d.poll(), 400, "expired_token")
	wantOAuthError(t, "allowed, then expired", allowed.poll(), 400, "expired_token")
	wantStatus(t, "expired, its code", b.typed(d.user, "ada", "allow"), http.StatusNotFound)
	for what, form := range map[string]url.Values{
		"no code": {"grant_type": {deviceGrant}}, "a made-up code": {"grant_type": {deviceGrant}, "device_code": {d.code[:43] + "." + d.code[:43]}},
	} {
		wantInvalidGrant(t, what, s.tokenRequest("tool", "", form))
	}
	wantOAuthError(t, "a client without the grant", s.clientPost("device_authorization", "app", "secret-of-app-0123456789abcdefghij", nil), 400, "unauthorized_client")
	wantOAuthError(t, "an unknown client", s.clientPost("device_authorization", "nobody", "", nil), 401, "invalid_client")
	wantOAuthError(t, "an unknown resource", s.clientPost("device_authorization", "tool", "", url.Values{"resource": {"https://x.example.org"}}), 400, "invalid_target")
	wantOAuthError(t, "a client that must be authenticated", s.clientPost("device_authorization", "tv", "", nil), 401, "invalid_client")
}

// The code of the attacker's device, entered by the attacker, opens nothing in the browser of another person.
func TestDeviceGoesOnInTheBrowserThatTypedTheCode(t *testing.T) {
	s := startDevices(t, serviceOptions{})
	d := s.startDevice("tv", "secret-of-tv-0123456789abcdefghij", url.Values{"scope": {"openid"}})
	eve, ada := s.browser(), s.signedIn("ada")
	next := needStatus(t, "typed", eve.postForm("/device", url.Values{"user_code": {d.user}}), http.StatusSeeOther).Header.Get("Location")
	repeated := continuationOf(t, eve.get(next), "/login/")
	other := s.startDevice("tv", "secret-of-tv-0123456789abcdefghij", url.Values{"scope": {"openid"}})
	for _, typed := range []string{"", other.user} {
		if typed != "" {
			ada.postForm("/device", url.Values{"user_code": {typed}})
		}
		for _, path := range []string{next, "/oauth2/authorize?continue=" + repeated, "/oauth2/consent?continue=" + repeated} {
			got := ada.get(path)
			if wantStatus(t, path, got, http.StatusForbidden); pageName(t, got.Text) != "device" || strings.Contains(got.Text, d.user) {
				t.Errorf("%s: %s", path, mainOf(got.Text))
			}
		}
		sent := ada.postForm("/oauth2/consent", url.Values{"continue": {repeated}, "decision": {"allow"}})
		wantStatus(t, "the form", sent, http.StatusForbidden)
	}
	wantOAuthError(t, "the device", d.poll(), 400, "authorization_pending")
	// The link of the device fills in the code, which the next page shows too.
	f := pageForm(t, ada.get(d.link).Text)
	if page := ada.typed(f.values.Get("user_code"), "ada", ""); !strings.Contains(elementText(elementByID(t, page.Text, "device-code")), d.user) {
		t.Errorf("the question: %s", mainOf(page.Text))
	}
	if got := ada.typed(d.user, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) || ada.cookie("cairn_user_code") != "" {
		t.Errorf("allowed: %d %s", got.StatusCode, mainOf(got.Text))
	}
}

// Of many polls at once one gets the tokens, and they live; of two people at once one gives them.
func TestDeviceGetsItsTokensOnce(t *testing.T) {
	s := startDevices(t, serviceOptions{})
	s.addUser("eve")
	d := s.startDevice("tool", "", url.Values{"scope": {"openid"}})
	browsers := map[string]*browser{"ada": s.browser(), "eve": s.browser()}
	pages := map[string]response{}
	for who, b := range browsers {
		pages[who] = b.typed(d.user, who, "")
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	allowed, tokens := 0, []string{}
	for who, b := range browsers {
		all.Go(func() {
			got := b.get(b.decide(pages[who], "allow"))
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(got.Text, `id="device-allowed"`) {
				allowed++
			} else if got.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d %s", who, got.StatusCode, mainOf(got.Text))
			}
		})
	}
	all.Wait()
	for range 16 {
		all.Go(func() {
			got := d.poll()
			mu.Lock()
			defer mu.Unlock()
			if got.StatusCode == http.StatusOK {
				tokens = append(tokens, got.JSON(t)["access_token"].(string))
			} else {
				wantInvalidGrant(t, "another poll", got)
			}
		})
	}
	all.Wait()
	if allowed != 1 || len(tokens) != 1 {
		t.Fatalf("%d have allowed it, %d polls got tokens", allowed, len(tokens))
	}
	s.wantUserinfo("the one", tokens[0], http.StatusOK)
}

func TestGuessesOfUserCodesAreLimited(t *testing.T) {
	s := startDevices(t, serviceOptions{Limits: true})
	b := s.visitor()
	d := s.startDevice("tool", "", nil)
	for range 10 {
		wantStatus(t, "a wrong code", b.postForm("/device", url.Values{"user_code": {"BBBB-BBBB"}}), http.StatusNotFound)
	}
	got := b.postForm("/device", url.Values{"user_code": {d.user}})
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
		t.Errorf("the right one then: %d %s", got.StatusCode, mainOf(got.Text))
	}
	wantStatus(t, "from elsewhere", s.visitor().postForm("/device", url.Values{"user_code": {d.user}}), http.StatusSeeOther)
	if page := s.visitor().get("/device?user_code=" + d.user); !strings.Contains(page.Text, `value="`+d.user+`"`) {
		t.Errorf("the link of the device: %s", mainOf(page.Text))
	}
	lacks(t, "markup", s.visitor().get(`/device?user_code="><script>`).Text, "<script>")
}

func TestDeviceWithoutAScopeIsInTheAuditLog(t *testing.T) {
	s := startDevices(t, serviceOptions{})
	s.browser().typed(s.startDevice("tool", "", nil).user, "ada", "allow")
	rows, err := s.store.AuditLog(t.Context(), account.AuditQuery{Kind: "app.allow"})
	noError(t, err)
	if len(rows) != 1 || rows[0].Actor != "ada" || rows[0].Detail != "tool" {
		t.Errorf("audit log: %+v", rows)
	}
}

// A poll that is refused loses nothing: neither a wrong resource nor a key that is missing costs the approval.
func TestRefusedPollKeepsTheApproval(t *testing.T) {
	s := startDevices(t, serviceOptions{})
	s.addAPI(trails, "Trails", func(a *provider.API) { a.Clients = []string{"tool"} })
	s.addAPI("urn:example:unsigned", "Unsigned", func(a *provider.API) { a.Clients, a.Algorithm = []string{"tool"}, "EdDSA" })
	d := s.startDevice("tool", "", url.Values{"scope": {"openid"}, "resource": {trails, "urn:example:unsigned"}})
	s.browser().typed(d.user, "ada", "allow")
	poll := func(resource string) response {
		return s.tokenRequest("tool", "", url.Values{"grant_type": {deviceGrant}, "device_code": {d.code}, "resource": {resource}})
	}
	wantOAuthError(t, "another resource", poll("https://x.example.org"), 400, "invalid_target")
	wantOAuthError(t, "a resource that cannot be signed for", poll("urn:example:unsigned"), 500, "server_error")
	got := poll(trails)
	wantStatus(t, "then", got, http.StatusOK)
	wantInvalidGrant(t, "again", poll(trails))
	s.wantUserinfo("after a poll that came too late", got.JSON(t)["access_token"].(string), http.StatusOK)
}

// The page of a device and the question about a client with its own description, in a real browser on a phone.
func TestDevicePageInABrowser(t *testing.T) {
	thirdParty(t)
	s, h, _ := startAgents(t)
	s.addClient("tool", func(c *provider.Client) { c.AuthMethod, c.DeviceGrant, c.RedirectURIs = provider.AuthNone, true, nil })
	agent := h.describe("/ok/agent.json", nil)
	tab := chromium(t)
	mustDo(t, tab, "screen", chromedp.EmulateViewport(360, 740))
	for _, c := range []struct{ language, decision, answer, error string }{
		{"en", "consent-allow", "device-allowed", ""}, {"de", "consent-deny", "device-denied", "access_denied"},
	} {
		speak := network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": c.language}}
		if _, err := chromedp.Call(tab, network.SetExtraHTTPHeaders, speak); err != nil {
			t.Fatal(err)
		}
		look := func(name string) {
			shot(t, tab, name+"-"+c.language)
			check(t, tab, s.URL, name+" in "+c.language, 360)
		}
		d := s.startDevice("tool", "", url.Values{"scope": {"openid profile"}})
		code := id("user_code")
		mustDo(t, tab, "the page", chromedp.Navigate(s.URL+"/device"), chromedp.WaitVisible(page("device")))
		look("device")
		mustDo(t, tab, "a wrong code", chromedp.SendKeys(code, "bbbb bbb"), chromedp.Click(id("device-submit")), chromedp.WaitVisible(id("error")))
		look("device-wrong")
		if kept, err := chromedp.Run(tab, chromedp.Value(code)); err != nil || kept != "bbbb bbb" {
			t.Errorf("the field has %q: %v", kept, err)
		}
		mustDo(t, tab, "the code as people type it", chromedp.Clear(code),
			chromedp.SendKeys(code, strings.ToLower(strings.ReplaceAll(d.user, "-", " "))), chromedp.Click(id("device-submit")))
		if c.language == "en" {
			mustDo(t, tab, "sign in", chromedp.WaitVisible(page("login")))
			signInAs(t, tab, "ada", password, "consent")
		}
		mustDo(t, tab, "the question", chromedp.WaitVisible(id("device-warning")))
		look("device-consent")
		mustDo(t, tab, c.decision, chromedp.Click(id(c.decision)), chromedp.WaitVisible(id(c.answer)))
		look(c.answer)
		if got := d.poll(); c.error != "" {
			wantOAuthError(t, c.decision, got, 400, c.error)
		} else {
			wantStatus(t, c.decision, got, http.StatusOK)
		}
		mustDo(t, tab, "the link", chromedp.Navigate(s.startDevice("tool", "", nil).link), chromedp.Click(id("device-submit")),
			chromedp.WaitVisible(id("device-warning")))
		look("device-without-scope")
		at := s.agent(agent, "http://127.0.0.1/callback", "openid", "profile", "offline_access").authURL()
		mustDo(t, tab, "an agent", chromedp.Navigate(at), chromedp.WaitVisible(id("consent-stays-here")))
		look("consent-document")
	}
}

// needsUser starts a command line that prints the address for its user, lets ada allow it there, and returns what it
// prints then.
func (s *service) needsUser(cmd *exec.Cmd) (after string) {
	s.t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	noError(s.t, err)
	noError(s.t, cmd.Start())
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	asked := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if i := strings.Index(line, s.URL+"/device?user_code="); i >= 0 && !asked {
			asked = true
			link, err := url.Parse(strings.Fields(line[i:])[0])
			noError(s.t, err)
			if got := s.browser().typed(link.Query().Get("user_code"), "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
				s.t.Errorf("the page: %d %s", got.StatusCode, mainOf(got.Text))
			}
			continue
		}
		after += line + "\n"
	}
	if err := cmd.Wait(); err != nil || !asked {
		s.t.Fatalf("%v, asked: %v\n%s", err, asked, after)
	}
	return after
}

func TestOpenidClientSignsADeviceIn(t *testing.T) {
	script := nodeScript(t, "openid_client_device.mjs", "openid-client")
	s := startDevices(t, serviceOptions{})
	cmd := exec.CommandContext(t.Context(), script[0], script[1:]...)
	cmd.Env = append(os.Environ(), "ISSUER="+s.URL, "CLIENT_ID=tool")
	same(t, "it saw", s.needsUser(cmd), "ada\n")
}

// Debian's oidc-agent, whose daemon polls for the token and whose command shows the code.
func TestOIDCAgentSignsADeviceIn(t *testing.T) {
	another(t)
	needFiles(t, "/usr/bin/oidc-agent", "/usr/bin/oidc-gen", "/usr/bin/oidc-token")
	s := startDevices(t, serviceOptions{})
	home := t.TempDir()
	socket := filepath.Join(home, "agent.sock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "OIDC_SOCK=" + socket, "PW=" + password}
		cmd.WaitDelay = time.Second // the agent's child keeps the output open
		return cmd
	}
	agent := command("oidc-agent", "--console", "--no-webserver", "--socket-path="+socket)
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	noError(t, agent.Start())
	t.Cleanup(func() { _ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL); _ = agent.Wait() })
	for conn, err := net.Dial("unix", socket); ; conn, err = net.Dial("unix", socket) {
		if err == nil {
			_ = conn.Close()
			break
		}
		noError(t, ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
	gen := command("oidc-gen", "--flow=device", "--manual", "--iss="+s.URL, "--client-id=tool", "--client-secret=", "--scope=openid profile offline_access",
		"--pw-env=PW", "--prompt=none", "--confirm-default", "--no-save", "hills")
	out, err := gen.StdoutPipe()
	noError(t, err)
	gen.Stderr = gen.Stdout
	noError(t, gen.Start())
	shown := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		shown += lines.Text() + "\n"
		if _, code, ok := strings.Cut(lines.Text(), "enter the code: "); ok {
			if got := s.browser().typed(code, "ada", "allow"); !strings.Contains(got.Text, `id="device-allowed"`) {
				t.Errorf("the page: %d %s", got.StatusCode, mainOf(got.Text))
			}
		}
	}
	if err := gen.Wait(); err != nil || !strings.Contains(shown, "\n"+s.URL+"/device\n") {
		t.Fatalf("oidc-gen: %v\n%s", err, shown)
	}
	token, err := command("oidc-token", "hills").Output()
	noError(t, err)
	if who := s.userinfo(strings.TrimSpace(string(token))); who["preferred_username"] != "ada" {
		t.Errorf("userinfo: %v", who)
	}
}
