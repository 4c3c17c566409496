//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
)

const (
	password = "rambling over 3 hills"
	callback = "https://app.example.org/callback"
)

// request is one request of the load and what became of it.
type request struct {
	what       string
	begin, end time.Time
	status     int // 0: no answer
	announced  bool
	direct     bool   // to one instance, which may be stopped
	text       string // of a failure
}

// ledger records what the service has acknowledged, to compare with what it has at the end.
type ledger struct {
	sync.Mutex
	requests  []request
	passwords map[string][]string    // by handle: one of these is right; more than one after a change whose outcome is not known
	live      map[string]string      // access tokens that count, and whose they are
	dead      map[string]string      // revoked ones, and why
	ended     map[string]string      // session tokens that were revoked, and why
	spent     map[string]int         // how often what is good once was accepted
	toldAt    map[string][]time.Time // when the application was told that a session has ended
	owed      map[string]bool        // sessions of which it has to be told
	faults    []string               // answers that nothing explains
}

func newLedger() *ledger {
	return &ledger{passwords: map[string][]string{}, live: map[string]string{}, dead: map[string]string{}, ended: map[string]string{}, spent: map[string]int{}, toldAt: map[string][]time.Time{}, owed: map[string]bool{}}
}

// note changes the ledger.
func (l *ledger) note(change func()) {
	l.Lock()
	defer l.Unlock()
	change()
}

func (l *ledger) fault(format string, args ...any) {
	l.note(func() { l.faults = append(l.faults, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...)) })
}

// accepted counts a success of what may have one.
func (l *ledger) accepted(what string) { l.note(func() { l.spent[what]++ }) }

// kill moves the tokens of a user.
func (l *ledger) kill(owner, why string) {
	for token, of := range l.live {
		if of == owner {
			delete(l.live, token)
			if why != "" {
				l.dead[token] = why
			}
		}
	}
}

// member is a person with a browser and an application.
type member struct {
	*ledger
	base     string
	app      browser.App
	handle   string
	password string
	client   *http.Client
	refresh  string // newest refresh token; empty: none, or spent with an unknown outcome
	access   string
	family   []string // access tokens of the grant of refresh
	etag     string
}

var addresses atomic.Uint32

// newMember comes from an address of its own: the limits count by it.
func newMember(l *ledger, c *installation, secret, handle string) *member {
	n := addresses.Add(1)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>14), byte(n>>7&0x7f), 1+byte(n&0x7f))}}
	client := browser.NewClient(40*time.Second, &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	}})
	client.Jar, _ = cookiejar.New(nil)
	app := browser.App{ID: "app", Secret: secret, Callback: callback}
	return &member{ledger: l, base: c.URL, app: app, handle: handle, password: password, client: client}
}

// do sends a request and notes it; header are pairs.
func (m *member) do(what, method, address, contentType, body string, header ...string) browser.Answer {
	if strings.HasPrefix(address, "/") {
		address = m.base + address
	}
	r, err := browser.Request(context.Background(), method, address, "", contentType, body, header...)
	if err != nil {
		m.fault("%s: %v", what, err)
		return browser.Answer{}
	}
	n := request{what: what, begin: time.Now(), direct: !strings.HasPrefix(address, m.base)}
	a := browser.Send(m.client, r)
	n.end, n.status = time.Now(), a.Status
	n.announced = a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != ""
	if a.Unknown() {
		n.text = fmt.Sprintf("%v %d %.200s", a.Err, a.Status, a.Body)
	}
	m.note(func() { m.requests = append(m.requests, n) })
	if a.Unknown() {
		time.Sleep(500 * time.Millisecond) // a little less than the service asks for
	}
	return a
}

func (m *member) api(what, method, path string, body any) browser.Answer {
	if body == nil {
		return m.do(what, method, path, "", "")
	}
	b, _ := json.Marshal(body)
	return m.do(what, method, path, browser.JSONType, string(b))
}

// post is the application's request, to the proxy or to one instance.
func (m *member) post(what, address string, form url.Values) browser.Answer {
	return m.do(what, "POST", address, browser.FormType, m.app.Form(form).Encode())
}

func (m *member) cookie() string {
	u, _ := url.Parse(m.base)
	for _, c := range m.client.Jar.Cookies(u) {
		if c.Name == "cairn_session" {
			return c.Value
		}
	}
	return ""
}

func (m *member) signIn() bool {
	before := m.cookie()
	a := m.api("sign-in", "POST", "/api/auth/login", map[string]string{"handle": m.handle, "password": m.password})
	switch {
	case a.Status == http.StatusOK:
		if before != "" && before != m.cookie() { // a new sign-in replaces the cookie
			m.note(func() { m.ended[before] = "a new sign-in" })
		}
		return true
	case a.Status == http.StatusUnauthorized: // one of those that may be right
		var maybe []string
		m.note(func() { maybe = slices.Clone(m.passwords[m.handle]) })
		for _, other := range maybe {
			if other != m.password {
				m.password = other
				return false
			}
		}
		m.fault("%s cannot sign in", m.handle)
	case !a.Unknown():
		m.fault("sign-in of %s: %d %s", m.handle, a.Status, a.Body)
	}
	return false
}

