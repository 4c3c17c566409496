//go:build linux

package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
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

	"golang.org/x/oauth2"
)

const (
	password  = "rambling over 3 hills"
	verifier  = "verifier-0123456789-0123456789-0123456789-01"
	challenge = "code_challenge_method=S256&code_challenge="
	callback  = "https://app.example.org/callback"
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
	base, secret string
	handle       string
	password     string
	client       *http.Client
	refresh      string // newest refresh token; empty: none, or spent with an unknown outcome
	access       string
	family       []string // access tokens of the grant of refresh
	etag         string
}

var addresses atomic.Uint32

// newMember comes from an address of its own: the limits count by it.
func newMember(l *ledger, c *installation, secret, handle string) *member {
	n := addresses.Add(1)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>14), byte(n>>7&0x7f), 1+byte(n&0x7f))}}
	jar, _ := cookiejar.New(nil)
	return &member{ledger: l, base: c.URL, secret: secret, handle: handle, password: password, client: &http.Client{
		Jar: jar, Timeout: 40 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(address)
			return dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		}},
	}}
}

// answer is the response; with status 0 or 503 the request may or may not have been carried out.
type answer struct {
	status int
	header http.Header
	text   string
	json   map[string]any
}

func (a answer) unknown() bool { return a.status == 0 || a.status >= 500 }

func (a answer) str(name string) string { s, _ := a.json[name].(string); return s }

// do sends a request and notes it; header are pairs.
func (m *member) do(what, method, address, contentType, body string, header ...string) answer {
	if strings.HasPrefix(address, "/") {
		address = m.base + address
	}
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		m.fault("%s: %v", what, err)
		return answer{}
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	n, a := request{what: what, begin: time.Now(), direct: !strings.HasPrefix(address, m.base)}, answer{}
	got, err := m.client.Do(r)
	if err == nil {
		var b []byte
		b, err = io.ReadAll(got.Body)
		_ = got.Body.Close()
		a.text, a.header = string(b), got.Header
	}
	n.end = time.Now()
	if err == nil {
		a.status = got.StatusCode
		_ = json.Unmarshal([]byte(a.text), &a.json)
		n.status, n.announced = a.status, a.status == http.StatusServiceUnavailable && got.Header.Get("Retry-After") != ""
	}
	if a.unknown() {
		n.text = fmt.Sprintf("%v %d %.200s", err, a.status, a.text)
	}
	m.note(func() { m.requests = append(m.requests, n) })
	if a.unknown() {
		time.Sleep(500 * time.Millisecond) // a little less than the service asks for
	}
	return a
}

func (m *member) api(what, method, path string, body any) answer {
	if body == nil {
		return m.do(what, method, path, "", "")
	}
	b, _ := json.Marshal(body)
	return m.do(what, method, path, "application/json", string(b))
}

// post is the application's request, to the proxy or to one instance.
func (m *member) post(what, address string, form url.Values) answer {
	form.Set("client_id", "app")
	form.Set("client_secret", m.secret)
	return m.do(what, "POST", address, "application/x-www-form-urlencoded", form.Encode())
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

// claims of a session token.
func claims(token string) (c struct {
	Sid    string `json:"sid"`
	Status struct {
		List struct {
			Index int    `json:"idx"`
			URI   string `json:"uri"`
		} `json:"status_list"`
	} `json:"status"`
}) {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		b, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(b, &c)
	}
	return c
}

func (m *member) signIn() bool {
	before := m.cookie()
	a := m.api("sign-in", "POST", "/api/auth/login", map[string]string{"handle": m.handle, "password": m.password})
	switch {
	case a.status == http.StatusOK:
		if before != "" && before != m.cookie() { // a new sign-in replaces the cookie
			m.note(func() { m.ended[before] = "a new sign-in" })
		}
		return true
	case a.status == http.StatusUnauthorized: // one of those that may be right
		var maybe []string
		m.note(func() { maybe = slices.Clone(m.passwords[m.handle]) })
		for _, other := range maybe {
			if other != m.password {
				m.password = other
				return false
			}
		}
		m.fault("%s cannot sign in", m.handle)
	case !a.unknown():
		m.fault("sign-in of %s: %d %s", m.handle, a.status, a.text)
	}
	return false
}

// code asks for an authorization code; empty when there is none.
func (m *member) code() string {
	a := m.do("authorize", "GET", "/oauth2/authorize?response_type=code&client_id=app&scope=openid+profile+offline_access&state=state-0123456789&redirect_uri="+url.QueryEscape(callback)+
		"&"+challenge+oauth2.S256ChallengeFromVerifier(verifier), "", "")
	at, err := url.Parse(a.header.Get("Location"))
	if code := ""; err == nil && a.status == http.StatusSeeOther {
		if code = at.Query().Get("code"); code != "" {
			return code
		}
	}
	if !a.unknown() {
		m.fault("authorize: %d %s", a.status, a.header.Get("Location"))
	}
	return ""
}

