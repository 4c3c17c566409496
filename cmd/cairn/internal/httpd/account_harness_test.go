package httpd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"maps"
	"mime/multipart"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/google/uuid"
	"github.com/pquerna/otp/totp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/mail"
	ua "github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

type object = map[string]any

// stale is how long after a proof a session is no longer fresh.
const stale = 10*time.Minute + time.Second

// life is a service whose time moves only when it is told to, and that keeps the mails it sends.
type life struct {
	*service
	begin  time.Time
	ahead  atomic.Int64 // seconds
	keeper *browser     // an administrator without a second factor

	mu   sync.Mutex
	sent []mail.Message
}

// eachLife runs a test that races on both databases.
func eachLife(t *testing.T, limits bool, test func(t *testing.T, l *life)) {
	t.Helper()
	beside(t)
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		test(t, startLife(t, serviceOptions{
			Store: storetest.Open(t, dsn), Limits: limits,
			Settings: func(c *config.Settings) { c.Database = dsn },
		}))
	})
}

// startLife starts a life. Its time begins with the next window of the limits: it is never
// behind that of the connections, which have deadlines. It has the keeper and these members.
func startLife(t *testing.T, o serviceOptions, members ...string) *life {
	t.Helper()
	l := &life{begin: time.Now().UTC().Truncate(15 * time.Minute).Add(15 * time.Minute)}
	o.Mail, o.Now = l, l.now
	l.service = startService(t, o)
	l.member("keeper", account.FlagAdmin)
	l.keeper = l.signedIn("keeper")
	for _, handle := range members {
		l.member(handle)
	}
	return l
}

func (l *life) now() time.Time { return l.begin.Add(time.Duration(l.ahead.Load()) * time.Second) }

func (l *life) later(d time.Duration) { l.ahead.Add(int64(d / time.Second)) }

// Send implements mail.Sender.
func (l *life) Send(_ context.Context, m mail.Message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, m)
	return nil
}