// code asks for an authorization code; empty when there is none.
func (m *member) code() string {
	a := m.do("authorize", "GET", m.app.Authorize("openid profile offline_access"), "", "")
	if code := a.Code(); code != "" && a.Status == http.StatusSeeOther {
		return code
	}
	if !a.Unknown() {
		m.fault("authorize: %d %s", a.Status, a.Header.Get("Location"))
	}
	return ""
}

// redeem spends a code, and asks again as long as it is not known what became of it.
func (m *member) redeem(address, code string) browser.Answer {
	for try := 0; ; try++ {
		a := m.post("token", address+"/oauth2/token", m.app.Exchange(code))
		switch {
		case a.Status == http.StatusOK:
			m.accepted("code " + code)
			return a
		case a.Unknown() && try < 5:
		case !a.Unknown() && (a.Str("error") != "invalid_grant" || try == 0 && address == m.base):
			m.fault("token: %d %s", a.Status, a.Body)
			return a
		default: // spent, by an answer that was lost
			return a
		}
	}
}

// tokens signs in to the application.
func (m *member) tokens() {
	code := m.code()
	if code == "" {
		return
	}
	a := m.redeem(m.base, code)
	if a.Status != http.StatusOK {
		return
	}
	m.access, m.refresh = a.Str("access_token"), a.Str("refresh_token")
	m.family = []string{m.access}
	sid := browser.ClaimsOf(m.cookie()).Sid
	m.note(func() {
		m.live[m.access] = m.handle
		if !m.owed[sid] {
			m.owed[sid] = false
		}
	})
}

func (m *member) rotate() {
	if m.refresh == "" {
		m.tokens()
		return
	}
	used := m.refresh
	for try := 0; try < 6; try++ {
		a := m.post("refresh", "/oauth2/token", m.app.Refresh(used))
		switch {
		case a.Status == http.StatusOK:
			m.accepted("refresh token " + used)
			m.access, m.refresh = a.Str("access_token"), a.Str("refresh_token")
			m.family = append(m.family, m.access)
			m.note(func() { m.live[m.access] = m.handle })
			return
		case !a.Unknown():
			if try == 0 {
				m.fault("refresh of %s: %d %s", m.handle, a.Status, a.Body)
			}
			// A second use of what was spent by an answer that was lost: the grant ends.
			m.access, m.refresh = "", ""
			m.note(func() { m.kill(m.handle, "") })
			return
		}
	}
	m.refresh = ""
	m.note(func() { m.kill(m.handle, "") })
}

func (m *member) userinfo() {
	if m.access == "" {
		m.tokens()
		return
	}
	if a := m.do("userinfo", "GET", "/oauth2/userinfo", "", "", "Authorization", "Bearer "+m.access); a.Status != http.StatusOK && !a.Unknown() {
		m.fault("userinfo of %s: %d %s", m.handle, a.Status, a.Body)
	}
}

func (m *member) introspect() {
	if m.access == "" {
		m.tokens()
		return
	}
	if a := m.post("introspect", "/oauth2/introspect", url.Values{"token": {m.access}}); a.Status == http.StatusOK && a.JSON()["active"] != true || a.Status != http.StatusOK && !a.Unknown() {
		m.fault("introspection of %s: %d %s", m.handle, a.Status, a.Body)
	}
}

func (m *member) me() {
	if a := m.api("me", "GET", "/api/me", nil); a.Status != http.StatusOK && !a.Unknown() {
		m.fault("/api/me of %s: %d %s", m.handle, a.Status, a.Body)
	}
}

// revoke ends the grant by its refresh token.
func (m *member) revoke() {
	if m.refresh == "" {
		return
	}
	a := m.post("revoke", "/oauth2/revoke", url.Values{"token": {m.refresh}})
	why := ""
	if a.Status == http.StatusOK {
		why = "revoked"
	} else if !a.Unknown() {
		m.fault("revoke: %d %s", a.Status, a.Body)
	}
	m.note(func() {
		for _, access := range m.family {
			delete(m.live, access)
			if why != "" {
				m.dead[access] = why
			}
		}
	})
	m.access, m.refresh = "", ""
}

// changePassword ends the user's other sessions and every grant.
func (m *member) changePassword() {
	next := fmt.Sprintf("%s %d", password, rand.Uint32())
	m.note(func() { m.passwords[m.handle] = []string{m.password, next} })
	a := m.api("password", "PUT", "/api/me/password", map[string]string{"current_password": m.password, "new_password": next})
	why := ""
	switch {
	case a.Status == http.StatusOK:
		m.password, why = next, "the password was changed"
		m.note(func() { m.passwords[m.handle] = []string{next} })
	case !a.Unknown():
		m.fault("change of the password of %s: %d %s", m.handle, a.Status, a.Body)
	}
	m.access, m.refresh = "", ""
	m.note(func() { m.kill(m.handle, why) })
}

