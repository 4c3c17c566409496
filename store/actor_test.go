package store_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// The tests of the routes are in package admin.
func TestActNeedsItsSessionWhenItIsStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		u := addUser(t, s, "ada", account.FlagAdmin)
		n := newSession(u.Sub)
		must(t, s.CreateSession(ctx, n, u.PasswordHash, act("session.create")))
		row := during(n.ID, act("user.unlock"))
		row.Proof = account.ProofAdministrator
		try := func(row account.Audit) error { return s.UnlockUser(ctx, u.Sub, noon, row) }
		must(t, try(row))

		late := row
		late.At = n.ConfirmedAt.Add(account.FreshFor + time.Second)
		want(t, try(late), account.ErrReauthenticationRequired)
		late.ConfirmedAt = late.At // by what came with the request
		must(t, try(late))
		early := row // the proof is of a clock that was ahead
		early.At = n.ConfirmedAt.Add(-account.FreshFor - time.Second)
		want(t, try(early), account.ErrReauthenticationRequired)
		late.At = n.ExpiresAt
		want(t, try(late), account.ErrNotAuthenticated)

		late.At, late.ConfirmedAt = n.ConfirmedAt.Add(account.FreshFor+time.Second), time.Time{}
		for _, c := range []struct {
			proof    account.Proof
			user     string
			expected error
		}{
			{account.ProofFresh, "display_name = 'Ada'", account.ErrReauthenticationRequired},
			{account.ProofSession, "display_name = 'Ada'", nil}, {account.ProofPassword, "display_name = 'Ada'", nil},
			{account.ProofPassword, "second_factor = (1 = 1)", account.ErrReauthenticationRequired},
			{account.ProofPassword, "second_factor = (1 = 0), password_hash = '" + account.NoPassword + "'", account.ErrReauthenticationRequired},
		} {
			must(t, s.Exec("UPDATE users SET "+c.user+" WHERE sub = ?", u.Sub))
			old := late
			old.Proof = c.proof
			want(t, try(old), c.expected)
		}
		must(t, s.Exec("UPDATE users SET password_hash = ? WHERE sub = ?", u.PasswordHash, u.Sub))
		must(t, s.Exec("UPDATE sessions SET confirmed_at = ? WHERE id = ?", late.At.Unix(), n.ID))
		must(t, try(late))
		must(t, s.Exec("UPDATE sessions SET confirmed_at = ? WHERE id = ?", n.ConfirmedAt.Unix(), n.ID))

		must(t, s.Exec("UPDATE users SET second_factor = (1 = 1) WHERE sub = ?", u.Sub))
		want(t, try(row), account.ErrReauthenticationRequired)
		row.AMR = []string{account.MethodPassword, account.MethodMultiFactor}
		must(t, try(row))
		must(t, s.Exec("UPDATE users SET second_factor = (1 = 0) WHERE sub = ?", u.Sub))

		must(t, s.Exec("UPDATE user_flags SET ends_at = 1 WHERE sub = ?", u.Sub))
		want(t, try(row), account.ErrAdminRequired)
		must(t, s.Exec("UPDATE user_flags SET ends_at = 0 WHERE sub = ?", u.Sub))
		must(t, s.Exec("UPDATE users SET ends_at = 1 WHERE sub = ?", u.Sub))
		want(t, try(row), account.ErrNotAuthenticated)
		must(t, s.Exec("UPDATE users SET ends_at = 0 WHERE sub = ?", u.Sub))
		must(t, try(row))

		_, err := s.EndSessions(ctx, u.Sub, noon, act("user.end_sessions"))
		must(t, err)
		want(t, try(row), account.ErrNotAuthenticated)
		allow := during(n.ID, act("app.allow"))
		allow.Proof = account.ProofSession
		want(t, s.SaveConsent(ctx, u.Sub, "app", []string{"openid"}, noon, allow), account.ErrNotAuthenticated)
		out := during(n.ID, act("session.sign_out"))
		out.Proof = account.ProofSession
		must(t, s.Record(ctx, out, 0))
	})
}

// A row without the question is a fault of the program, whichever function of the store has it.
func TestActWhoseActorWasNotCheckedIsNotStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		u := addUser(t, s, "ada")
		n := newSession(u.Sub)
		must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
		row := during(n.ID, act("profile.change"))
		row.Proof = account.ProofSession
		want(t, s.RecordUnchecked(t.Context(), row), account.ErrUnavailable)
		if rows, err := s.AuditLog(t.Context(), account.AuditQuery{}); err != nil ||
			slices.ContainsFunc(rows, func(a account.Audit) bool {
				return a.Action == row.Action
			}) {
			t.Errorf("stored: %v, %v", rows, err)
		}
	})
}

// Administrators who act on one another lock the rows of both in the same order.
func TestAdministratorsWhoActOnOneAnotherDoNotDeadlock(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		const rounds = 20
		users := []account.User{addUser(t, s, "ada", account.FlagAdmin), addUser(t, s, "bob", account.FlagAdmin)}
		var all sync.WaitGroup
		for i, u := range users {
			n := newSession(u.Sub)
			must(t, s.CreateSession(t.Context(), n, u.PasswordHash, act("session.create")))
			row := during(n.ID, act("user.unsuspend"))
			row.Proof = account.ProofAdministrator
			other := users[1-i].Sub
			for _, do := range []func() error{
				func() error { return s.UnlockUser(t.Context(), other, noon, row) },
				func() error { return s.CreateResetCode(t.Context(), other, []byte("hash"), noon, noon, row) },
				func() error { return s.Unsuspend(t.Context(), other, noon, row) },
			} {
				all.Go(func() {
					for range rounds {
						if err := do(); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
	})
}
