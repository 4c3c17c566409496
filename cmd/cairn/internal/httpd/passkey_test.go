package httpd

import (
	"context"
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
	mustDo(t, tab, "add a passkey", chromedp.SendKeys(id("passkey-name"), "Laptop"), chromedp.Click(id("passkey-submit")), chromedp.WaitVisible(id("recovery-codes")),
		chromedp.Click(id("recovery-done")), chromedp.WaitVisible(chromedp.CSS("li[data-key]")))
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
