package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

var errSpent = errors.New("spent before")

func newFactor(session string, codes ...string) account.NewFactor {
	n := account.NewFactor{Session: session, Now: noon, Audit: act("factor.add")}
	for _, code := range codes {
		n.Codes = append(n.Codes, []byte(code))
	}
	return n
}

func oldFactor(session string) account.OldFactor {
	return account.OldFactor{Session: session, Now: noon, Audit: act("factor.remove")}
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
			if n := wins(t, errs, errSpent); n != 1 {
				t.Errorf("spent %d times", n)
			}
		}
		got, err := instances[0].Sweep(t.Context(), noon.Add(2*time.Hour))
		must(t, err)
		if got.Spent != 2 {
			t.Errorf("%d rows swept, want 2", got.Spent)
		}
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
			if n := use(step); n != times {
				t.Errorf("step %d was accepted %d times, want %d", step, n, times)
			}
		}
		for _, step := range []int64{8, 10} {
			if n := use(step); n != 1 {
				t.Errorf("step %d was accepted %d times", step, n)
			}
		}
		if use(9) != 0 {
			t.Error("an earlier step was accepted")
		}
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
		if used != 1 {
			t.Errorf("%d audit rows of one use", used)
		}
		must(t, s.ReplaceRecoveryCodes(ctx, u.Sub, "", [][]byte{[]byte("new")}, noon, act("factor.recovery_codes")))
		if use(u.Sub, "two") != 0 || use(u.Sub, "new") != 1 {
			t.Error("codes of before count, or new ones do not")
		}
	})
}

// The mark on the user, which sessions are made by, goes with the rows.
func TestSecondFactorIsMarkedWhileThereIsOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		expect := func(marked bool, want account.Factors) {
			t.Helper()
			got, err := s.UserBySub(ctx, u.Sub)
			must(t, err)
			f, err := s.Factors(ctx, u.Sub)
			must(t, err)
			if got.SecondFactor != marked || (f.TOTP == nil) != (want.TOTP == nil) || f.Passkeys != want.Passkeys || f.RecoveryCodes != want.RecoveryCodes {
				t.Errorf("marked %t, %+v; want %t, %+v", got.SecondFactor, f, marked, want)
			}
		}
		withPassword, withBoth := newSession(u.Sub), newSession(u.Sub)
		withBoth.AMR = []string{account.MethodPassword, account.MethodOTP, account.MethodMultiFactor}
		want(t, s.ReplaceRecoveryCodes(ctx, u.Sub, "", [][]byte{[]byte("one")}, noon, act("factor.recovery_codes")), account.ErrFactorNotFound)
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
