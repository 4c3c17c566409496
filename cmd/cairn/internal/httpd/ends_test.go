package httpd

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// An account that ends is over at the next second at every instance, before any of them has noticed, and is ended once.
func TestAccountEndsAtEveryInstance(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		var ahead atomic.Int64 // seconds
		begin := time.Now().UTC().Truncate(time.Second)
		now := func() time.Time { return begin.Add(time.Duration(ahead.Load()) * time.Second) }
		stores := []*store.Store{storetest.OpenAt(t, dsn, now), storetest.OpenAt(t, dsn, now)}
		one, two := startService(t, serviceOptions{Store: stores[0], Now: now}), startService(t, serviceOptions{Store: stores[1], Now: now})
		ada := one.addUser("ada")
		rp := one.app("app", nil)
		b, token := one.signedInTokens(rp, "ada")
		code := b.authorize(rp.authURL(), "ada").Get("code")
		ends := now().Add(20 * time.Second)
		noError(t, stores[0].SetEndOfAll(t.Context(), ends, now(), map[string]account.Audit{ada.Sub: operator(account.SetEnd, "ada", "")}))

		ahead.Add(19)
		wantStatus(t, "session in the last second", b.api("GET", "/api/me", nil), http.StatusOK)
		one.wantUserinfo("token in the last second", token.AccessToken, http.StatusOK)
		two.wantUserinfo("token in the last second, at the other", token.AccessToken, http.StatusOK)

		ahead.Add(1)
		wantProblem(t, "session", b.api("GET", "/api/me", nil), http.StatusUnauthorized, "not_authenticated")
		for i, s := range []*service{two, one} {
			wantProblem(t, "sign-in", s.visitor().login("ada", password), http.StatusForbidden, "account_suspended")
			wantInvalidGrant(t, "code", s.tokenRequest("app", rp.config.ClientSecret, rp.codeForm(code)))
			wantInvalidGrant(t, "refresh", s.refreshRequest("app", rp.config.ClientSecret, token.RefreshToken))
			s.wantUserinfo("token", token.AccessToken, http.StatusUnauthorized)
			if i == 0 { // it is the same with what EndDue has written
				together(2, func(i int) error {
					_, err := stores[i].EndDue(t.Context())
					noError(t, err)
					return err
				})
			}
		}
		rows, err := stores[0].AuditLog(t.Context(), account.AuditQuery{Kind: account.EndAccount.Action})
		noError(t, err)
		if len(rows) != 1 || rows[0].Target != "ada" {
			t.Errorf("audit log: %+v", rows)
		}
	})
}

// Sign-ins are answered while an administrator suspends 500 people, in one transaction.
func TestSignInsGoOnDuringAnActOnMany(t *testing.T) {
	eachLife(t, false, func(t *testing.T, l *life) {
		l.member("ada")
		var who []string
		for i := range roster.MaxAtOnce {
			who = append(who, fmt.Sprint("p", i))
			l.member(who[i])
		}
		needStatus(t, "keeper", l.keeper.confirm(password, ""), 200)
		suspended := make(chan response, 1)
		go func() {
			suspended <- l.keeper.postForm("/admin/users/selected", url.Values{"who": {strings.Join(who, " ")}, "do": {"suspend"}, "sure": {"yes"}})
		}()
		n := 0
		for ; len(suspended) == 0; n++ {
			wantStatus(t, "sign-in meanwhile", l.visitor().login("ada", password), http.StatusOK)
		}
		needStatus(t, "suspend", <-suspended, 200)
		if got := l.user("p499"); got["suspended"] != true || n == 0 {
			t.Errorf("after %d sign-ins: %v", n, got)
		}
	})
}
