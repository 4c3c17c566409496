package httpd

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/store/storetest"
)

// What another process revokes is refused by the very next request, however often the
// service has verified the same cookie and token just before.
func TestRevocationByAnotherProcessWorksAtOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := startService(t, serviceOptions{Store: storetest.Open(t, dsn)}), storetest.Open(t, dsn)
		operators := roster.NewAdministration(other, nil)
		for _, tt := range []struct {
			what   string
			revoke func(u account.User, sid, client string) error
			// login_required in place of a code; of the client that was removed its
			// own tokens are refused, not the sign-in.
			signedOut bool
		}{
			{"ended", func(u account.User, sid, _ string) error {
				return other.EndSession(t.Context(), u.Sub, sid, time.Now(), operator(account.EndSession, u.Handle, ""))
			}, true},
			{"suspended", func(u account.User, _, _ string) error {
				return operators.Suspend(t.Context(), account.Operator(), u, "", true)
			}, true},
			{"deleted", func(u account.User, _, _ string) error { return operators.Delete(t.Context(), account.Operator(), u) }, true},
			{"removed", func(_ account.User, _, client string) error {
				return other.RemoveClient(t.Context(), client, account.Operator().Audit(time.Now(), account.RemoveClient, "", ""))
			}, false},
		} {
			u := s.addUser(tt.what)
			rp := s.app("app-"+tt.what, nil, "openid", "profile")
			b, token := s.signedInTokens(rp, u.Handle)
			use := func() (answer string, userinfo int, active any) {
				return answered(t, b.get(rp.authURL("prompt", "none"))).Get("error"), s.userinfoStatus(token.AccessToken), rp.introspect(token.AccessToken)["active"]
			}
			for range 3 {
				if answer, userinfo, active := use(); answer != "" || userinfo != http.StatusOK || active != true {
					t.Fatalf("%s, before: %q, %d, %v", tt.what, answer, userinfo, active)
				}
			}
			code := answered(t, b.get(rp.authURL("prompt", "none"))).Get("code")
			noError(t, tt.revoke(u, jwtPayload(t, b.cookie("cairn_session"))["sid"].(string), rp.config.ClientID))
			answer, userinfo, active := use()
			if (answer == "login_required") != tt.signedOut || userinfo != http.StatusUnauthorized || active != false {
				t.Errorf("%s: %q, %d, %v", tt.what, answer, userinfo, active)
			}
			if got := rp.redeem(code); got.StatusCode == http.StatusOK {
				t.Errorf("%s: the code was exchanged", tt.what)
			}
		}
	})
}

// With sign_out_on_flag_loss no cookie with a lost flag is accepted: also not that of a sign-in which
// was waiting for its turn at the hasher when the flag was taken away.
func TestSignInDuringFlagLossHasNoLostFlag(t *testing.T) {
	s := startService(t, serviceOptions{})
	ada := s.addUser("ada", "activity", "admin")
	s.addUser("bob", "admin") // not the last administrator
	admin := roster.NewAdministration(s.store, nil)
	_, err := admin.ChangeSettings(t.Context(), account.Operator(), account.SettingsChange{"sign_out_on_flag_loss": true})
	noError(t, err)

	var leave []func() // other people's hashes
	for i := range passwords.HashSlots() {
		l, err := s.hasher.Enter(t.Context(), fmt.Sprint("other", i))
		noError(t, err)
		leave = append(leave, l)
	}
	b, done := s.visitor(), make(chan struct{})
	go func() { defer close(done); b.signIn("ada") }()
	for w, _ := s.hasher.Queue(); w == 0; w, _ = s.hasher.Queue() {
		time.Sleep(time.Millisecond)
	}
	_, err = admin.SetFlags(t.Context(), account.Operator(), ada, account.FlagChange{"admin": {On: false}})
	noError(t, err)
	for _, l := range leave {
		l()
	}
	<-done

	token := b.cookie("cairn_session")
	keys := session.NewRemoteKeySet(s.URL+"/.well-known/jwks.json", session.RemoteOptions{})
	lists := session.NewRemoteStatusList(session.RemoteStatusOptions{Issuer: s.URL, Keys: keys})
	defer lists.Close()
	v := &session.Verifier{Issuer: s.URL, Keys: keys, Status: lists}
	c, err := v.Verify(t.Context(), token)
	if err == nil && slices.Contains(c.Groups, "admin") {
		t.Errorf("an application accepts, for %v, a cookie with the lost flag: groups %v", time.Until(c.ExpiresAt).Round(time.Hour), c.Groups)
	}
}

// Members write at the same time at two instances on one database: no answer is a server error.
func TestMixedWritesAreNoServerErrors(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*service{startService(t, serviceOptions{Store: storetest.Open(t, dsn)}), startService(t, serviceOptions{Store: storetest.Open(t, dsn)})}
		handles := []string{"ada", "bob", "carol", "dave"}
		browsers := make([]*browser, len(handles))
		for i, h := range handles {
			instances[0].addUser(h)
			browsers[i] = instances[i%2].signedIn(h)
		}
		got := inParallel(len(handles)*12, func(i int) int {
			b := browsers[i%len(handles)]
			switch i / len(handles) % 4 {
			case 0:
				return b.api("PATCH", "/api/me", map[string]string{"display_name": fmt.Sprint("name ", i)}).StatusCode
			case 1:
				return b.api("PUT", "/api/me/prefs", fmt.Sprintf(`{"k%d":"v"}`, i)).StatusCode
			case 2:
				return b.api("POST", "/api/invites", nil).StatusCode
			}
			return instances[i%2].visitor().login(handles[i%len(handles)], password).StatusCode
		})
		for status, n := range got {
			if status >= 500 || status == http.StatusUnauthorized {
				t.Errorf("%d answers of %d", n, status)
			}
		}
	})
}
