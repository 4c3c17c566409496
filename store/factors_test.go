package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

var errSpent = errors.New("spent before")

func newFactor(session string, codes ...string) account.NewFactor {
	n := account.NewFactor{Now: noon, Audit: during(session, act("factor.add"))}
	if codes == nil {
		codes = []string{"first"}
	}
	for _, code := range codes {
		n.Codes = append(n.Codes, account.RecoveryCode{Hash: []byte(code)})
	}
	return n
}

func oldFactor(session string) account.OldFactor {
	return account.OldFactor{Now: noon, Audit: during(session, act("factor.remove"))}
}

func TestSpentOnceByInstancesAtTheSameTime(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		instances := []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		for _, hash := range []string{"one", "another"} {
			errs := race(8, func(i int) error {
				first, err := instances[i%2].SpendOnce(t.Context(), []byte(hash), noon.Add(time.Minute))
				if err == nil && !first {
					return errSpent
				}
				return err
			})
			same(t, "spent, times", wins(t, errs, errSpent), 1)
		}
		got, err := instances[0].Sweep(t.Context(), noon.Add(2*time.Hour))
		must(t, err)
		same(t, "rows swept", got.Spent, 2)
	})
}

func TestTimeStepIsAcceptedOnceByInstancesAtTheSameTime(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, instances := t.Context(), []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		u := addUser(t, instances[0], "ada")
		_, err := instances[0].AddTOTP(ctx, u.Sub, account.TOTP{Secret: "AAAA", LastStep: 7}, newFactor(""))
		must(t, err)
		use := func(step int64) int {
			return wins(t, race(8, func(i int) error {
				later, err := instances[i%2].UseTOTP(ctx, u.Sub, step, noon)
				if err == nil && !later {
					return errSpent
				}
				return err
			}), errSpent)
		}
		for step, times := range map[int64]int{7: 0, 6: 0} {
			same(t, fmt.Sprintf("step %d was accepted times", step), use(step), times)
		}
		for _, step := range []int64{8, 10} {
			same(t, fmt.Sprintf("step %d was accepted, times", step), use(step), 1)
		}
		same(t, "an earlier step was accepted", use(9), 0)
	})
}

func TestRecoveryCodeIsUsedOnceByInstancesAtTheSameTime(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, instances := t.Context(), []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		s, u, bob := instances[0], addUser(t, instances[0], "ada"), addUser(t, instances[0], "bob")
		_, err := s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "AAAA"}, newFactor("", "one", "two"))
		must(t, err)
		use := func(sub, code string) int {
			return wins(t, race(8, func(i int) error {
				good, err := instances[i%2].UseRecoveryCode(ctx, sub, []byte(code), noon, act("factor.recovery_code_used"))
				if err == nil && !good {
					return errSpent
				}
				return err
			}), errSpent)
		}
		if use(bob.Sub, "one") != 0 || use(u.Sub, "three") != 0 || use(u.Sub, "one") != 1 || use(u.Sub, "one") != 0 {
			t.Error("a code was used by another, or not once")
		}
		used, err := s.Count("SELECT count(*) FROM audit WHERE action = 'factor.recovery_code_used'")
		must(t, err)
		same(t, "audit rows of one use", used, 1)
		must(t, s.ReplaceRecoveryCodes(ctx, u.Sub, []account.RecoveryCode{{Hash: []byte("new")}}, noon, act("factor.recovery_codes")))
		if use(u.Sub, "two") != 0 || use(u.Sub, "new") != 1 {
			t.Error("codes of before count, or new ones do not")
		}
	})
}

