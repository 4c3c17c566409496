package store_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// Passkeys, and recovery codes that were replaced twice, made by an older session, the disowned one, a later one and by
// somebody unknown; before the last three days, and at joining. What an act leaves of them:
func TestActsRemoveWhatADisownedSessionMade(t *testing.T) {
	const all = "early joining late mine old other unknown"
	passkeys := func(names ...string) (ids []string) {
		for _, name := range names {
			ids = append(ids, account.PasskeyIDPrefix+base64.RawURLEncoding.EncodeToString([]byte(name)))
		}
		return ids
	}
	for name, c := range map[string]struct {
		action string
		remove []string
		none   error
		want   string // passkeys; codes in use
		codes  string
		young  bool // the account was made in the second in which the disowned session began
		long   bool // the codes before were replaced long ago
	}{
		"not me":                                {action: "session.not_me", want: "early joining mine old", codes: "first"},
		"undo":                                  {action: "email.undo", want: "early joining mine old", codes: "first"},
		"not me, of a new account":              {action: "session.not_me", want: "early joining mine old", codes: "first", young: true},
		"not me, of codes that came after none": {action: "session.not_me", want: "early joining mine old", long: true},
		"naming one of a new account": {action: "session.end_others", remove: passkeys("other"), young: true,
			want: "early joining late mine old unknown", codes: "third"},
		"end others":  {action: "session.end_others", want: all, codes: "third"},
		"naming some": {action: "session.end_others", remove: passkeys("late", "other", "unknown"), want: "early joining mine old", codes: "third"},
		"naming codes": {action: "password.change", remove: append(passkeys("late"), account.RecoveryCodesID),
			want: "early joining mine old other unknown"},
		"naming an old one":            {action: "session.end_others", remove: passkeys("late", "old"), none: account.ErrFactorsNamed, want: all, codes: "third"},
		"naming the one of joining":    {action: "user.end_sessions", remove: passkeys("joining"), none: account.ErrFactorsNamed, want: all, codes: "third"},
		"naming that of one's session": {action: "session.end_others", remove: passkeys("mine"), none: account.ErrFactorsNamed, want: all, codes: "third"},
		"reset":                        {action: "password.reset", remove: passkeys("early", "mine", "late"), want: "joining old other unknown", codes: "third"},
		"suspension":                   {action: "user.suspend", remove: passkeys("late"), want: all, codes: "third"},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				ctx, u := t.Context(), addUser(t, s, "ada")
				joined, began := noon.Add(-70*time.Hour), noon.Add(-time.Hour)
				if c.young {
					joined = began
				}
				must(t, s.Exec("UPDATE users SET created_at = ?, email_verified = (1 = 1) WHERE sub = ?", joined.Unix(), u.Sub))
				session := func(at time.Time) string {
					n := newSession(u.Sub)
					n.CreatedAt = at
					must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
					return n.ID
				}
				mine, other, late := session(began.Add(-time.Minute)), session(began), session(began.Add(time.Minute))
				for key, made := range map[string]struct {
					by string
					at time.Time
				}{
					"joining": {"", joined}, "old": {other, noon.Add(-account.FactorUndo - time.Second)}, "early": {other, began.Add(-time.Second)},
					"mine": {mine, noon}, "other": {other, began}, "late": {late, noon}, "unknown": {"", noon},
				} {
					k := newPasskey(u.Sub, key)
					k.CreatedAt = made.at
					must(t, addPasskey(t, s, k, 20))
					must(t, s.Exec("UPDATE passkeys SET session_id = ? WHERE name = ?", made.by, key))
				}
				must(t, s.Exec("DELETE FROM recovery_codes"))
				must(t, s.Exec("UPDATE sessions SET ended_at = 0"))      // by the first passkey
				must(t, s.Exec("UPDATE users SET second_factor_at = 0")) // the second step was switched on long ago
				for i, by := range []string{mine, other, late} {
					at, code := began.Add(time.Duration(i)*time.Minute), account.RecoveryCode{Hash: []byte([]string{"first", "second", "third"}[i])}
					must(t, s.ReplaceRecoveryCodes(ctx, u.Sub, []account.RecoveryCode{code}, at, act("factor.recovery_codes")))
					must(t, s.Exec("UPDATE recovery_codes SET session_id = ? WHERE sub = ?", by, u.Sub))
				}
				if c.long {
					must(t, s.Exec("UPDATE former_recovery_codes SET replaced_at = ?", noon.Add(-account.FactorUndo-time.Second).Unix()))
				}
				a := act(c.action)
				a.Since, a.Remove = began, c.remove
				var err error
				switch code := account.NewResetCode(noon); c.action {
				case "session.not_me":
					_, err = s.DisownSession(ctx, u.Sub, other, u.Email, code, time.Hour, noon, a)
				case "email.undo":
					must(t, setEmail(t, s, u.Sub, "ada@example.org", true, "unused"))
					must(t, setEmail(t, s, u.Sub, "eve@example.org", true, "change"))
					must(t, s.Exec("UPDATE email_changes SET session_id = ?", other))
					_, err = s.UndoEmailChange(ctx, "change", code, noon, a)
				case "password.reset", "user.end_sessions", "user.suspend":
					_, err = s.EndSessions(ctx, u.Sub, noon, a)
				default:
					_, err = s.EndSessions(ctx, u.Sub, noon, during(mine, a))
				}
				want(t, err, c.none)
				keys, err := s.Texts("SELECT name FROM passkeys WHERE sub = ? ORDER BY name", u.Sub)
				must(t, err)
				codes := []string{}
				for _, name := range []string{"first", "second", "third"} {
					if code, _, err := s.RecoveryCode(ctx, u.Sub, "", []byte(name)); err != nil || code.Hash != nil {
						codes = append(codes, name)
					}
				}
				if got, left := strings.Join(keys, " "), strings.Join(codes, " "); got != c.want || left != c.codes {
					t.Errorf("passkeys %s, want %s; codes %q, want %q", got, c.want, left, c.codes)
				}
			})
		})
	}
}

