package httpd

import (
	"net/http"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/storetest"
)

// What another process revokes is refused by the very next request, however often the
// service has verified the same cookie and token just before.
func TestRevocationByAnotherProcessWorksAtOnce(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s, other := startService(t, serviceOptions{Store: storetest.Open(t, dsn)}), storetest.Open(t, dsn)
		operators := account.NewAdministration(other, nil)
		for _, tt := range []struct {
			what   string
			revoke func(u account.User, sid, client string) error
			// login_required in place of a code; of the client that was removed its
			// own tokens are refused, not the sign-in.
			signedOut bool
		}{
			{"ended", func(u account.User, sid, _ string) error {
				return other.EndSession(t.Context(), u.Sub, sid, time.Now(), operator("session.end", u.Handle, ""))
			}, true},
			{"suspended", func(u account.User, _, _ string) error {
				return operators.Suspend(t.Context(), account.Operator(), u, "", true)
			}, true},
			{"deleted", func(u account.User, _, _ string) error { return operators.Delete(t.Context(), account.Operator(), u) }, true},
			{"removed", func(_ account.User, _, client string) error { return other.RemoveClient(t.Context(), client) }, false},
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
