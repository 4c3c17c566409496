package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestSweepDeletesOnlyWhatIsDead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
		must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon, act("app.allow")))
		n := signIn(t, s, u)
		ended := signIn(t, s, u)
		must(t, s.EndSession(ctx, u.Sub, ended.ID, noon, act("session.end")))
		unused := newGrantStored(t, s, c, n) // a code never exchanged
		g := newGrantStored(t, s, c, n)
		access, refresh := addTokens(t, s, g)
		must(t, spendCode(ctx, s, "sig-"+g.ID))
		open, used := addInvite(t, s, u.Sub), addInvite(t, s, u.Sub)
		must(t, s.Register(ctx, used.Code, newUser("guest"), nil, nil, 0, noon, act("user.register")))
		must(t, s.CreateResetCode(ctx, u.Sub, []byte("code"), noon.Add(24*time.Hour), noon, act("user.reset_code")))
		must(t, s.SpendAssertion(ctx, "app", "jti", noon.Add(time.Minute)))
		_, err := s.Counters().Take(ctx, web.Counter{Name: "login", Key: "key", Rate: web.Rate{Count: 1, Window: time.Minute}}, noon, false)
		must(t, err)
		before, err := s.Apps(ctx, u.Sub, noon.Add(3*month))
		must(t, err)

		sweep := func(at time.Time, expected store.SweepResult) {
			t.Helper()
			got, err := s.Sweep(ctx, at)
			must(t, err)
			equal(t, "expected", got, expected)
		}
		sweep(noon, store.SweepResult{})
		sweep(noon.Add(30*time.Minute), store.SweepResult{RateCounters: 1})
		sweep(noon.Add(2*time.Hour), store.SweepResult{Tokens: 1, Grants: 1, Assertions: 1})
		_, err = useToken(ctx, s, access)
		want(t, err, provider.ErrNotFound)
		_, err = useCode(ctx, s, "sig-"+unused.ID)
		want(t, err, provider.ErrNotFound)
		// As long as the refresh token lives, the used code is recognised.
		_, err = useCode(ctx, s, "sig-"+g.ID)
		want(t, err, provider.ErrSpent)
		_, err = useToken(ctx, s, refresh)
		must(t, err)
		revoked, err := s.RevokedIndices(ctx, ended.StatusList)
		must(t, err)
		same(t, "an ended session that has not expired was deleted", len(revoked), 1)
		sweep(noon.Add(month+2*time.Hour), store.SweepResult{Tokens: 1, Grants: 1, ResetCodes: 1})
		sweep(noon.Add(2*month), store.SweepResult{Sessions: 2, Invites: 1, Revocations: 1})
		_, err = s.Invite(ctx, open.Code)
		want(t, err, account.ErrInviteNotFound)
		_, err = s.Invite(ctx, used.Code)
		must(t, err)
		after, err := s.Apps(ctx, u.Sub, noon.Add(3*month))
		must(t, err)
		if diff := cmp.Diff(before, after); diff != "" || before[0].LastUsedAt.IsZero() {
			t.Errorf("when the application was last used went with its tokens: %s", diff)
		}
	})
}

func TestSweepGoesOnPastOneBatch(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		g := newGrantStored(t, s, addClient(t, s, "app"), signIn(t, s, addUser(t, s, "ada")))
		const rows = 1203
		in, end, err := s.Begin(t.Context())
		must(t, err)
		for range rows {
			must(t, in.AddTokens(t.Context(), g.ID, accessToken(uuid.NewString())))
			must(t, in.SpendAssertion(t.Context(), "app", uuid.NewString(), noon))
		}
		must(t, end(true))
		got, err := s.Sweep(t.Context(), noon.Add(3*time.Hour))
		must(t, err)
		if got.Tokens != rows || got.Assertions != rows {
			t.Errorf("%+v", got)
		}
	})
}

func TestSweptFileBecomesSmaller(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "cairn.db"))
	pages := func() int64 {
		n, err := s.Count("PRAGMA page_count")
		must(t, err)
		return n
	}
	empty := pages()
	must(t, s.Exec("INSERT INTO client_assertions (client_id, jti_hash, expires_at) SELECT 'app', randomblob(2000), ? FROM "+s.Series("1500"), noon.Unix()))
	full := pages()
	got, err := s.Sweep(t.Context(), noon.Add(2*time.Hour))
	must(t, err)
	if left := pages(); got.Assertions != 1500 || full < empty+500 || left > empty+empty/10 {
		t.Errorf("%d pages at first, %d with %d rows, %d without", empty, full, got.Assertions, left)
	}
}

// A transaction that PostgreSQL gave up and that is repeated begins where it began.
func TestSweepRepeatsWhatPostgreSQLGaveUp(t *testing.T) {
	s := storetest.NewPostgres(t)
	ctx, u, c := t.Context(), addUser(t, s, "ada"), addClient(t, s, "app")
	must(t, s.SaveConsent(ctx, u.Sub, c.ID, []string{"openid"}, noon.Add(-month), act("app.allow")))
	g := newGrantStored(t, s, c, signIn(t, s, u))
	addTokens(t, s, g)
	for _, statement := range []string{
		"CREATE SEQUENCE attempts",
		`CREATE FUNCTION give_up() RETURNS trigger AS $$ BEGIN
			IF nextval('attempts') = 1 THEN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END IF;
			RETURN NEW;
		END $$ LANGUAGE plpgsql`,
		"CREATE TRIGGER give_up BEFORE UPDATE ON consents FOR EACH ROW EXECUTE FUNCTION give_up()",
	} {
		must(t, s.Exec(statement))
	}
	t.Cleanup(func() { _ = s.Exec("DROP FUNCTION give_up CASCADE"); _ = s.Exec("DROP SEQUENCE attempts") })
	got, err := s.Sweep(ctx, noon.Add(2*month))
	must(t, err)
	same(t, "tokens were deleted", got.Tokens, 2)
	apps, err := s.Apps(ctx, u.Sub, noon.Add(2*month))
	must(t, err)
	if len(apps) != 1 || apps[0].LastUsedAt.IsZero() {
		t.Errorf("when the application was last used: %v", apps)
	}
}
