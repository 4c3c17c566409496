package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/generated"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// fill makes a large installation around an administrator.
func fill(t testing.TB, s *store.Store, dsn string, users, sessions, tokens int) account.User {
	t.Helper()
	keeper := addUser(t, s, "keeper", account.FlagActivity, account.FlagAdmin)
	must(t, generated.CheckNew(t.Context(), dsn))
	o := generated.Options{Users: users, Sessions: sessions, Tokens: tokens, PasswordHash: "hash of all", Now: noon}
	for _, id := range []string{"bench-0", "bench-1", "bench-2"} {
		c := provider.NewClient(id, id, noon)
		c.RedirectURIs = []string{"http://127.0.0.1:9/callback"}
		must(t, s.CreateClient(t.Context(), c, act("client.create")))
		o.Clients = append(o.Clients, id)
	}
	must(t, generated.Fill(t.Context(), dsn, o))
	return keeper
}

// What is generated is what the operations make: they go on with it, and find nothing to
// mend.
func TestFilledInstallationIsLikeAGrownOne(t *testing.T) {
	racetest.Skip(t)
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := storetest.Open(t, dsn)
		const users, sessions, tokens = 1_000, 1_500, 4_000
		ctx, keeper := t.Context(), fill(t, s, dsn, users, sessions, tokens)
		count := func(query string, expected int64) {
			t.Helper()
			if n, err := s.Count(query); err != nil || n != expected {
				t.Errorf("%s: %d, want %d: %v", query, n, expected, err)
			}
		}
		for table, n := range map[string]int64{
			"users": users + 1, "sessions": sessions, "grants": sessions, "tokens": tokens, "user_words": 0, "invites": users/5 + users/50, "audit": sessions + 1 + 3,
			"revocations": sessions / 100, "consents": 2 * users, "status_lists WHERE issued = 1500": 1, "counters WHERE value IN (1001, 1500)": 2,
		} {
			count("SELECT count(*) FROM "+table, n)
		}
		got, err := s.Sweep(ctx, noon)
		must(t, err)
		same(t, "swept", cmp.Diff(store.SweepResult{}, got), "")
		u, err := s.UserByHandle(ctx, generated.Handle(600, users))
		must(t, err)
		found, _, err := s.Users(ctx, account.UserQuery{Query: strings.ToUpper(u.DisplayName), Limit: users})
		must(t, err)
		if !slices.ContainsFunc(found, func(f account.User) bool { return f.Sub == u.Sub }) {
			t.Errorf("%d users named %q, but not %s", len(found), u.DisplayName, u.Handle)
		}
		if h, err := account.CanonicalHandle(u.Handle); h != u.Handle || err != nil || u.InvitedBy == "" {
			t.Errorf("handle %q: %v; invited by %q", u.Handle, err, u.InvitedBy)
		}
		branches, err := s.Branches(ctx, keeper.Sub, "", noon, noon, 50)
		must(t, err)
		same(t, "branches", len(branches), users/10/5)
		// Their sessions and tokens work and end, also beside new ones.
		signedIn, err := s.Sessions(ctx, u.Sub, noon)
		must(t, err)
		n := signIn(t, s, u)
		if len(signedIn) == 0 || !live(t, s, signedIn[0].ID) || n.StatusList != 1 {
			t.Fatalf("sessions %+v and %+v", signedIn, n)
		}
		sigs, err := s.Texts("SELECT t.sig FROM tokens t JOIN grants g ON g.id = t.grant_id WHERE g.sid = ?", signedIn[0].ID)
		must(t, err)
		if len(sigs) == 0 || !active(t, s, sigs[0]) || len(sigs[0]) != 43 {
			t.Fatalf("tokens %q", sigs)
		}
		apps, err := s.Apps(ctx, u.Sub, noon)
		must(t, err)
		if len(apps) != 1 || len(apps[0].Scopes) != 3 {
			t.Errorf("applications %+v", apps)
		}
		must(t, s.RemoveApp(ctx, u.Sub, apps[0].ClientID, noon, act("app.remove")))
		must(t, s.EndSession(ctx, u.Sub, signedIn[0].ID, noon, act("session.end")))
		revoked, err := s.RevokedIndices(ctx, 1)
		must(t, err)
		if active(t, s, sigs[0]) || len(revoked) != sessions/100+1 {
			t.Errorf("%d revoked tokens", len(revoked))
		}
		must(t, s.DeleteUser(ctx, u.Sub, noon, act("user.delete")))
		want(t, generated.CheckNew(ctx, dsn), generated.ErrNotNew)
	})
}
