// Package accounttest runs the account service on a real store, for the tests of account and of
// what is mounted beside it.
package accounttest

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/letter"
	"github.com/cairn-id/cairn/account/mail"
	"github.com/cairn-id/cairn/account/passkey"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/docs/openapitest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/templates"
)

// Passwords that are good enough: that of every user that AddUser makes, and another.
const (
	Password    = "seven rusty anchors"
	NewPassword = "eleven quiet lanterns"
)

// Secret is the secret and the key of the installation.
var Secret = []byte("0123456789abcdef0123456789abcdef")

// Clock is the time of a test; it moves only when told to.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// World is an installation: a real store, the service and its router, held to docs/openapi.yaml.
type World struct {
	T        testing.TB
	Store    account.Store
	Service  *site.Site
	Passkeys *passkey.Service
	Post     *letter.Post
	Hasher   *passwords.Hasher
	Router   http.Handler
	Clock    *Clock
	Base     string

	mount func(*site.Site, *mux.Router)
}

// Options are those of the service, its passkeys and its mails.
type Options struct {
	person.Options
	// PasskeyHost and PasskeyOrigins are the arguments of passkey.NewParty.
	PasskeyHost    string
	PasskeyOrigins []string
	Mail           mail.Sender // nil: no mails are sent
}

// New makes an installation; change may alter its options.
func New(t testing.TB, change ...func(*Options)) *World {
	t.Helper()
	return Mounted(t, nil, change...)
}

// With is New with members, who have the usual password.
func With(t testing.TB, handles ...string) *World {
	t.Helper()
	w := New(t)
	for _, handle := range handles {
		w.AddUser(handle)
	}
	return w
}

// SignedIn is New with a member and their browser, which is signed in.
func SignedIn(t testing.TB, handle string, flags ...string) (*World, *Browser) {
	t.Helper()
	w := New(t)
	return w, w.Member(handle, flags...)
}

// Mounted is New, where mount, unless it is nil, adds to the router of the service.
func Mounted(t testing.TB, mount func(*site.Site, *mux.Router), change ...func(*Options)) *World {
	t.Helper()
	clock := NewClock()
	return on(t, storetest.NewAt(t, clock.Now), clock, mount, change...)
}

// NewClock returns a clock that stands at the present second.
func NewClock() *Clock { return &Clock{t: time.Now().UTC().Truncate(time.Second)} }

// On is New on a store of others, whose clock is another one, where mount, unless it is nil, adds to the
// router of the service.
func On(
	t testing.TB, store account.Store, mount func(*site.Site, *mux.Router), change ...func(*Options),
) *World {
	t.Helper()
	return on(t, store, NewClock(), mount, change...)
}

func on(
	t testing.TB, store account.Store, clock *Clock, mount func(*site.Site, *mux.Router), change ...func(*Options),
) *World {
	t.Helper()
	w := &World{T: t, Store: store, Clock: clock, mount: mount}
	secrets := map[string][]byte{account.SecretJWT: Secret, account.SecretInstallation: Secret}
	if _, err := w.Store.Initialize(t.Context(), account.DefaultSettings(), secrets); err != nil {
		t.Fatal(err)
	}
	w.Start(change...)
	return w
}

// Start creates the service again on the same store, as a restart with other
// options would.
func (w *World) Start(change ...func(*Options)) {
	w.T.Helper()
	hasher, err := passwords.NewTestHasher()
	if err != nil {
		w.T.Fatal(err)
	}
	w.Hasher = hasher
	o := Options{Options: person.Options{
		Store: w.Store, Issuer: "http://localhost:4040", Secret: Secret, Key: Secret, CookieName: "cairn_session",
		Hasher: hasher, Limits: web.NewLimits(nil, nil, nil, nil), Now: w.Clock.Now, StatusTTL: time.Minute,
	}}
	for _, c := range change {
		c(&o)
	}
	u, err := url.Parse(o.Issuer)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Base = u.Path
	if o.Pages, err = templates.New(templates.Options{BasePath: w.Base, HTTPS: u.Scheme == "https"}); err != nil {
		w.T.Fatal(err)
	}
	party, err := passkey.NewParty(o.Issuer, o.PasskeyHost, o.PasskeyOrigins)
	if err != nil {
		w.T.Fatal(err)
	}
	o.PasskeyHosts, o.Options.Mail = party.Hosts(), o.Mail != nil
	service, err := person.New(o.Options)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Passkeys = passkey.New(service, party)
	w.Post = letter.New(service, o.Pages, o.Mail)
	w.Service = site.New(service, w.Passkeys)
	m := mux.NewRouter().SkipClean(true)
	sub := m
	if w.Base != "" {
		sub = m.PathPrefix(w.Base).Subrouter()
	}
	w.Service.Mount(sub)
	o.Pages.SetLook(w.Service.Look)
	o.Pages.SetInstanceName(w.Service.InstanceName)
	if w.mount != nil {
		o.Pages.SetWaiting(w.Service.WaitingRequests)
		w.mount(w.Service, sub)
	}
	w.Router = openapitest.Handler(w.T, w.Base, m)
}