// The list from which a person chooses is that of what NamedFactors removes.
func TestRecentFactorsAreThoseThatMayBeNamed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u := t.Context(), addUser(t, s, "ada")
		must(t, s.Exec("UPDATE users SET created_at = 1, email_verified = (1 = 1) WHERE sub = ?", u.Sub))
		must(t, addPasskey(t, s, newPasskey(u.Sub, "key"), 20))
		addTOTP(t, s, u, "JBSWY3DPEHPK3PXP")
		list, err := s.RecentFactors(ctx, u.Sub, "", noon)
		must(t, err)
		var ids []string
		for _, f := range list {
			ids = append(ids, f.ID)
		}
		if got := fmt.Sprint(ids); got != "[passkey:a2V5 recovery_codes totp]" {
			t.Fatal(got)
		}
		a := act("session.end_others")
		a.Remove = ids
		_, err = s.EndSessions(ctx, u.Sub, noon, a)
		must(t, err)
		if list, err = s.RecentFactors(ctx, u.Sub, "", noon); err != nil || len(list) > 0 {
			t.Errorf("left %v, %v", list, err)
		}
		if u, err = s.UserBySub(ctx, u.Sub); err != nil || u.SecondFactor {
			t.Errorf("a second step is asked without a factor: %v", err)
		}
		if list, err = s.RecentFactors(ctx, u.Sub, "", noon.Add(account.FactorUndo+time.Second)); err != nil || len(list) > 0 {
			t.Errorf("old ones %v, %v", list, err)
		}
	})
}

// Whatever stores the session that made it has a selection in account.Ending, or a reason why it needs none.
func TestWhatASessionMadeHasAnEnding(t *testing.T) {
	endings := map[string]string{
		"consents.session_id": "Grants", "invites.session_id": "Invites",
		"passkeys.session_id": "Factors", "totp.session_id": "Factors", "recovery_codes.session_id": "Factors",
		"former_recovery_codes.session_id": "Factors", "users.second_factor_session_id": "Factors",
		"email_changes.session_id": "", // UndoEmailChange ends what that session made
		"users.email_session_id":   "Unverify", "users.email_pending_session_id": "Pending",
		"reset_codes.session_id": "Given", "mailed_reset_codes.session_id": "Given", "mail_outbox.session_id": "Given",
		"audit.session_id": "", // it says who it was, and ends nothing
	}
	var columns []string
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		query := `SELECT t.name || '.' || c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
			WHERE t.type = 'table' AND c.name LIKE '%session_id'`
		if s.Dialect() == store.Postgres {
			query = `SELECT table_name || '.' || column_name FROM information_schema.columns
				WHERE table_schema = current_schema() AND column_name LIKE '%session_id'`
		}
		found, err := s.Texts(query)
		if err != nil || len(found) < len(endings) {
			t.Fatalf("%v, %v", found, errors.Join(err, errors.New("columns are missing")))
		}
		columns = append(columns, found...)
	})
	for _, column := range slices.Compact(slices.Sorted(slices.Values(columns))) {
		field, ok := endings[column]
		if _, has := reflect.TypeFor[account.Ending]().FieldByName(field); !ok || field != "" && !has {
			t.Errorf("%s: nothing in account.Ending ends it", column)
		}
	}
}