func (m *member) signOut() {
	token := m.cookie()
	sid := browser.ClaimsOf(token).Sid
	a := m.api("sign-out", "POST", "/api/auth/logout", nil)
	m.note(func() {
		if a.Status == http.StatusOK {
			m.ended[token] = "signed out"
			if _, has := m.owed[sid]; has {
				m.owed[sid] = true
			}
		}
		m.kill(m.handle, "")
	})
	if a.Status != http.StatusOK && !a.Unknown() {
		m.fault("sign-out: %d %s", a.Status, a.Body)
	}
	m.access, m.refresh = "", ""
	m.client.Jar, _ = cookiejar.New(nil)
}

// status waits for a change of the list, as applications do.
func (m *member) status() {
	uri := browser.ClaimsOf(m.cookie()).Status.List.URI
	if uri == "" {
		m.signIn()
		return
	}
	a := m.do("status wait", "GET", uri, "", "", "Prefer", "wait=2", "If-None-Match", m.etag)
	switch a.Status {
	case http.StatusOK, http.StatusNotModified:
		m.etag = a.Header.Get("ETag")
	default:
		if !a.Unknown() {
			m.fault("status list: %d %s", a.Status, a.Body)
		}
	}
}

// act does one of the things that members do, mostly reading.
func (m *member) act() {
	if m.cookie() == "" {
		m.signIn()
		return
	}
	switch n := rand.IntN(100); {
	case n < 25:
		m.tokens()
	case n < 45:
		m.rotate()
	case n < 65:
		m.userinfo()
	case n < 80:
		m.introspect()
	case n < 90:
		m.me()
	case n < 94:
		m.revoke()
	case n < 96:
		m.changePassword()
	default:
		m.signOut()
	}
}

// invite is one of the keeper's, who is signed in; empty when there is none.
func (m *member) invite() string {
	if m.cookie() == "" && !m.signIn() {
		return ""
	}
	a := m.api("invite", "POST", "/api/invites", nil)
	if a.Status != http.StatusCreated && !a.Unknown() {
		m.fault("invite: %d %s", a.Status, a.Body)
	}
	return a.Str("code")
}

// register makes an account of an invite, and asks again as long as it is not known what
// became of it.
func (m *member) register(base, invite string) bool {
	for try := 0; try < 6; try++ {
		a := m.api("register", "POST", base+"/api/register", map[string]string{"code": invite, "handle": m.handle, "password": m.password})
		if a.Status == http.StatusCreated {
			m.accepted("invite " + invite)
			m.note(func() { m.passwords[m.handle] = []string{m.password} })
			return true
		}
		if !a.Unknown() {
			if base == m.base && try == 0 {
				m.fault("register: %d %s", a.Status, a.Body)
			}
			return false
		}
	}
	return false
}

var newcomers atomic.Uint32

func newcomer(l *ledger, c *installation, secret string) *member {
	return newMember(l, c, secret, fmt.Sprintf("newcomer-%d", newcomers.Add(1)))
}

// spendTwice tries to use things that are good once at two instances at the same moment.
func spendTwice(l *ledger, c *installation, secret string, keeper *member) {
	at := rand.Perm(instances)[:2]
	both := func(do func(i int, base string)) {
		var wg sync.WaitGroup
		for i, n := range at {
			wg.Go(func() { do(i, c.each[n].URL) })
		}
		wg.Wait()
	}
	invite := keeper.invite()
	if invite == "" {
		return
	}
	who, registered := [2]*member{newcomer(l, c, secret), newcomer(l, c, secret)}, [2]bool{}
	both(func(i int, base string) { registered[i] = who[i].register(base, invite) })
	m := who[0]
	if registered[1] {
		m = who[1]
	} else if !registered[0] {
		return
	}
	// Cookies go by host: at the proxy it is not signed in yet.
	m.client.Jar, _ = cookiejar.New(nil)
	if !m.signIn() {
		return
	}
	if code := m.code(); code != "" {
		both(func(_ int, base string) {
			one := *m
			one.redeem(base, code)
		})
	}
	if code := m.code(); code != "" {
		if a := m.redeem(m.base, code); a.Status == http.StatusOK {
			used := a.Str("refresh_token")
			both(func(_ int, base string) {
				if a := m.post("refresh twice", base+"/oauth2/token", m.app.Refresh(used)); a.Status == http.StatusOK {
					m.accepted("refresh token " + used)
				}
			})
		}
	}
	out, err := c.command("user", "reset-code", m.handle, "-q").Output()
	if err != nil { // there is no database at this moment
		return
	}
	code, passwords := strings.TrimSpace(string(out)), [2]string{password + " one", password + " two"}
	l.note(func() { l.passwords[m.handle] = append([]string{m.password}, passwords[:]...) })
	both(func(i int, base string) {
		a := m.api("reset", "POST", base+"/api/auth/reset-password", map[string]string{"handle": m.handle, "code": code, "password": passwords[i]})
		if a.Status == http.StatusOK {
			m.accepted("reset code " + code)
			l.note(func() { l.passwords[m.handle] = []string{passwords[i]} })
		}
	})
}
