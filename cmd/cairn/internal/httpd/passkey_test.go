package httpd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest"
)

// virtualAuthenticator gives the tab an authenticator that verifies its user (CTAP2, resident keys).
func virtualAuthenticator(t *testing.T, tab context.Context) webauthn.AuthenticatorID {
	t.Helper()
	_, err := chromedp.Call(tab, webauthn.Enable, webauthn.EnableParams{})
	noError(t, err)
	added, err := chromedp.Call(tab, webauthn.AddVirtualAuthenticator,
		webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}})
	noError(t, err)
	return added.AuthenticatorID
}

// withoutList keeps pages from offering passkeys in the list of a field, where the
// virtual authenticator would answer before anything can be clicked, until again is called.
func withoutList(t *testing.T, tab context.Context) (again func()) {
	t.Helper()
	added, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument,
		cdppage.AddScriptToEvaluateOnNewDocumentParams{
			Source: "PublicKeyCredential.isConditionalMediationAvailable = () => Promise.resolve(false)",
		})
	noError(t, err)
	return func() {
		t.Helper()
		_, err := chromedp.Call(tab, cdppage.RemoveScriptToEvaluateOnNewDocument,
			cdppage.RemoveScriptToEvaluateOnNewDocumentParams(added))
		noError(t, err)
	}
}

// addPasskeyIn signs ada in at a service and adds a passkey.
func addPasskeyIn(t *testing.T, tab context.Context, base string) {
	t.Helper()
	mustDo(t, tab, "sign in", chromedp.Navigate(base+"/login/"))
	signInAs(t, tab, "ada", password, "account")
	mustDo(t, tab, "add", chromedp.Navigate(base+"/account/security"), chromedp.WaitVisible(id("passkey-submit")),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("li[data-key]")))
}

