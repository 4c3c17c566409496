//go:build linux

package cluster

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
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
	text       string // of a failure
}

// ledger records what the service has acknowledged, to compare with what it has at the end. That what is good once is
// accepted once, and what was ended stays ended, is what cmd/histories checks.
type ledger struct {
	sync.Mutex
	requests []request
	accounts []string               // handles
	live     map[string]string      // access tokens that count, and whose they are
	toldAt   map[string][]time.Time // when the application was told that a session has ended
	owed     map[string]bool        // sessions of which it has to be told
	faults   []string               // answers that nothing explains
}

func newLedger() *ledger {
	return &ledger{live: map[string]string{}, toldAt: map[string][]time.Time{}, owed: map[string]bool{}}
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

// kill takes the tokens of a user out, whose grant has ended.
func (l *ledger) kill(owner string) {
	l.note(func() { maps.DeleteFunc(l.live, func(_, of string) bool { return of == owner }) })
}

// member is a person with a browser and an application.
type member struct {
	*ledger
	base    string
	app     browser.App
	handle  string
	client  *http.Client
	refresh string // newest refresh token; empty: none, or spent with an unknown outcome
	access  string
	etag    string
}

var addresses atomic.Uint32

// newMember comes from an address of its own: the limits count by it.
func newMember(l *ledger, c *installation, secret, handle string) *member {
	n := addresses.Add(1)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>14), byte(n>>7&0x7f), 1+byte(n&0x7f))}}
	client := browser.NewClient(40*time.Second,
		&http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		}})
	client.Jar, _ = cookiejar.New(nil)
	app := browser.App{ID: "app", Secret: secret, Callback: callback}
	return &member{ledger: l, base: c.URL, app: app, handle: handle, client: client}
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
	n := request{what: what, begin: time.Now()}
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
	kind, text := browser.JSON(body)
	return m.do(what, method, path, kind, text)
}

// post is the application's request, to the proxy or to one instance.
func (m *member) post(what, address string, form url.Values) browser.Answer {
	return m.do(what, "POST", address, browser.FormType, m.app.Form(form).Encode())
}

func (m *member) cookie() string { return browser.CookieOf(m.client, m.base, browser.SessionCookie) }

func (m *member) signIn() bool {
	a := m.api("sign-in", "POST", "/api/auth/login", map[string]string{"handle": m.handle, "password": password})
	if a.Status != http.StatusOK && !a.Unknown() {
		m.fault("sign-in of %s: %d %s", m.handle, a.Status, a.Body)
	}
	return a.Status == http.StatusOK
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
func (m *member) redeem(code string) (a browser.Answer) {
	for try := range 6 {
		if a = m.post("token", "/oauth2/token", m.app.Exchange(code)); a.Unknown() {
			continue
		}
		// After the first try it may be spent, by an answer that was lost.
		if a.Status != http.StatusOK && (a.Str("error") != "invalid_grant" || try == 0) {
			m.fault("token: %d %s", a.Status, a.Body)
		}
		break
	}
	return a
}

// tokens signs in to the application.
func (m *member) tokens() {
	code := m.code()
	if code == "" {
		return
	}
	a := m.redeem(code)
	if a.Status != http.StatusOK {
		return
	}
	m.access, m.refresh = a.Str("access_token"), a.Str("refresh_token")
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
			m.access, m.refresh = a.Str("access_token"), a.Str("refresh_token")
			m.note(func() { m.live[m.access] = m.handle })
			return
		case !a.Unknown():
			if try == 0 {
				m.fault("refresh of %s: %d %s", m.handle, a.Status, a.Body)
			}
			// A second use of what was spent by an answer that was lost: the grant ends.
			m.access, m.refresh = "", ""
			m.kill(m.handle)
			return
		}
	}
	m.refresh = ""
	m.kill(m.handle)
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
	if a := m.post("introspect", "/oauth2/introspect", url.Values{"token": {m.access}}); a.Status == http.StatusOK &&
		a.JSON()["active"] != true || a.Status != http.StatusOK && !a.Unknown() {
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
	if a := m.post("revoke", "/oauth2/revoke", url.Values{"token": {m.refresh}}); a.Status != http.StatusOK && !a.Unknown() {
		m.fault("revoke: %d %s", a.Status, a.Body)
	}
	m.access, m.refresh = "", ""
	m.kill(m.handle)
}

func (m *member) signOut() {
	sid := browser.ClaimsOf(m.cookie()).Sid
	a := m.api("sign-out", "POST", "/api/auth/logout", nil)
	m.note(func() {
		if _, has := m.owed[sid]; has && a.Status == http.StatusOK {
			m.owed[sid] = true
		}
	})
	m.kill(m.handle)
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
	case n < 95:
		m.revoke()
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
func (m *member) register(invite string) bool {
	for try := range 6 {
		a := m.api("register", "POST", "/api/register", map[string]string{"code": invite, "handle": m.handle, "password": password})
		if a.Status == http.StatusCreated {
			m.note(func() { m.accounts = append(m.accounts, m.handle) })
			return true
		}
		if !a.Unknown() {
			if try == 0 {
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