// The mark on the user, which sessions are made by, goes with the rows.
func TestSecondFactorIsMarkedWhileThereIsOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		want(t, s.SetSecondStep(ctx, u.Sub, true, account.NewFactor{Now: noon, Audit: act("x")}), account.ErrNoStep)
		expect := func(marked bool, want account.Factors) {
			t.Helper()
			got, err := s.UserBySub(ctx, u.Sub)
			must(t, err)
			f, err := s.Factors(ctx, u.Sub)
			must(t, err)
			if got.SecondFactor != marked || (f.TOTP == nil) != (want.TOTP == nil) || f.Passkeys != want.Passkeys ||
				f.RecoveryCodes != want.RecoveryCodes {
				t.Errorf("marked %t, %+v; want %t, %+v", got.SecondFactor, f, marked, want)
			}
		}
		withPassword, withBoth := newSession(u.Sub), newSession(u.Sub)
		withBoth.AMR = []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
		want(t, s.ReplaceRecoveryCodes(ctx, u.Sub, []account.RecoveryCode{{Hash: []byte("one")}}, noon, act("factor.recovery_codes")), account.ErrFactorNotFound)
		want(t, s.RemoveTOTP(ctx, u.Sub, oldFactor("")), account.ErrFactorNotFound)
		want(t, s.CreateSession(ctx, withBoth, u.PasswordHash, act("session.create")), account.ErrInvalidCredentials) // with a factor that was reset since
		stored, err := s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "AAAA"}, newFactor("", "one", "two"))
		must(t, err)
		if !stored {
			t.Error("the first factor brought no recovery codes")
		}
		_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "BBBB"}, newFactor("", "one", "two"))
		want(t, err, account.ErrFactorExists)
		expect(true, account.Factors{TOTP: &account.TOTP{}, RecoveryCodes: 2})
		want(t, s.CreateSession(ctx, withPassword, u.PasswordHash, act("session.create")), account.ErrSecondFactorRequired)
		must(t, s.CreateSession(ctx, withBoth, u.PasswordHash, act("session.create")))
		must(t, s.Exec(`INSERT INTO passkeys (id, sub, name, public_key, aaguid, transports, attachment, sign_count, backup_eligible, backup_state, created_at)
			SELECT token_hash, sub, 'key', token_hash, token_hash, '', '', 0, second_factor, second_factor, 1 FROM sessions JOIN users USING (sub)`))
		must(t, s.RemoveTOTP(ctx, u.Sub, oldFactor("")))
		expect(true, account.Factors{Passkeys: 1, RecoveryCodes: 2}) // the passkey is left
		must(t, s.ResetFactors(ctx, u.Sub, noon, act("user.reset_factors")))
		expect(false, account.Factors{})
		want(t, s.ResetFactors(ctx, "nobody", noon, act("user.reset_factors")), account.ErrUserNotFound)
		must(t, s.CreateSession(ctx, newSession(u.Sub), u.PasswordHash, act("session.create")))
	})
}

// withTOTP adds an authenticator app and signs in with it.
func withTOTP(t *testing.T, s *store.Store, u account.User) account.Session {
	t.Helper()
	_, err := s.AddTOTP(t.Context(), u.Sub, account.TOTP{Secret: "AAAA"}, newFactor(""))
	must(t, err)
	n := newSession(u.Sub)
	n.AMR = []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
	must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
	return *n
}

func TestFirstFactorIsProvenByNoSessionBeforeIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for _, keep := range []bool{true, false} {
			u := addUser(t, s, name("keep-", keep))
			strong, o := withTOTP(t, s, u), oldFactor("")
			o.Audit = keeping(o.Audit)
			must(t, s.RemoveTOTP(ctx, u.Sub, o)) // its session is as if it had proven the next one
			asking := signIn(t, s, u)
			n := newFactor(asking.ID)
			if keep {
				n.Audit = keeping(n.Audit)
			}
			first, err := s.AddPasskey(ctx, newPasskey(u.Sub, name("key", keep)), 20, n)
			must(t, err)
			kept, _, err := s.Session(ctx, strong.ID)
			must(t, err)
			if !first || kept.Live(noon) != keep || slices.Contains(kept.AMR, account.MethodMultiFactor) ||
				!live(t, s, asking.ID) {
				t.Errorf("keep %t: first %t, the other session is %+v", keep, first, kept)
			}
			// What is asked for in a session that has not proven the factor, changes none.
			_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "BBBB"}, newFactor(asking.ID))
			want(t, err, account.ErrReauthenticationRequired)
			want(t, s.RemovePasskey(ctx, u.Sub, []byte(name("key", keep)), oldFactor(asking.ID)), account.ErrReauthenticationRequired)
			want(t, s.ReplaceRecoveryCodes(ctx, u.Sub, nil, noon, during(asking.ID, act("factor.recovery_codes"))), account.ErrReauthenticationRequired)
			must(t, s.EndSession(ctx, u.Sub, asking.ID, noon, act("session.end")))
			_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "BBBB"}, newFactor(asking.ID))
			want(t, err, account.ErrNotAuthenticated)
			// Without codes, it was for an account that asked a second step a moment ago.
			off := addUser(t, s, name("off-", keep))
			_, err = s.AddTOTP(ctx, off.Sub, account.TOTP{Secret: "BBBB"}, newFactor(signIn(t, s, off).ID, []string{}...))
			want(t, err, account.ErrReauthenticationRequired)
		}
	})
}