// What a member does: adds a passkey, keeps the codes, and signs in with the button, from
// the field, and after the password.
func TestPasskeyInABrowser(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	tab := chromium(t)
	virtualAuthenticator(t, tab)
	mustDo(t, tab, "sign-in page", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")))
	shot(t, tab, "login-passkey")
	signInAs(t, tab, "ada", password, "account")
	mustDo(t, tab, "security page", chromedp.Navigate(s.URL+"/account/security"), chromedp.WaitVisible(id("passkey-submit")))
	shot(t, tab, "security-no-passkeys")
	mustDo(t, tab, "add a passkey", chromedp.Click(id("second_step")), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(id("recovery-codes")),
		chromedp.Click(id("recovery-done")), chromedp.WaitVisible(chromedp.CSS("li[data-key]")))
	mustDo(t, tab, "its name", chromedp.Click(chromedp.CSS("li[data-key] summary")), chromedp.SetValue(chromedp.CSS("li[data-key] [name=name]"), "Laptop"),
		chromedp.Click(chromedp.CSS("li[data-key] details button")), chromedp.WaitVisible(chromedp.CSS("#passkeys [role=status]")))
	shot(t, tab, "security-passkey")
	mustDo(t, tab, "add it again", chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("[data-error][role=alert]")))
	shot(t, tab, "security-passkey-exists")

	again := withoutList(t, tab)
	signOutIn(t, tab, s)
	mustDo(t, tab, "the button", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	signOutIn(t, tab, s)
	again()
	mustDo(t, tab, "the list of the field", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(page("account")))

	withoutList(t, tab)
	signOutIn(t, tab, s)
	mustDo(t, tab, "password", chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "second-factor")
	mustDo(t, tab, "second step", chromedp.WaitVisible(id("passkey-submit")))
	shot(t, tab, "second-factor-passkey")
	mustDo(t, tab, "second step", chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	mustDo(t, tab, "confirm", chromedp.Navigate(s.URL+"/account/confirm?next=/account/security"), chromedp.WaitVisible(id("passkey-submit")))
	shot(t, tab, "confirm-passkey")
	mustDo(t, tab, "confirm", chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account-security")))
	u, err := s.store.UserByHandle(t.Context(), "ada")
	noError(t, err)
	keys, err := s.store.Passkeys(t.Context(), u.Sub)
	noError(t, err)
	if len(keys) != 1 || keys[0].Name != "Laptop" || keys[0].SignCount < 4 || keys[0].LastUsedAt.IsZero() {
		t.Errorf("%+v", keys)
	}
}

// Each way in which a ceremony can fail is told in its own words.
func TestEachFailureOfACeremonyHasItsSentence(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	tab := chromium(t)
	virtualAuthenticator(t, tab)
	withoutList(t, tab)
	fails := func(name, page, want string) {
		t.Helper()
		mustDo(t, tab, page, chromedp.Navigate(s.URL+page), chromedp.WaitVisible(id("passkey-submit")))
		_, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(() => {
			const fail = () => Promise.reject(new DOMException("", "`+name+`"));
			navigator.credentials.get = navigator.credentials.create = fail;
			PublicKeyCredential.isUserVerifyingPlatformAuthenticatorAvailable = () => Promise.resolve(false);
			return true })()`))
		noError(t, err)
		mustDo(t, tab, name, chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("[data-error][role=alert]")))
		if got := textOf(t, tab, chromedp.CSS("[data-error][role=alert]")); !strings.Contains(got, want) {
			t.Errorf("%s at %s: %q, want %q", name, page, got, want)
		}
	}
	host := "only at localhost. Open the page there"
	common := map[string]string{"SecurityError": host, "AbortError": "got in the way", "UnknownError": "Your browser could not",
		"ConstraintError": "Set up a screen lock"}
	for name, want := range common {
		fails(name, "/login/", want)
	}
	fails("NotAllowedError", "/login/", "If this device has no screen lock")
	fails("NotSupportedError", "/login/", "Use the device that holds it")
	fails("InvalidStateError", "/login/", "Choose another one")
	signInAs(t, tab, "ada", password, "account")
	for name, want := range common {
		fails(name, "/account/security", want)
	}
	fails("NotAllowedError", "/account/security", "If this device has no screen lock")
	fails("NotSupportedError", "/account/security", "cannot make the kind of passkey")
	fails("InvalidStateError", "/account/security", "already has a passkey")
}

// inviteLink is the link of a new invite of the operator.
func (s *service) inviteLink() string {
	s.t.Helper()
	i, err := account.NewInvite("", "", time.Now())
	noError(s.t, err)
	noError(s.t, s.store.CreateInvite(s.t.Context(), i, -1, account.Operator().Audit(time.Now(), account.CreateInvite, "", "")))
	return account.InviteURL(s.URL, i)
}

// signals are what a device was told about its passkeys, seen over CDP.
type signals struct {
	mu               sync.Mutex
	deleted, renamed []string
}

func listenForSignals(t *testing.T, tab context.Context) *signals {
	t.Helper()
	s := &signals{}
	noError(t, chromedp.Listen(tab, func(ev any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch ev := ev.(type) {
		case *webauthn.EventCredentialDeleted:
			s.deleted = append(s.deleted, string(ev.CredentialID))
		case *webauthn.EventCredentialUpdated:
			s.renamed = append(s.renamed, ev.Credential.UserDisplayName)
		}
	}))
	return s
}

// wait waits for a signal.
func (s *signals) wait(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.mu.Lock()
		ok := seen()
		s.mu.Unlock()
		if ok {
			return
		}
	}
	t.Errorf("%s: the device was not told: %+v", what, s)
}

// From the invite to signed-in without any password, and back in by a recovery code after losing the
// device, which forgets the passkeys that are gone.
func TestLifeWithoutAPasswordInABrowser(t *testing.T) {
	s := startService(t, serviceOptions{Limits: true})
	tab := chromium(t)
	withoutList(t, tab)
	device := virtualAuthenticator(t, tab)
	told := listenForSignals(t, tab)
	passkeys := func() []account.Passkey {
		t.Helper()
		u, err := s.store.UserByHandle(t.Context(), "grace")
		noError(t, err)
		keys, err := s.store.Passkeys(t.Context(), u.Sub)
		noError(t, err)
		return keys
	}
	mustDo(t, tab, "a handle that is refused makes no passkey", chromedp.EmulateViewport(390, 844),
		chromedp.Navigate(s.inviteLink()), chromedp.WaitVisible(id("passkey-submit")))
	shot(t, tab, "passwordless-register")
	mustDo(t, tab, "a handle that is refused makes no passkey", chromedp.SendKeys(field("handle"), "-"),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("[data-error][role=alert]")))
	mustDo(t, tab, "join", chromedp.SetValue(field("handle"), "grace"), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(id("recovery-codes")))
	fits(t, tab)
	shot(t, tab, "passwordless-codes")
	codes := strings.Fields(textOf(t, tab, id("recovery-codes")))
	mustDo(t, tab, "to the account", chromedp.Click(id("recovery-done")),
		chromedp.WaitVisible(page("account-welcome")), chromedp.Navigate(s.URL+"/account/security"), chromedp.WaitVisible(id("passwordless")))
	fits(t, tab)
	shot(t, tab, "passwordless-security")
	u, err := s.store.UserByHandle(t.Context(), "grace")
	if err != nil || !u.Passwordless() || len(codes) != 10 {
		t.Fatalf("%+v, %d codes: %v", u, len(codes), err)
	}
	signOutIn(t, tab, s)
	mustDo(t, tab, "sign in", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	mustDo(t, tab, "a new name", chromedp.Navigate(s.URL+"/account/profile"), chromedp.SetValue(id("display_name"),
		"Grace of the Hills"), chromedp.Click(id("profile-submit")), chromedp.WaitVisible(chromedp.CSS("#profile [role=status]")))
	told.wait(t, "a new name", func() bool { return slices.Contains(told.renamed, "Grace of the Hills") })
	signOutIn(t, tab, s)

	_, err = chromedp.Call(tab, webauthn.RemoveVirtualAuthenticator,
		webauthn.RemoveVirtualAuthenticatorParams{AuthenticatorID: device})
	noError(t, err)
	virtualAuthenticator(t, tab)
	lost := passkeys()[0]
	mustDo(t, tab, "the device is lost", chromedp.Navigate(s.URL+"/login/"),
		chromedp.Click(chromedp.CSS("#login summary")), chromedp.Click(id("login-recover")), chromedp.WaitVisible(page("recover")))
	fits(t, tab)
	shot(t, tab, "passwordless-recover")
	mustDo(t, tab, "a code", chromedp.SendKeys(field("handle"), "grace"), chromedp.SendKeys(field("code"), strings.ToLower(strings.ReplaceAll(codes[3], "-", ""))),
		chromedp.Click(id("recover-submit")), chromedp.WaitVisible(chromedp.CSS("#recovery [role=status]")))
	fits(t, tab)
	shot(t, tab, "passwordless-recovered")
	mustDo(t, tab, "a new device", chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("#passkeys [role=status]")))
	remove := func(key account.Passkey) {
		t.Helper()
		mustDo(t, tab, "remove", chromedp.Click(chromedp.CSS(`li[data-key="`+key.ShownID()+`"] > form button`)), chromedp.WaitVisible(id("confirm-submit")),
			chromedp.Click(id("confirm-submit")), chromedp.WaitVisible(chromedp.CSS("#passkeys [role=status]")))
	}
	remove(lost)
	signOutIn(t, tab, s)
	mustDo(t, tab, "sign in with it", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))

	// A passkey that is removed is no longer offered: the device has forgotten it.
	keys := passkeys()
	if len(keys) != 1 {
		t.Fatalf("%+v", keys)
	}
	noError(t, s.store.ResetFactors(t.Context(), u.Sub, time.Now(), account.Operator().Audit(time.Now(), account.ResetFactors, "grace", "")))
	mustDo(t, tab, "a removed passkey is refused", chromedp.Navigate(s.URL+"/login/"),
		chromedp.WaitVisible(id("passkey-submit")), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(chromedp.CSS("[role=alert]")))
	told.wait(t, "an unknown passkey", func() bool { return slices.Contains(told.deleted, string(keys[0].ID)) })
}

// What was removed on the page is gone from the device.
func TestRemovedPasskeyIsForgottenByTheDevice(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	tab := chromium(t)
	withoutList(t, tab)
	virtualAuthenticator(t, tab)
	told := listenForSignals(t, tab)
	addPasskeyIn(t, tab, s.URL)
	key, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.querySelector("li[data-key]").dataset.key`))
	noError(t, err)
	mustDo(t, tab, "remove", chromedp.Click(chromedp.CSS("li[data-key] > form button")),
		chromedp.WaitVisible(id("confirm-submit")), chromedp.Click(id("confirm-submit")), chromedp.WaitVisible(chromedp.CSS("#passkeys [role=status]")))
	told.wait(t, "removed", func() bool {
		return slices.ContainsFunc(told.deleted,
			func(id string) bool { return (account.Passkey{ID: []byte(id)}).ShownID() == key })
	})
}

// A club moves its service to another host below its domain: with passkey-host every passkey goes on,
// on both databases.
func TestPasskeysMoveWithTheHostInABrowser(t *testing.T) {
	st := storetest.New(t)
	below := func(name string) (*service, string) {
		t.Helper()
		s := startService(t, serviceOptions{Store: st, Settings: func(c *config.Settings) {
			c.Issuer, c.PasskeyHost = strings.Replace(c.Issuer, "localhost", name+".club.localhost", 1), "club.localhost"
		}})
		return s, strings.Replace(s.URL, "localhost", name+".club.localhost", 1)
	}
	from, before := below("id")
	to, after := below("login")
	from.addUser("ada")
	tab := chromium(t)
	withoutList(t, tab)
	virtualAuthenticator(t, tab)
	addPasskeyIn(t, tab, before)
	mustDo(t, tab, "after", chromedp.Navigate(after+"/login/"), chromedp.WaitVisible(id("passkey-submit")),
		chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	same(t, "to.handler.Elsewhere", to.handler.Elsewhere, (account.PasskeysElsewhere{}))
}

// After a sign-in with a password the browser makes a passkey, and the page says so. The virtual
// authenticator never answers without a dialogue, so the test asks it with one.
func TestOfferedPasskeyInABrowser(t *testing.T) {
	s := startService(t, serviceOptions{}, "ada")
	tab := chromium(t)
	withoutList(t, tab)
	virtualAuthenticator(t, tab)
	_, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `{
		const create = navigator.credentials.create.bind(navigator.credentials);
		navigator.credentials.create = options => options.mediation === "conditional" ? create({publicKey: options.publicKey}) : Promise.reject("not conditional");
	}`})
	noError(t, err)
	mustDo(t, tab, "sign in", chromedp.EmulateViewport(390, 844), chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "account")
	mustDo(t, tab, "told", chromedp.WaitVisible(id("passkey-offered")))
	fits(t, tab)
	shot(t, tab, "passkey-offered")
	mustDo(t, tab, "the passkey signs in", chromedp.Navigate(s.URL+"/logout/"), chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")),
		chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	mustDo(t, tab, "and can be removed", chromedp.Navigate(s.URL+"/account/security"),
		chromedp.WaitVisible(id("second-step-none")), chromedp.WaitVisible(chromedp.CSS("li[data-key] > form button")))
	shot(t, tab, "passkey-offered-security")
	mustDo(t, tab, "nor is it asked for after the password", chromedp.Navigate(s.URL+"/logout/"),
		chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")), chromedp.Navigate(s.URL+"/login/"))
	signInAs(t, tab, "ada", password, "account")
}
