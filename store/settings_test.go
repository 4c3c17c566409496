package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

func TestInitializingTwiceChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.Settings(ctx)
		want(t, err, account.ErrNotInitialized)
		_, err = s.Secret(ctx, account.SecretJWT)
		want(t, err, account.ErrNotInitialized)
		_, err = s.AmendSettings(ctx, func(*account.Settings) (string, error) { return "all", nil }, act("settings"))
		want(t, err, account.ErrNotInitialized)
		stored := make([]bool, 8)
		wins(t, race(8, func(i int) error {
			v := account.DefaultSettings()
			v.InstanceName = name("instance ", i)
			var err error
			stored[i], err = s.Initialize(ctx, v, map[string][]byte{account.SecretJWT: []byte(name("jwt ", i)), account.SecretInstallation: []byte(name("inst ", i))})
			return err
		}))
		first := slices.Index(stored, true)
		if first < 0 || slices.Contains(stored[first+1:], true) {
			t.Fatalf("stored %v, want it once", stored)
		}
		v, err := s.Settings(ctx)
		must(t, err)
		secret, err := s.Secret(ctx, account.SecretJWT)
		must(t, err)
		if v.InstanceName != name("instance ", first) || string(secret) != name("jwt ", first) {
			t.Errorf("%q and %q of %d", v.InstanceName, secret, first)
		}
		again, err := s.Initialize(ctx, account.DefaultSettings(), map[string][]byte{account.SecretJWT: []byte("other"), "later": []byte("new")})
		must(t, err)
		if !again {
			t.Error("a missing secret was not stored")
		}
		kept, err := s.Secret(ctx, account.SecretJWT)
		must(t, err)
		same(t, "the secret was replaced", string(kept), string(secret))
	})
}

func TestSettingsComeBackAsSaved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		v := account.Settings{
			InstanceName: "Клуб", Registration: account.RegistrationClosed, MaxUsers: 7, InvitesPerMember: 0, MinPassword: 12,
			Flags: []string{"activity", "admin", "beta"}, DefaultFlags: []string{}, Contact: "board@club.example",
			FlagDescriptions: map[string]string{"activity": "A", "admin": "B", "beta": "C"},
		}
		_, err = s.AmendSettings(ctx, func(stored *account.Settings) (string, error) { *stored = v; return "all", nil }, act("settings.save"))
		must(t, err)
		got, err := s.Settings(ctx)
		must(t, err)
		equal(t, "got", got, v)
		// A row of before a setting existed has its default.
		must(t, s.Exec("UPDATE settings SET value = ?", `{"instance_name":"Old"}`))
		got, err = s.Settings(ctx)
		must(t, err)
		old := account.DefaultSettings()
		old.InstanceName = "Old"
		equal(t, "old", got, old)
	})
}

// Administrators on several instances and the operator change the settings at the
// same time: no change is lost, and each has its audit row.
func TestConcurrentSettingsChangesAreKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		for _, err := range race(8, func(int) error {
			_, err := s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.MaxUsers++; return "max_users", nil }, act("settings.update"))
			return err
		}) {
			must(t, err)
		}
		_, err = s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.MaxUsers++; return "", nil }, act("settings.update"))
		must(t, err)
		_, err = s.AmendSettings(ctx, func(v *account.Settings) (string, error) { v.MaxUsers++; return "", account.ErrInvalidSettings }, act("settings.update"))
		want(t, err, account.ErrInvalidSettings)
		v, err := s.Settings(ctx)
		must(t, err)
		rows, err := s.AuditLog(ctx, account.AuditQuery{Limit: 20})
		must(t, err)
		if v.MaxUsers != 8 || len(rows) != 8 || rows[0].Detail != "max_users" {
			t.Errorf("%d changes, %d rows", v.MaxUsers, len(rows))
		}
	})
}

func TestAuditIsNewestFirstWithoutGaps(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		for i := range 5 {
			a := account.Audit{At: noon.Add(time.Duration(i) * time.Second), Actor: "ada", Action: name("act", i),
				Target: "bob", Detail: "odd \x00\xff detail", Address: "192.0.2.1", RequestID: "r"}
			must(t, s.CreateUser(ctx, newUser(name("user", i)), a))
		}
		want(t, s.CreateUser(ctx, newUser("user0"), act("refused")), account.ErrHandleTaken)
		var actions []string
		for before := int64(0); ; {
			rows, err := s.AuditLog(ctx, account.AuditQuery{Before: before, Limit: 2})
			must(t, err)
			if len(rows) == 0 {
				break
			}
			for _, r := range rows {
				actions, before = append(actions, r.Action), r.ID
				if r.Detail != "odd  detail" || !r.At.Equal(noon.Add(time.Duration(5-len(actions))*time.Second)) {
					t.Errorf("%+v", r)
				}
			}
		}
		equal(t, "actions", actions, []string{"act4", "act3", "act2", "act1", "act0"})
	})
}

// The row of a change has the former value of what was changed, and nothing else.
func TestAChangeOfSettingsKeepsTheFormerValues(t *testing.T) {
	storetest.Each(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		_, err := s.Initialize(ctx, account.DefaultSettings(), nil)
		must(t, err)
		for _, contact := range []string{"one", "two"} {
			_, err := s.AmendSettings(ctx, func(v *account.Settings) (string, error) {
				v.Contact, v.SessionDays = contact, 7
				return "contact session_days", nil
			}, act("settings.update"))
			must(t, err)
		}
		rows, err := s.AuditLog(ctx, account.AuditQuery{})
		must(t, err)
		if rows[0].Former != `{"contact":"one"}` || rows[1].Former != `{"contact":"","session_days":30}` {
			t.Errorf("former values %q and %q", rows[0].Former, rows[1].Former)
		}
	})
}