// mails returns what was sent since the last call, by address in lower case, when nothing waits any more.
func (l *life) mails() map[string][]mail.Message {
	l.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		state, err := l.store.MailState(l.t.Context())
		noError(l.t, err)
		if state.Waiting == 0 {
			break
		}
		if time.Now().After(end) {
			l.t.Fatalf("mails wait: %+v", state)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	got := map[string][]mail.Message{}
	for _, m := range l.sent {
		to := strings.ToLower(m.To)
		got[to] = append(got[to], m)
	}
	l.sent = nil
	return got
}

// mail is the only one that was sent to an address since the last call of mails.
func (l *life) mail(what, to string) mail.Message {
	l.t.Helper()
	return only(l.t, what, l.mails(), to)
}

func only(t *testing.T, what string, sent map[string][]mail.Message, to string) mail.Message {
	t.Helper()
	got := sent[strings.ToLower(to)]
	if len(got) != 1 {
		t.Fatalf("%s: %d mails to %s, want 1: %q", what, len(got), to, got)
	}
	return got[0]
}

// linkIn is a parameter of the link that a mail has to a page; "" without the link.
func linkIn(m mail.Message, page, parameter string) string {
	found := regexp.MustCompile(`(?m)http://localhost:\d+` + page + `\?(\S+)$`).FindStringSubmatch(m.Text)
	if found == nil {
		return ""
	}
	q, _ := url.ParseQuery(found[1])
	return q.Get(parameter)
}

// verifyEmail verifies an address by the code of six digits in a mail.
func (b *browser) verifyEmail(m mail.Message) response {
	b.t.Helper()
	return b.api("POST", "/api/me/email/verify", object{"code": regexp.MustCompile(`\b\d{6}\b`).FindString(m.Text)})
}

// moveEmail replaces a verified address by another, whose mail it reads, and returns the mails that tell of it.
func (l *life) moveEmail(b *browser, to string) map[string][]mail.Message {
	l.t.Helper()
	needStatus(l.t, to, b.changeEmail(to), 200)
	needStatus(l.t, to, b.verifyEmail(l.verification(to)), 200)
	return l.mails()
}

// verification is the new mail that verifies an address.
func (l *life) verification(to string) mail.Message {
	l.t.Helper()
	for _, m := range l.mails()[to] {
		if linkIn(m, "/verify-email/", "link") != "" {
			return m
		}
	}
	l.t.Fatalf("no mail verifies %s", to)
	return mail.Message{}
}

// member adds a person with a verified address at example.org.
func (l *life) member(handle string, flags ...string) {
	l.t.Helper()
	hash, err := l.hasher.Hash(l.t.Context(), password)
	noError(l.t, err)
	noError(l.t, l.store.CreateUser(l.t.Context(), account.User{
		Sub: uuid.NewString(), Handle: handle, DisplayName: handle, Email: handle + "@example.org", EmailVerified: true,
		PasswordHash: hash, Flags: flags, CreatedAt: l.now(), UpdatedAt: l.now(),
	}, operator(account.AddUser, handle, "")))
}

// admin sends a request of the administrator, whose session is made fresh before it.
func (l *life) admin(line string) response {
	l.t.Helper()
	needStatus(l.t, "keeper", l.keeper.confirm(password, ""), 200)
	return l.keeper.call(strings.Replace(line, " ", " /api/admin", 1))
}

// user returns a user as the administration shows them.
func (l *life) user(handle string) object {
	l.t.Helper()
	return needStatus(l.t, handle, l.keeper.api("GET", "/api/admin/users/"+handle, nil), 200).JSON(l.t)
}

func (b *browser) confirm(password, otp string) response {
	b.t.Helper()
	in := object{"password": password, "otp": otp}
	maps.DeleteFunc(in, func(_ string, v any) bool { return v == "" })
	return b.api("POST", "/api/auth/confirm", in)
}

// call sends a request that is written in one line: method, path, and perhaps a body.
func (b *browser) call(line string) response {
	b.t.Helper()
	part := strings.SplitN(line, " ", 3)
	if len(part) == 2 {
		return b.api(part[0], part[1], nil)
	}
	return b.api(part[0], part[1], part[2])
}

// text is a member of an answer.
func (r response) text(t *testing.T, name string) string {
	t.Helper()
	text, _ := r.JSON(t)[name].(string)
	return text
}

func (b *browser) me() response { b.t.Helper(); return b.call("GET /api/me") }

func (b *browser) sessionID() string {
	b.t.Helper()
	return needStatus(b.t, "me", b.me(), 200).JSON(b.t)["session"].(object)["id"].(string)
}

func (b *browser) changeEmail(to string) response {
	b.t.Helper()
	return b.api("PATCH", "/api/me", object{"email": to})
}

func (b *browser) changePassword(current, to string) response {
	b.t.Helper()
	return b.api("PUT", "/api/me/password", object{"current_password": current, "new_password": to})
}

// factors is the number of second factors of who is signed in.
func (b *browser) factors() int {
	b.t.Helper()
	got := needStatus(b.t, "factors", b.call("GET /api/me/factors"), 200).JSON(b.t)
	n := int(got["passkeys"].(float64))
	if got["totp"] != nil {
		n++
	}
	return n
}

// phone has the authenticator app of a person.
type phone struct {
	l             *life
	secret, token string // token is that of its enrolment
}

// code is one that the app has not shown before.
func (p *phone) code() string {
	p.l.t.Helper()
	p.l.later(31 * time.Second)
	code, err := totp.GenerateCode(p.secret, p.l.now())
	noError(p.l.t, err)
	return code
}

// drawTOTP begins an enrolment.
func (l *life) drawTOTP(b *browser) *phone {
	l.t.Helper()
	drawn := needStatus(l.t, "draw", b.call("POST /api/me/totp"), 200).JSON(l.t)
	return &phone{l: l, secret: drawn["secret"].(string), token: drawn["token"].(string)}
}

// confirmTOTP ends an enrolment; more are further members of the body.
func (p *phone) confirmTOTP(b *browser, more object) response {
	p.l.t.Helper()
	in := object{"token": p.token, "code": p.code()}
	maps.Copy(in, more)
	return b.api("POST", "/api/me/totp/confirm", in)
}

// addTOTP gives who is signed in an authenticator app.
func (l *life) addTOTP(b *browser) *phone {
	l.t.Helper()
	p := l.drawTOTP(b)
	needStatus(l.t, "enrol", p.confirmTOTP(b, nil), 200)
	return p
}

// signedInWith is a visitor who has signed in with password and code.
func (l *life) signedInWith(handle, code string) *browser {
	l.t.Helper()
	b := l.visitor()
	in := object{"handle": handle, "password": password, "otp": code}
	needStatus(l.t, "sign in as "+handle, b.api("POST", "/api/auth/login", in), 200)
	return b
}

// keyring is an authenticator with a passkey of one person.
type keyring struct {
	party  virtualwebauthn.RelyingParty
	device virtualwebauthn.Authenticator
	key    virtualwebauthn.Credential
}

func (s *service) keyring() *keyring {
	k := &keyring{
		party:  virtualwebauthn.RelyingParty{ID: "localhost", Origin: s.URL},
		device: virtualwebauthn.NewAuthenticator(),
	}
	for {
		k.key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		private, _ := x509.ParsePKCS8PrivateKey(k.key.Key.Data)
		point, _ := private.(*ecdsa.PrivateKey).PublicKey.Bytes() // 4, then two coordinates of 32 bytes
		// The library writes coordinates without leading zeros, which no authenticator does.
		if point[1] != 0 && point[33] != 0 {
			return k
		}
	}
}

func ceremonyOf(t *testing.T, begun response) (state any, options string) {
	t.Helper()
	got := needStatus(t, "begin", begun, 200).JSON(t)
	return got["state"], mustJSON(t, got["publicKey"])
}

// create begins to add the passkey and returns the body that ends it.
func (k *keyring) create(b *browser, name string) object {
	b.t.Helper()
	state, text := ceremonyOf(b.t, b.call("POST /api/me/passkeys/begin"))
	options, err := virtualwebauthn.ParseAttestationOptions(text)
	noError(b.t, err)
	k.device.Options.UserHandle = []byte(options.UserID)
	credential := virtualwebauthn.CreateAttestationResponse(k.party, k.device, k.key, *options)
	return object{"state": state, "name": name, "credential": json.RawMessage(credential)}
}

// prove signs in or confirms with the passkey.
func (k *keyring) prove(b *browser, purpose string) response {
	b.t.Helper()
	state, text := ceremonyOf(b.t, b.api("POST", "/api/auth/passkey/begin", object{"purpose": purpose}))
	options, err := virtualwebauthn.ParseAssertionOptions(text)
	noError(b.t, err)
	k.key.Counter++
	credential := virtualwebauthn.CreateAssertionResponse(k.party, k.device, k.key, *options)
	return b.api("POST", "/api/auth/passkey/finish", object{
		"purpose": purpose, "state": state, "credential": json.RawMessage(credential),
	})
}

// addPasskey gives who is signed in a passkey and returns its id.
func (l *life) addPasskey(b *browser, name string, more object) (*keyring, string) {
	l.t.Helper()
	k := l.keyring()
	in := k.create(b, name)
	maps.Copy(in, more)
	got := needStatus(l.t, "add passkey", b.api("POST", "/api/me/passkeys", in), 201)
	return k, got.JSON(l.t)["id"].(string)
}

// sendForm posts a form as a browser does.
func (b *browser) sendForm(f *ua.Form) response {
	b.t.Helper()
	if f.Kind == "multipart/form-data" {
		return b.postMultipart(f.Action, f.Names, f.Values, nil)
	}
	return b.postForm(f.Action, f.Values)
}

// postMultipart posts the named fields, with a file of the name of the form unless that is nil.
func (b *browser) postMultipart(action string, names []string, fields url.Values, file []byte) response {
	b.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, name := range names {
		for _, v := range fields[name] {
			noError(b.t, w.WriteField(name, v))
		}
	}
	if file != nil {
		part, err := w.CreateFormFile(path.Base(action), "file.png")
		noError(b.t, err)
		_, err = part.Write(file)
		noError(b.t, err)
	}
	noError(b.t, w.Close())
	return b.do("POST", action, w.FormDataContentType(), body.String(), "Accept", "text/html")
}
