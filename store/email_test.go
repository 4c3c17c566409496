package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// setEmail gives the user an address; undo is the id under which the one before is kept.
func setEmail(t *testing.T, s *store.Store, sub, email string, verified bool, undo string) error {
	t.Helper()
	a := act("email.change")
	a.KeepEmail = undo
	_, err := s.ChangeUser(t.Context(), sub, func(u *account.User) error {
		u.Email, u.EmailVerified = email, verified
		return nil
	}, noon, &a)
	return err
}

// wantEmail fails unless the user has the address.
func wantEmail(t *testing.T, s *store.Store, sub, email string, verified bool) {
	t.Helper()
	u, err := s.UserBySub(t.Context(), sub)
	must(t, err)
	if u.Email != email || u.EmailVerified != verified {
		t.Errorf("%s, verified %t; want %s, %t", u.Email, u.EmailVerified, email, verified)
	}
}

func TestUndoGoesByTheOrderOfChangesWithinASecond(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		undo := func(id string) error {
			_, err := s.UndoEmailChange(ctx, id, account.NewResetCode(noon), noon, act("email.undo"))
			return err
		}
		change := func(handle string) account.User {
			u := addUser(t, s, handle)
			must(t, setEmail(t, s, u.Sub, handle+"0@example.org", true, "unused"))
			for i, id := range []string{"c", "b", "a"} { // the ids are no order
				must(t, setEmail(t, s, u.Sub, name(handle, i+1, "@example.org"), true, handle+id))
			}
			return u
		}
		ada, bob := change("ada"), change("bob")
		must(t, undo("adac"))
		wantEmail(t, s, ada.Sub, "ada0@example.org", true)
		want(t, undo("adab"), account.ErrInvalidLink)
		want(t, undo("adaa"), account.ErrInvalidLink)

		must(t, undo("bobb"))
		wantEmail(t, s, bob.Sub, "bob1@example.org", true)
		want(t, undo("boba"), account.ErrInvalidLink)
		former, err := s.FormerEmails(ctx, bob.Sub, noon)
		must(t, err)
		if len(former) != 1 || former[0].Email != "bob0@example.org" {
			t.Errorf("can be undone: %+v", former)
		}
		// Somebody else has proven the address since: it comes back, and is not verified.
		must(t, setEmail(t, s, ada.Sub, "BOB0@example.org", true, ""))
		must(t, undo("bobc"))
		wantEmail(t, s, bob.Sub, "bob0@example.org", false)
	})
}

func TestAddressIsVerifiedForOneAccountByInstancesAtTheSameTime(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		ctx, instances := t.Context(), []*store.Store{storetest.Open(t, dsn), storetest.Open(t, dsn)}
		for round := range 4 {
			address, users := name("Shared", round, "@example.org"), make([]account.User, 2)
			for i := range users {
				users[i] = addUser(t, instances[0], name("user", round, "-", i))
				must(t, setEmail(t, instances[0], users[i].Sub, address, false, ""))
				must(t, instances[0].AskVerification(ctx, users[i].Sub, address, noon, act("email.ask")))
			}
			third := newUser(name("marked", round))
			must(t, instances[0].CreateUser(ctx, third, act("user.create")))
			added := []account.User{newUser(name("added", round)), newUser(name("imported", round))}
			for i := range added {
				added[i].Email, added[i].EmailVerified = name("shared", round, "@example.org"), true
			}
			errs := race(10, func(i int) error {
				switch s := instances[i%2]; i / 2 {
				case 0:
					return s.CreateUser(ctx, added[0], act("user.create"))
				case 1:
					return s.AddUsers(ctx, account.Bulk{Users: added[1:]}, act("user.import"))
				case 2:
					return setEmail(t, s, third.Sub, address, true, "")
				default:
					return s.VerifyEmail(ctx, users[i/2-3].Sub, address, noon, noon, act("email.verify"))
				}
			})
			wins(t, errs, account.ErrEmailTaken, account.ErrInvalidLink, account.ErrHandleTaken)
			owners, err := instances[0].Count("SELECT count(*) FROM users WHERE lower(email) = lower(?) AND email_verified", address)
			must(t, err)
			same(t, fmt.Sprintf("round %d, accounts have verified one address", round), owners, 1)
		}
	})
}

func TestMailedCodeProvesTheAddress(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for _, c := range []struct {
			handle                  string
			mailed, taken, verified bool
		}{{"mailed", true, false, true}, {"taken", true, true, false}, {"given", false, false, false}} {
			u := newUser(c.handle)
			u.PasswordHash = ""
			must(t, s.CreateUser(ctx, u, act("user.create")))
			want(t, s.CreateMailedResetCode(ctx, 0, u.Sub, "former@example.org", []byte("code"), noon.Add(time.Hour), noon), account.ErrUserNotFound)
			if c.mailed {
				must(t, s.CreateMailedResetCode(ctx, 0, u.Sub, u.Email, []byte("code"), noon.Add(time.Hour), noon))
			} else {
				must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(time.Hour), noon, act("user.reset_code")))
			}
			if c.taken {
				must(t, setEmail(t, s, addUser(t, s, "owner").Sub, u.Email, true, ""))
			}
			must(t, s.Exec("UPDATE users SET email_changed_at = ? WHERE sub = ?", noon.Unix(), u.Sub))
			must(t, s.ResetPassword(ctx, u.Handle, []byte("code"), "hash", noon, act("password.reset")))
			wantEmail(t, s, u.Sub, u.Email, c.verified)
		}
	})
}
