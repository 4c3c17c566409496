package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// dataKey is a data key of one byte, repeated.
func dataKey(b byte) func() ([]byte, error) {
	return func() ([]byte, error) { return bytes.Repeat([]byte{b}, 32), nil }
}

var plainSecrets = map[string][]byte{
	account.SecretJWT:          []byte("the-shared-secret-of-all-applications"),
	account.SecretInstallation: {0, 0xff, 'a', 0, 'b', 'c', 'd', 'e'},
}

func initialize(t *testing.T, s *store.Store) {
	t.Helper()
	_, err := s.Initialize(t.Context(), account.DefaultSettings(), plainSecrets)
	must(t, err)
}

func addTOTP(t *testing.T, s *store.Store, u account.User, secret string) {
	t.Helper()
	codes := []account.RecoveryCode{{Hash: []byte("one")}, {Hash: []byte("two")}}
	n := account.NewFactor{Codes: codes, Now: noon, Audit: act("factor.add")}
	_, err := s.AddTOTP(t.Context(), u.Sub, account.TOTP{Secret: secret}, n)
	must(t, err)
}

// snapshotText is all that a database holds.
func snapshotText(t *testing.T, s *store.Store) (path, text string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "snapshot.db")
	_, err := s.Snapshot(t.Context(), path)
	must(t, err)
	b, err := os.ReadFile(path)
	must(t, err)
	return path, string(b)
}

func TestSealedDatabaseHoldsNothingPlain(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		without, s, ctx := storetest.Open(t, dsn), storetest.OpenWith(t, dsn, dataKey(1)), t.Context()
		initialize(t, s)
		ada := addUser(t, s, "ada")
		addTOTP(t, s, ada, "GEZDGNBVGY3TQOJQ")
		open, used := addInvite(t, s, ada.Sub), addInvite(t, s, ada.Sub)
		must(t, s.Register(ctx, used.Code, newUser("bob"), nil, nil, 0, noon, act("user.register")))
		_, text := snapshotText(t, s)
		jwt, installation := string(plainSecrets[account.SecretJWT]), string(plainSecrets[account.SecretInstallation])
		for _, plain := range []string{"GEZDGNBVGY3TQOJQ", open.Code, used.Code, jwt, installation} {
			lacks(t, "the database holds", text, plain)
		}
		if n, err := s.PlainValues(ctx); n != 0 || err != nil {
			t.Errorf("%d values are plain: %v", n, err)
		}

		for name, want := range plainSecrets {
			if got, err := s.Secret(ctx, name); !bytes.Equal(got, want) || err != nil {
				t.Errorf("%s is %q, want %q: %v", name, got, want, err)
			}
		}
		f, err := s.Factors(ctx, ada.Sub)
		must(t, err)
		list, err := s.Invites(ctx, account.InviteQuery{Sub: ada.Sub})
		must(t, err)
		if f.TOTP.Secret != "GEZDGNBVGY3TQOJQ" || len(list) != 2 {
			t.Errorf("secret %s, %d invites", f.TOTP.Secret, len(list))
		}
		stored, err := s.Texts("SELECT code FROM invites WHERE used_at = 0 AND created_by IS NOT NULL")
		must(t, err)
		_, err = s.Invite(ctx, stored[0])
		want(t, err, account.ErrInviteNotFound) // what the database holds is no code
		want(t, s.DeleteInvite(ctx, ada.Sub, used.Code, act("invite.delete")), account.ErrInviteUsed)
		must(t, s.DeleteInvite(ctx, ada.Sub, open.Code, act("invite.delete")))

		// Without the key nothing is read or written, but for what is not sealed.
		other := storetest.OpenWith(t, dsn, dataKey(2))
		unread := storetest.OpenWith(t, dsn, func() ([]byte, error) { return nil, errors.New("no such file") })
		for _, s := range []*store.Store{without, other, unread} {
			_, err := s.Secret(ctx, account.SecretJWT)
			want(t, err, store.ErrDataKey)
			want(t, err, account.ErrUnavailable)
			_, err = s.Factors(ctx, ada.Sub)
			want(t, err, store.ErrDataKey)
			_, err = s.Invite(ctx, open.Code)
			want(t, err, store.ErrDataKey)
			want(t, s.CreateInvite(ctx, open, -1, act("invite.create")), store.ErrDataKey)
			u := addUser(t, s, name("user-", len(list)))
			n := account.NewFactor{Now: noon, Audit: act("factor.add")}
			_, err = s.AddTOTP(ctx, u.Sub, account.TOTP{Secret: "AAAA"}, n)
			want(t, err, store.ErrDataKey)
			_, err = s.UserBySub(ctx, ada.Sub)
			must(t, err)
			list = append(list, open)
		}
	})
}