// redeem spends a code, and asks again as long as it is not known what became of it.
func (m *member) redeem(address, code string) answer {
	for try := 0; ; try++ {
		a := m.post("token", address+"/oauth2/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}})
		switch {
		case a.status == http.StatusOK:
			m.accepted("code " + code)
			return a
		case a.unknown() && try < 5:
		case !a.unknown() && (a.str("error") != "invalid_grant" || try == 0 && address == m.base):
			m.fault("token: %d %s", a.status, a.text)
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
	if a.status != http.StatusOK {
		return
	}
	m.access, m.refresh = a.str("access_token"), a.str("refresh_token")
	m.family = []string{m.access}
	sid := claims(m.cookie()).Sid
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
		a := m.post("refresh", "/oauth2/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {used}})
		switch {
		case a.status == http.StatusOK:
			m.accepted("refresh token " + used)
			m.access, m.refresh = a.str("access_token"), a.str("refresh_token")
			m.family = append(m.family, m.access)
			m.note(func() { m.live[m.access] = m.handle })
			return
		case !a.unknown():
			if try == 0 {
				m.fault("refresh of %s: %d %s", m.handle, a.status, a.text)
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
	if a := m.do("userinfo", "GET", "/oauth2/userinfo", "", "", "Authorization", "Bearer "+m.access); a.status != http.StatusOK && !a.unknown() {
		m.fault("userinfo of %s: %d %s", m.handle, a.status, a.text)
	}
}

func (m *member) introspect() {
	if m.access == "" {
		m.tokens()
		return
	}
	if a := m.post("introspect", "/oauth2/introspect", url.Values{"token": {m.access}}); a.status == http.StatusOK && a.json["active"] != true || a.status != http.StatusOK && !a.unknown() {
		m.fault("introspection of %s: %d %s", m.handle, a.status, a.text)
	}
}

func (m *member) me() {
	if a := m.api("me", "GET", "/api/me", nil); a.status != http.StatusOK && !a.unknown() {
		m.fault("/api/me of %s: %d %s", m.handle, a.status, a.text)
	}
}

// revoke ends the grant by its refresh token.
func (m *member) revoke() {
	if m.refresh == "" {
		return
	}
	a := m.post("revoke", "/oauth2/revoke", url.Values{"token": {m.refresh}})
	why := ""
	if a.status == http.StatusOK {
		why = "revoked"
	} else if !a.unknown() {
		m.fault("revoke: %d %s", a.status, a.text)
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
	case a.status == http.StatusOK:
		m.password, why = next, "the password was changed"
		m.note(func() { m.passwords[m.handle] = []string{next} })
	case !a.unknown():
		m.fault("change of the password of %s: %d %s", m.handle, a.status, a.text)
	}
	m.access, m.refresh = "", ""
	m.note(func() { m.kill(m.handle, why) })
}

func (m *member) signOut() {
	token := m.cookie()
	sid := claims(token).Sid
	a := m.api("sign-out", "POST", "/api/auth/logout", nil)
	m.note(func() {
		if a.status == http.StatusOK {
			m.ended[token] = "signed out"
			if _, has := m.owed[sid]; has {
				m.owed[sid] = true
			}
		}
		m.kill(m.handle, "")
	})
	if a.status != http.StatusOK && !a.unknown() {
		m.fault("sign-out: %d %s", a.status, a.text)
	}
	m.access, m.refresh = "", ""
	m.client.Jar, _ = cookiejar.New(nil)
}

// status waits for a change of the list, as applications do.
func (m *member) status() {
	uri := claims(m.cookie()).Status.List.URI
	if uri == "" {
		m.signIn()
		return
	}
	a := m.do("status wait", "GET", uri, "", "", "Prefer", "wait=2", "If-None-Match", m.etag)
	switch a.status {
	case http.StatusOK, http.StatusNotModified:
		m.etag = a.header.Get("ETag")
	default:
		if !a.unknown() {
			m.fault("status list: %d %s", a.status, a.text)
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
	if a.status != http.StatusCreated && !a.unknown() {
		m.fault("invite: %d %s", a.status, a.text)
	}
	return a.str("code")
}

// register makes an account of an invite, and asks again as long as it is not known what
// became of it.
func (m *member) register(base, invite string) bool {
	for try := 0; try < 6; try++ {
		a := m.api("register", "POST", base+"/api/register", map[string]string{"code": invite, "handle": m.handle, "password": m.password})
		if a.status == http.StatusCreated {
			m.accepted("invite " + invite)
			m.note(func() { m.passwords[m.handle] = []string{m.password} })
			return true
		}
		if !a.unknown() {
			if base == m.base && try == 0 {
				m.fault("register: %d %s", a.status, a.text)
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
		if a := m.redeem(m.base, code); a.status == http.StatusOK {
			used := a.str("refresh_token")
			both(func(_ int, base string) {
				if a := m.post("refresh twice", base+"/oauth2/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {used}}); a.status == http.StatusOK {
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
		if a.status == http.StatusOK {
			m.accepted("reset code " + code)
			l.note(func() { l.passwords[m.handle] = []string{passwords[i]} })
		}
	})
}