// Administration is what administrators and the operator do.
func (w *World) Administration() *roster.Administration { return roster.Of(w.Service.Base) }

// AddUser makes a member with the usual password.
func (w *World) AddUser(handle string, flags ...string) account.User {
	w.T.Helper()
	hash, err := w.Hasher.Hash(w.T.Context(), Password)
	if err != nil {
		w.T.Fatal(err)
	}
	u := account.User{
		Sub: uuid.NewString(), Handle: handle, DisplayName: strings.ToUpper(handle[:1]) + handle[1:],
		PasswordHash: hash,
		Flags:        flags, CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now(),
	}
	created := account.Operator().Audit(w.Clock.Now(), account.AddUser, handle, "")
	if err := w.Store.CreateUser(w.T.Context(), u, created); err != nil {
		w.T.Fatal(err)
	}
	return w.User(handle)
}

// Member is AddUser, and the browser of the user, which is signed in.
func (w *World) Member(handle string, flags ...string) *Browser {
	w.T.Helper()
	w.AddUser(handle, flags...)
	return w.SignedIn(handle)
}

// User returns a user by handle.
func (w *World) User(handle string) account.User {
	w.T.Helper()
	u, err := w.Store.UserByHandle(w.T.Context(), handle)
	if err != nil {
		w.T.Fatal(err)
	}
	return u
}

// HostileNames have what the languages escape in which names leave: addresses, headers, HTML, CSV and mails.
var HostileNames = []string{
	"A&B", "A&secret=AAAA", "a=b;c", "50 % + 1", "%41%0d%0a", "a/b?c#d", `"A" \ 'B', <C>`, "Müller 🏔",
	"נבחרת א", "a:b", "=1+1", "@sum;+1", "'-x",
}

// SaveSettings changes the settings as the operator does, from the defaults.
func (w *World) SaveSettings(change func(*account.Settings)) {
	w.T.Helper()
	v := account.DefaultSettings()
	change(&v)
	all := account.SettingsChange{}
	for _, m := range account.SettingsMembers {
		all[m.Name] = m.Value(v)
	}
	if _, err := w.Service.ChangeSettings(w.T.Context(), account.Operator(), all); err != nil {
		w.T.Fatal(err)
	}
}

// Invite makes an invite of the operator.
func (w *World) Invite() account.Invite {
	w.T.Helper()
	i, err := account.NewInvite("", "", w.Clock.Now())
	if err != nil {
		w.T.Fatal(err)
	}
	created := account.Operator().Audit(i.CreatedAt, account.CreateInvite, "", "")
	if err := w.Store.CreateInvite(w.T.Context(), i, -1, created); err != nil {
		w.T.Fatal(err)
	}
	return i
}

// ResetCode issues a reset code for a user.
func (w *World) ResetCode(handle string) string {
	w.T.Helper()
	c, err := w.Administration().WithMail(false).IssueResetCode(w.T.Context(), account.Operator(), w.User(handle))
	if err != nil {
		w.T.Fatal(err)
	}
	return c.Code
}

// Suspend suspends a user as the operator does.
func (w *World) Suspend(handle string) {
	w.T.Helper()
	users := w.Administration()
	if err := users.Suspend(w.T.Context(), account.Operator(), w.User(handle), "", false); err != nil {
		w.T.Fatal(err)
	}
}
