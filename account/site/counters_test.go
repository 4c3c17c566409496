package site_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/store/accounttest"
)

// counterScene is ada, who has a verified address, with one limit of three. Where that is of second factors
// she has an authenticator app.
type counterScene struct {
	*accounttest.World
	t    *testing.T
	post *postbox
	app  app
	next int
}

func newCounterScene(t *testing.T, limit string) *counterScene {
	t.Helper()
	s := &counterScene{t: t}
	const month = 30 * 24 * time.Hour // no window ends in a test
	s.World, s.post = newMailWorld(t, withLimits(map[string]web.Rate{limit: {Count: 3, Window: month}}))
	s.Clock.Advance(s.Clock.Now().Truncate(month).Add(month).Sub(s.Clock.Now()))
	addMember(s.World, "ada", "ada@example.org")
	if limit == web.LimitSecondFactor {
		s.app = enrol(s.SignedIn("ada"))
	}
	return s
}

// stranger is a browser at an address where nobody was.
func (s *counterScene) stranger() *accounttest.Browser {
	s.next++
	return s.BrowserAt(address(s.next))
}

func (s *counterScene) remedy(r account.Remedy) {
	s.T.Helper()
	code := ""
	switch r {
	case account.RemedyUnlock:
		if err := s.Administration().Unlock(s.T.Context(), account.Operator(), s.User("ada")); err != nil {
			s.T.Fatal(err)
		}
		return
	case account.RemedyGivenCode:
		code = s.ResetCode("ada")
	case account.RemedyMailedCode:
		s.post.new()
		s.stranger().Call("POST", "/api/auth/forgot-password", map[string]string{"handle": "ada"}).Is(200)
		path, _ := link(s.t, s.post.one("ada@example.org"))
		u, err := url.Parse(path)
		if err != nil {
			s.T.Fatal(err)
		}
		code = u.Query().Get("code")
	}
	s.stranger().Call("POST", "/api/auth/reset-password", reset("ada", code, password)).Is(200)
}

// Each remedy clears what account.AccountCounters says, and no more. Who helps is shown the locks that it opens.
func TestRemediesClearTheCountersOfTheTable(t *testing.T) {
	const wrong = "not the password"
	// An attempt is counted once; it is refused by the limit alone with 429.
	attempts := map[string]func(s *counterScene) (attempt func() int){
		web.LimitLogin: func(s *counterScene) func() int {
			b := s.stranger()
			return func() int { return b.Login("ada", wrong).Status }
		},
		web.LimitLoginAccount: func(s *counterScene) func() int {
			return func() int { return s.stranger().Login("ada", wrong).Status }
		},
		web.LimitSecondFactor: func(s *counterScene) func() int {
			return func() int { return loginOTP(s.stranger(), "ada", password, s.app.wrong()).Status }
		},
		"recovery codes": func(s *counterScene) func() int { // under LimitSecondFactor too
			guess := s.app.codes[0][:4] + "-0000-0000-0000"
			return func() int { return loginOTP(s.stranger(), "ada", password, guess).Status }
		},
		"recovery codes alone": func(s *counterScene) func() int { // and where there is no password
			b, guess := s.stranger(), s.app.codes[0][:4]+"-0000-0000-0000"
			loginOTP(b, "ada", password, s.app.fresh()).Is(200)
			addPasskey(b, "key")
			b.Call("DELETE", "/api/me/password", nil).Is(204)
			return func() int { return recoverBy(s.stranger(), "ada", guess).Status }
		},
		web.LimitSignIn: func(s *counterScene) func() int {
			b := s.stranger()
			return func() int { return b.Login("ada", password).Status }
		},
		web.LimitResetAccount: func(s *counterScene) func() int {
			return func() int {
				return s.stranger().Call("POST", "/api/auth/reset-password", reset("ada", "0", newPassword)).Status
			}
		},
		web.LimitVerify: func(s *counterScene) func() int {
			b := s.SignedIn("ada")
			return func() int { return b.Call("POST", "/api/me/email/verify", map[string]string{"code": "0"}).Status }
		},
	}
	counters := append([]account.AccountCounter{}, account.AccountCounters...)
	for _, c := range account.AccountCounters {
		if c.Limit == web.LimitSecondFactor {
			counters = append(counters, account.AccountCounter{Limit: "recovery codes", Clear: c.Clear},
				account.AccountCounter{Limit: "recovery codes alone", Clear: c.Clear})
		}
	}
	for _, c := range counters {
		limit, attempt := c.Limit, attempts[c.Limit]
		delete(attempts, c.Limit)
		if attempt == nil {
			t.Errorf("%s has no attempt here", limit)
			continue
		}
		if strings.HasPrefix(limit, "recovery codes") {
			limit = web.LimitSecondFactor
		}
		for _, r := range account.Remedies {
			if limit == web.LimitVerify && r == account.RemedyMailedCode {
				continue // none is mailed to an address that is not verified
			}
			if c.Limit == "recovery codes alone" && r != account.RemedyUnlock {
				continue // none is mailed, and a given one brings a password
			}
			t.Run(c.Limit+" "+[]string{"unlock", "given code", "mailed code"}[r], func(t *testing.T) {
				s := newCounterScene(t, limit)
				if limit == web.LimitVerify {
					setEmail(s.World, "ada", "ada@example.com", false)
				}
				try := attempt(s)
				locked := func(want bool) {
					t.Helper()
					want = want && (limit == web.LimitLoginAccount || limit == web.LimitSecondFactor)
					if until := s.User("ada").Locked(s.Clock.Now()); until.IsZero() == want {
						t.Errorf("locked until %v, want %t", until, want)
					}
				}
				exhaust := func() {
					t.Helper()
					locked(false)
					for range 3 {
						if status := try(); status == 429 {
							t.Fatal("refused before the limit")
						}
					}
					if status := try(); status != 429 {
						t.Fatalf("status %d beyond the limit", status)
					}
					locked(true)
				}
				cleared := func(want bool) {
					t.Helper()
					if limit == web.LimitVerify {
						try = attempt(s) // a reset ends sessions
					}
					if want {
						exhaust()
					} else if status := try(); status != 429 {
						t.Fatalf("status %d: the remedy cleared the counter", status)
					} else {
						locked(limit == web.LimitSecondFactor)
					}
				}
				exhaust()
				s.remedy(r)
				cleared(c.Clear[r] != account.ClearsNever)
				s.remedy(r)
				cleared(c.Clear[r] == account.ClearsAlways)
				s.Clock.Advance(account.RemedyRest)
				s.remedy(r)
				cleared(c.Clear[r] != account.ClearsNever)
			})
		}
	}
	for name := range attempts {
		t.Errorf("account.AccountCounters has no %s", name)
	}
}
