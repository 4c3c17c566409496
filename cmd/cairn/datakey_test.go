package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

const totpSecret = "GEZDGNBVGY3TQOJQ"

// addApp gives somebody an authenticator app and a recovery code.
func addApp(t *testing.T, st *store.Store, handle string) account.User {
	t.Helper()
	u, err := st.UserByHandle(t.Context(), handle)
	fatalIf(t, err)
	n := account.NewFactor{
		Codes: []account.RecoveryCode{{Hash: []byte("code of " + handle)}}, Now: time.Now(), Audit: cli.Operator(account.ChangeProfile, handle, ""),
	}
	_, err = st.AddTOTP(t.Context(), u.Sub, account.TOTP{Secret: totpSecret}, n)
	fatalIf(t, err)
	return u
}

func mustBePrivate(t *testing.T, file string) {
	t.Helper()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// serveRefuses runs serve, which must end with one line that has the words.
func serveRefuses(t *testing.T, environ []string, words ...string) {
	t.Helper()
	var out bytes.Buffer
	args := []string{"serve", "--listen", "127.0.0.1:0", "--private-key-file", "key.pem"}
	code := Run(t.Context(), args, environ, strings.NewReader(""), &out, &out)
	for _, word := range words {
		if code == cli.ExitDone || strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), word) {
			t.Errorf("exit code %d without %q: %s", code, word, out.String())
		}
	}
}

// What init and the service store is of no use to who has a backup without keys, and that
// is restored only with the key at hand.
func TestBackupWithoutItsDataKeyGivesNothingAway(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		mustBePrivate(t, "data.key")
		key := cli.DataKeyOf("data.key")
		addApp(t, storetest.OpenWith(t, dsn, key), "keeper")
		code := strings.TrimSpace(s.must("invite", "add", "-q"))
		s.must("backup", "b.tar.gz")
		f, err := os.Open("b.tar.gz")
		fatalIf(t, err)
		defer func() { _ = f.Close() }()
		z, err := gzip.NewReader(f)
		fatalIf(t, err)
		b, err := io.ReadAll(z)
		fatalIf(t, err)
		secret := strings.TrimSpace(s.must("show-secret"))
		for _, plain := range []string{totpSecret, code, strings.ReplaceAll(code, "-", ""), secret} {
			if len(plain) < 16 || strings.Contains(string(b), plain) {
				t.Errorf("the backup holds %q", plain)
			}
		}

		fatalIf(t, os.Mkdir("elsewhere", 0o700))
		fatalIf(t, os.Rename("data.key", "elsewhere/data.key"))
		remedies := []string{"data-key-file", "SERVICE_DATA_KEY_FILE", "--new-data-key"}
		serveRefuses(t, s.environ, remedies...)
		serveRefuses(t, []string{"SERVICE_DATABASE=" + dsn}, remedies...)
		s.refused(remedies, "invite", "add")
		s.must("user", "list")
		printed := s.must("backup", "verify", "b.tar.gz")
		has(t, "verify prints", printed, "secrets in the backup were not checked")
		target := other(t, dsn)
		s.refused(append(remedies, "nothing was changed"), "restore", "b.tar.gz", "--database", target)
		fatalIf(t, config.GenerateDataKey("data.key"))
		s.refused(remedies, "restore", "b.tar.gz", "--database", target)
		serveRefuses(t, s.environ, remedies...)
		s.refused([]string{"data.key exists"}, "restore", "b.tar.gz", "--database", target, "--new-data-key")
		with := []string{"--database", target, "--data-key-file", "elsewhere/data.key"}
		s.refused([]string{"is available"}, append([]string{"restore", "b.tar.gz", "--new-data-key"}, with...)...)
		s.must(append([]string{"restore", "b.tar.gz"}, with...)...)
		printed = s.must(append([]string{"invite", "list", "-q"}, with...)...)
		if strings.TrimSpace(printed) != code {
			t.Errorf("invites %s, want %s", printed, code)
		}
	})
}

func TestBackupWithKeysBringsTheDataKeyBack(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		s.must("backup", "b.age", "--keys", "--passphrase-file", "-", "--private-key-file", "key.pem")
		fatalIf(t, os.Remove("data.key"))
		target := other(t, dsn)
		s.must("restore", "b.age", "--passphrase-file", "-", "--database", target, "--private-key-file", "key.pem")
		mustBePrivate(t, "data.key")
		s.must("show-secret", "--database", target)
	})
}