func TestLastFactorStaysWhereOneIsDemanded(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, instances := t.Context(), []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		s, o := instances[0], oldFactor("")
		for round := range 6 {
			u, key := addUser(t, s, name("user", round)), newPasskey("", name("key", round))
			key.Sub = u.Sub
			withTOTP(t, s, u)
			must(t, addPasskey(t, s, key, 20))
			o.Demanded = account.ACRPhishingResistant
			want(t, s.RemovePasskey(ctx, u.Sub, key.ID, o), account.ErrFactorDemanded)
			spare := newPasskey("", name("spare", round))
			spare.Sub = u.Sub
			must(t, addPasskey(t, s, spare, 20))
			must(t, s.RemovePasskey(ctx, u.Sub, spare.ID, o))
			o.Demanded = account.ACRTwoFactors
			errs := race(2, func(i int) error {
				if i == 0 {
					return instances[0].RemoveTOTP(ctx, u.Sub, o)
				}
				return instances[1].RemovePasskey(ctx, u.Sub, key.ID, o)
			})
			same(t, fmt.Sprintf("round %d: of two factors were removed", round),
				wins(t, errs, account.ErrFactorDemanded), 1)
		}
	})
}

func TestAuthenticatorAppThatWasRemovedAfterItsCodeOpensNoSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		asking := withTOTP(t, s, u)
		must(t, addPasskey(t, s, newPasskey(u.Sub, "left"), 20)) // there still is a second factor
		n := newSession(u.Sub)
		n.AMR, n.TimeStep = asking.AMR, 41
		used, err := s.UseTOTP(ctx, u.Sub, n.TimeStep, noon)
		must(t, err)
		if !used {
			t.Fatal("the code is not accepted")
		}
		again := asking
		again.TimeStep = n.TimeStep
		must(t, s.Reauthenticate(ctx, &again, u.PasswordHash, act("session.confirm")))
		must(t, s.RemoveTOTP(ctx, u.Sub, oldFactor(asking.ID)))
		want(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")), account.ErrInvalidOTP)
		want(t, s.Reauthenticate(ctx, &again, u.PasswordHash, act("session.confirm")), account.ErrInvalidOTP)
		if live(t, s, n.ID) {
			t.Error("there is a session by the removed app")
		}
	})
}

func TestRemovedPasskeyEndsTheSessionsThatItOpened(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, app := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		asking := withTOTP(t, s, u)
		opened := map[string]account.Session{}
		for _, id := range []string{"stolen", "other"} {
			must(t, addPasskey(t, s, newPasskey(u.Sub, id), 20))
			n := newSession(u.Sub)
			n.Passkey, n.AMR = []byte(id), []string{"hwk", "user", account.MethodMultiFactor}
			must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
			opened[id] = *n
		}
		g := newGrant(app, opened["stolen"], "openid")
		addCode(t, s, g)
		o := oldFactor(asking.ID)
		o.Audit = keeping(o.Audit)
		must(t, s.RemovePasskey(ctx, u.Sub, []byte("stolen"), o))
		if live(t, s, opened["stolen"].ID) || !live(t, s, opened["other"].ID) || !live(t, s, asking.ID) {
			t.Error("not only the sessions of the removed passkey have ended, or not they")
		}
		_, err := useCode(ctx, s, g.CodeSignature)
		want(t, err, provider.ErrSpent)
	})
}