// The owner has a passkey that the browser made, beside the password. Who disowns the session that switched the second
// step on signs in with the password alone again; the session before it may have switched it on.
func TestSecondStepOfADisownedSessionIsUndone(t *testing.T) {
	for name, earlier := range map[string]bool{"that session": false, "an earlier session": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				ctx, u := t.Context(), addUser(t, s, "ada")
				must(t, s.Exec("UPDATE users SET created_at = 1, email_verified = (1 = 1) WHERE sub = ?", u.Sub))
				by, thief := newSession(u.Sub), newSession(u.Sub)
				by.CreatedAt = noon.Add(-time.Hour)
				for _, n := range []*account.Session{by, thief} {
					must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
				}
				offered := newFactor(by.ID)
				offered.WayIn = true
				_, err := s.AddPasskey(ctx, newPasskey(u.Sub, "offered"), 20, offered)
				must(t, err)
				first := newFactor(thief.ID)
				if earlier {
					first = newFactor(by.ID)
				}
				_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "JBSWY3DPEHPK3PXP"}, first)
				must(t, err)
				a := act("session.not_me")
				_, err = s.DisownSession(ctx, u.Sub, thief.ID, u.Email, account.NewResetCode(noon), time.Hour, noon, a)
				must(t, err)
				f, err := s.Factors(ctx, u.Sub)
				must(t, err)
				if u, err = s.UserBySub(ctx, u.Sub); err != nil || u.SecondFactor != earlier ||
					(f.TOTP != nil) != earlier ||
					f.Passkeys != 1 || (f.RecoveryCodes > 0) != earlier {
					t.Errorf("a second step %t, factors %+v, %v", u.SecondFactor, f, err)
				}
			})
		})
	}
}

// What the choice of a second step is again after the disowned session, and later ones, changed it.
func TestChoiceOfASecondStepIsAsBeforeTheThief(t *testing.T) {
	for name, c := range map[string]struct {
		changes string // a session and its choice, 0: no password, a: an app; the owner's is o, the thief's are t and u
		want    bool
	}{
		"switched on": {"t+", false}, "switched off": {"o+ t-", true}, "off and on": {"o+ t- t+", true}, "on and off": {"t+ t-", false},
		"by two": {"o+ t- u+", true}, "by two, off again": {"o+ t- u+ t-", true}, "the owner's alone": {"o+", true}, "both of the owner": {"o+ o-", false},
		"no password": {"t0", false}, "an app of the owner": {"t+ oa", true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, s *store.Store) {
				ctx, u := t.Context(), addUser(t, s, "ada")
				must(t, s.Exec("UPDATE users SET created_at = 1, email_verified = (1 = 1) WHERE sub = ?", u.Sub))
				ids := map[string]string{}
				for i, who := range []string{"o", "t", "u"} {
					n := newSession(u.Sub)
					n.CreatedAt = noon.Add(time.Duration(i-3) * time.Hour)
					must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
					ids[who] = n.ID
				}
				wayIn := newFactor("")
				wayIn.WayIn = true
				_, err := s.AddPasskey(ctx, newPasskey(u.Sub, "key"), 20, wayIn)
				must(t, err)
				must(t, s.Exec("UPDATE sessions SET amr = 'swk user mfa'"))
				must(t, s.Exec("UPDATE passkeys SET created_at = 0"))
				for i, change := range strings.Fields(c.changes) {
					n := newFactor(ids[change[:1]], change)
					n.Now = noon.Add(time.Duration(i-30) * time.Minute)
					if change[0] == 'o' {
						n.Now = noon.Add(time.Duration(i-150) * time.Minute)
					}
					n.Audit = keeping(n.Audit)
					switch change[1] {
					case '0':
						n.Audit.Action, n.Audit.Target = account.RemovePassword.Action, u.Handle
						must(t, s.RemovePassword(ctx, u.Sub, u.PasswordHash, []string{newPasskey(u.Sub, "key").RPID}, n))
					case 'a':
						_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "JBSWY3DPEHPK3PXP"}, n)
						must(t, err)
					default:
						must(t, s.SetSecondStep(ctx, u.Sub, change[1] == '+', n))
					}
				}
				_, err = s.DisownSession(ctx, u.Sub, ids["t"], u.Email, account.NewResetCode(noon), time.Hour, noon, act("session.not_me"))
				must(t, err)
				if u, err = s.UserBySub(ctx, u.Sub); err != nil || u.SecondFactor != c.want {
					t.Errorf("%s: %t, %v", c.changes, u.SecondFactor, err)
				}
				left, err := s.Factors(ctx, u.Sub)
				if must(t, err); (left.RecoveryCodes > 0) != (c.want && strings.Contains(c.changes, "o+")) { // not those of the thief
					t.Errorf("%s: %+v", c.changes, left)
				}
			})
		})
	}
}