func TestRestoreGoesOnWithoutALostDataKey(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		st, ctx := storetest.OpenWith(t, dsn, cli.DataKeyOf("data.key")), t.Context()
		keeper := addApp(t, st, "keeper")
		used, now := strings.TrimSpace(s.must("invite", "add", "-q")), time.Now()
		by := cli.Operator(account.ChangeProfile, "ada", "")
		ada := account.User{Sub: "ada", Handle: "ada", DisplayName: "Ada", PasswordHash: "x", CreatedAt: now}
		fatalIf(t, st.Register(ctx, account.CanonicalInviteCode(used), ada, nil, nil, 0, now, by))
		addApp(t, st, "ada")
		key := account.Passkey{ID: []byte("key"), Sub: "ada", Name: "key", PublicKey: []byte("k"), AAGUID: make([]byte, 16)}
		_, err := st.AddPasskey(ctx, key, 9, account.NewFactor{Now: now, Audit: by})
		fatalIf(t, err)
		open, secret := strings.TrimSpace(s.must("invite", "add", "-q")), s.must("show-secret")
		s.must("backup", "b.tar.gz")
		fatalIf(t, os.Remove("data.key"))
		target := other(t, dsn)
		printed := s.must("restore", "b.tar.gz", "--database", target, "--new-data-key")
		lost := []string{"authenticator apps of ada, keeper", "1 open invites", "installation, jwt"}
		for _, word := range append(lost, "new data key") {
			has(t, "printed", printed, word)
		}
		mustBePrivate(t, "data.key")
		r := storetest.OpenWith(t, target, cli.DataKeyOf("data.key"))
		for sub, want := range map[string]account.Factors{keeper.Sub: {}, "ada": {Passkeys: 1, PasskeyHosts: []string{""}, RecoveryCodes: 1}} {
			u, err := r.UserBySub(ctx, sub)
			fatalIf(t, err)
			got, err := r.Factors(ctx, sub)
			fatalIf(t, err)
			got.CodesMadeAt = want.CodesMadeAt
			if diff := cmp.Diff(want, got); diff != "" || u.SecondFactor != (want.Passkeys > 0) {
				t.Errorf("%s: %s", u.Handle, diff)
			}
		}
		if again := s.must("show-secret", "--database", target); again == secret || len(again) < 40 {
			t.Errorf("the shared secret is %s", again)
		}
		keyless := storetest.Open(t, target)
		for _, name := range []string{account.SecretJWT, account.SecretInstallation} {
			if secret, err := keyless.Secret(ctx, name); !errors.Is(err, store.ErrDataKey) {
				t.Errorf("without the new data key the secret %s is %d bytes, %v", name, len(secret), err)
			}
		}
		list := s.must("invite", "list", "--database", target)
		if strings.Contains(list, open) || !strings.Contains(list, "used by ada") {
			t.Errorf("invites:\n%s", list)
		}
		if n, err := r.PlainValues(ctx); n != 0 || err != nil {
			t.Errorf("%d values are plain: %v", n, err)
		}
	})
}

// An installation of an earlier version: it goes on as it is, until keys seal has been told to.
func TestKeysSealSealsAnEarlierInstallation(t *testing.T) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		t.Chdir(t.TempDir())
		st := storetest.Open(t, dsn)
		hasher, err := passwords.NewTestHasher()
		fatalIf(t, err)
		first := account.NewUser{Handle: "keeper", Password: strings.TrimSpace(password)}
		_, err = roster.Initialize(t.Context(), st, hasher, account.DefaultSettings(), first, time.Now())
		fatalIf(t, err)
		keeper := addApp(t, st, "keeper")
		fatalIf(t, os.WriteFile("cairn.yaml", []byte("# ours\nissuer: http://localhost:4040"), 0o600))
		_, err = config.GenerateKey("key.pem", config.MinKeyBits)
		fatalIf(t, err)
		s := &shell{t: t, environ: []string{"SERVICE_DATABASE=" + dsn, "SERVICE_OIDC_PRIVATE_KEY_FILE=key.pem"}}
		secret, code := s.must("show-secret"), strings.TrimSpace(s.must("invite", "add", "-q"))
		p := startProcess(t, "--database", dsn, "--private-key-file", "key.pem")
		s.refused([]string{"restart it, every instance", "data-key-file is in cairn.yaml"}, "keys", "seal")
		if n, err := st.PlainValues(t.Context()); n != 4 || err != nil {
			t.Errorf("%d values are plain: %v", n, err)
		}
		mustBePrivate(t, "data.key")
		if b, _ := os.ReadFile("cairn.yaml"); string(b) != "# ours\nissuer: http://localhost:4040\ndata-key-file: data.key\n" {
			t.Errorf("cairn.yaml is %s", b)
		}
		p.stop()
		<-p.code
		startProcess(t, "--database", dsn, "--private-key-file", "key.pem") // and this one has the key
		for _, want := range []string{"4 values", "0 values"} {
			has(t, "keys seal prints", s.must("keys", "seal"), want)
		}
		list := s.must("invite", "list", "-q")
		f, err := storetest.OpenWith(t, dsn, cli.DataKeyOf("data.key")).Factors(t.Context(), keeper.Sub)
		fatalIf(t, err)
		if f.TOTP.Secret != totpSecret || strings.TrimSpace(list) != code || s.must("show-secret") != secret {
			t.Errorf("%+v, %s", f, list)
		}
		fatalIf(t, os.Remove("data.key"))
		s.refused([]string{"--new-data-key"}, "keys", "seal") // another key would hide that one is lost
		if cli.Exists("data.key") {
			t.Error("another key was made")
		}
	})
}
