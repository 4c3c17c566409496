package httpd

import (
	"context"
	"strings"
	"testing"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// virtualAuthenticator gives the tab an authenticator that verifies its user (CTAP2, resident keys).
func virtualAuthenticator(t *testing.T, tab context.Context) webauthn.AuthenticatorID {
	t.Helper()
	_, err := chromedp.Call(tab, webauthn.Enable, webauthn.EnableParams{})
	noError(t, err)
	added, err := chromedp.Call(tab, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
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
	added, err := chromedp.Call(tab, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: "PublicKeyCredential.isConditionalMediationAvailable = () => Promise.resolve(false)",
	})
	noError(t, err)
	return func() {
		t.Helper()
		_, err := chromedp.Call(tab, cdppage.RemoveScriptToEvaluateOnNewDocument, cdppage.RemoveScriptToEvaluateOnNewDocumentParams(added))
		noError(t, err)
	}
}

// What a member does: adds a passkey, keeps the codes, and signs in with the button, from
// the field, and after the password.
func TestPasskeyInABrowser(t *testing.T) {
	s := startService(t, serviceOptions{})
	s.addUser("ada")
	tab := chromium(t)
	virtualAuthenticator(t, tab)
	signOut := func() {
		t.Helper()
		mustDo(t, tab, "sign out", chromedp.Navigate(s.URL+"/logout/"), chromedp.Click(id("logout-confirm")), chromedp.WaitVisible(page("signed-out")))
	}
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
	signOut()
	mustDo(t, tab, "the button", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(id("passkey-submit")), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(page("account")))
	signOut()
	again()
	mustDo(t, tab, "the list of the field", chromedp.Navigate(s.URL+"/login/"), chromedp.WaitVisible(page("account")))

	withoutList(t, tab)
	signOut()
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
	s := startService(t, serviceOptions{})
	s.addUser("ada")
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