func TestSealedValueOpensInItsOwnPlaceAlone(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		_, s, ctx := storetest.Open(t, dsn), storetest.OpenWith(t, dsn, dataKey(1)), t.Context()
		initialize(t, s)
		ada, eve := addUser(t, s, "ada"), addUser(t, s, "eve")
		addTOTP(t, s, ada, "AAAA")
		addTOTP(t, s, eve, "BBBB")
		move := func(table, column, key, from, to string) {
			t.Helper()
			must(t, s.Exec("UPDATE "+table+" SET "+column+" = (SELECT "+column+" FROM "+table+" WHERE "+key+" = ?) WHERE "+key+" = ?", from, to))
		}
		move("totp", "secret", "sub", eve.Sub, ada.Sub)
		if f, err := s.Factors(ctx, ada.Sub); err == nil {
			t.Errorf("the authenticator app of another is that of ada: %+v", f.TOTP)
		}
		addInvite(t, s, ada.Sub)
		addInvite(t, s, eve.Sub)
		move("invites", "sealed_code", "created_by", ada.Sub, eve.Sub)
		if list, err := s.Invites(ctx, account.InviteQuery{Sub: eve.Sub}); err == nil {
			t.Errorf("eve reads %+v", list)
		}
		move("secrets", "value", "name", account.SecretJWT, account.SecretInstallation)
		if secret, err := s.Secret(ctx, account.SecretInstallation); err == nil {
			t.Errorf("the installation secret is %s", secret)
		}
	})
}

// The row has the same name in both tables; the column alone tells the values apart.
func TestSealedValueOpensInItsOwnColumnAlone(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		_, s, ctx := storetest.Open(t, dsn), storetest.OpenWith(t, dsn, dataKey(1)), t.Context()
		initialize(t, s)
		ada := newUser("ada")
		ada.Sub = account.SecretJWT
		must(t, s.CreateUser(ctx, ada, act("user.create")))
		addTOTP(t, s, ada, "AAAA")
		moved := "CAST((SELECT secret FROM totp WHERE sub = ?) AS BLOB)"
		if strings.HasPrefix(dsn, "postgres") {
			moved = "convert_to((SELECT secret FROM totp WHERE sub = ?), 'UTF8')"
		}
		must(t, s.Exec("UPDATE secrets SET value = "+moved+" WHERE name = ?", ada.Sub, account.SecretJWT))
		if secret, err := s.Secret(ctx, account.SecretJWT); err == nil || !strings.Contains(err.Error(), "belongs to another row") {
			t.Errorf("the shared secret is %q, %v", secret, err)
		}
	})
}

// Sealing ends in the middle; what is sealed and what is not works until it is done.
func TestSealingGoesOnWhereItWasKilled(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		old, s, ctx := storetest.Open(t, dsn), storetest.OpenWith(t, dsn, dataKey(1)), t.Context()
		initialize(t, old)
		ada := addUser(t, old, "ada")
		addTOTP(t, old, ada, "GEZDGNBVGY3TQOJQ")
		must(t, old.Exec("INSERT INTO invites (code, created_by, created_at, expires_at) SELECT 'CODE' || (100000000000 + i), ?, ?, ? FROM "+
			old.Series("1100"), ada.Sub, noon.Unix(), noon.Add(month).Unix()))
		register := func(code, handle string) error {
			return s.Register(ctx, code, newUser(handle), nil, nil, 0, noon, act("user.register"))
		}
		secret, err := s.Secret(ctx, account.SecretJWT)
		if err != nil || !bytes.Equal(secret, plainSecrets[account.SecretJWT]) {
			t.Fatalf("with a key, and before sealing: %q, %v", secret, err)
		}
		killed, kill := context.WithCancel(ctx)
		seen := 0
		s.EachQuery("SELECT code AS place", func() {
			if seen++; seen == 2 {
				kill()
			}
		})
		_, err = s.Seal(killed, act("keys.seal"))
		want(t, err, context.Canceled)
		if n, err := s.PlainValues(ctx); n != 600 || err != nil {
			t.Fatalf("%d values are plain: %v", n, err)
		}
		all := func() (codes map[string]bool) {
			codes = map[string]bool{}
			pages := 0
			for q := (account.InviteQuery{Sub: ada.Sub, Limit: 77}); ; {
				page, err := s.Invites(ctx, q)
				must(t, err)
				for _, i := range page {
					codes[i.Code] = true
				}
				if len(page) < q.Limit {
					return codes
				}
				if pages++; pages > 100 {
					t.Fatal("the list does not end")
				}
				q.After = page[len(page)-1].Place()
			}
		}
		same(t, "invites are listed while half of them are sealed", len(all()), 1100)
		must(t, register("CODE100000000000", "guest-0"))
		must(t, register("CODE100000001099", "guest-1"))
		want(t, register("CODE100000001099", "guest-2"), account.ErrInvalidInvite)
		for _, more := range []bool{true, false} {
			n, err := s.Seal(ctx, act("keys.seal"))
			must(t, err)
			if (n == 600) != more || (n == 0) == more {
				t.Errorf("%d values were sealed", n)
			}
		}
		if s.Dialect() == store.SQLite {
			if b, err := os.ReadFile(dsn + "-wal"); err != nil || bytes.Contains(b, []byte("CODE1000000")) {
				t.Errorf("the log has what was plain: %v", err)
			}
		}
		f, err := s.Factors(ctx, ada.Sub)
		must(t, err)
		plain, err := s.PlainValues(ctx)
		must(t, err)
		want(t, register("CODE100000001099", "guest-2"), account.ErrInvalidInvite)
		if n := len(all()); plain != 0 || n != 1100 || !all()["CODE100000000500"] || f.TOTP.Secret != "GEZDGNBVGY3TQOJQ" {
			t.Errorf("%d values are plain, %d invites, %s", plain, n, f.TOTP.Secret)
		}
		_, err = old.Seal(ctx, act("keys.seal"))
		want(t, err, store.ErrDataKey)
		_, err = storetest.OpenWith(t, dsn, dataKey(2)).Seal(ctx, act("keys.seal"))
		want(t, err, store.ErrDataKey)
	})
}
