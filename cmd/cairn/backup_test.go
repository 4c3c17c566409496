package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web/browser"
	"github.com/cairn-id/cairn/cmd/cairn/internal/archive"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

const passphrase = "correct horse battery"

// shell runs commands in a folder of their own and keeps what they print.
type shell struct {
	t       *testing.T
	environ []string
	stdin   string
	printed strings.Builder
}

func (s *shell) run(args ...string) (code int, printed string) {
	s.t.Helper()
	var out bytes.Buffer
	code = Run(s.t.Context(), args, s.environ, strings.NewReader(s.stdin), &out, &out)
	s.printed.Write(out.Bytes())
	return code, out.String()
}

func (s *shell) must(args ...string) string {
	s.t.Helper()
	code, printed := s.run(args...)
	if code != cli.ExitDone {
		s.t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, printed)
	}
	return printed
}

// signingKey is that of all installations: making one takes longer than most tests.
var signingKey []byte

// install makes an installation with the key key.pem in the working folder.
func (s *shell) install() {
	s.t.Helper()
	key := "--generate-key"
	if signingKey != nil {
		key = "--private-key-file"
		fatalIf(s.t, os.WriteFile("key.pem", signingKey, 0o600))
	}
	s.must("init", "--handle", "keeper", "--password-file", "-", key, "key.pem")
	var err error
	signingKey, err = os.ReadFile("key.pem")
	fatalIf(s.t, err)
}

// refused runs a command that must fail with one line that has these words.
func (s *shell) refused(words []string, args ...string) {
	s.t.Helper()
	code, printed := s.run(args...)
	if code == cli.ExitDone || strings.Count(printed, "\n") != 1 {
		s.t.Errorf("%s: exit code %d: %s", strings.Join(args, " "), code, printed)
	}
	for _, w := range words {
		if !strings.Contains(printed, w) {
			s.t.Errorf("%s: %q lacks %q", strings.Join(args, " "), printed, w)
		}
	}
}

// onEach runs a test with an installation on each database, in an empty working folder,
// where empty gives further databases of its kind.
func onEach(t *testing.T, test func(t *testing.T, s *shell, dsn string)) {
	storetest.EachEmpty(t, func(t *testing.T, dsn string) {
		t.Chdir(t.TempDir())
		s := &shell{t: t, environ: []string{"SERVICE_DATABASE=" + dsn, "SERVICE_DATA_KEY_FILE=data.key"}, stdin: password}
		s.install()
		s.stdin = passphrase
		test(t, s, dsn)
	})
}

// other is an empty database of the same kind.
func other(t *testing.T, dsn string) string {
	t.Helper()
	if !store.IsPostgres(dsn) {
		return filepath.Join(t.TempDir(), "other.db")
	}
	db, err := sql.Open("pgx", dsn)
	fatalIf(t, err)
	name := fmt.Sprintf("cairn_backup_%d_%d", os.Getpid(), rand.Uint32())
	if _, err := db.Exec("CREATE SCHEMA " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := db.Exec("DROP SCHEMA " + name + " CASCADE")
		if err != nil {
			t.Error(err)
		}
		_ = db.Close()
	})
	return regexp.MustCompile(`search_path=\w+`).ReplaceAllString(dsn, "search_path="+name)
}

// visitor is a browser at a running service.
type visitor struct {
	t       *testing.T
	address string
}

var visitors = browser.NewClient(time.Minute, nil)

func (v visitor) send(method, path, cookie, contentType, body string) browser.Answer {
	v.t.Helper()
	var header []string
	if cookie != "" {
		header = []string{"Cookie", browser.SessionCookie + "=" + cookie}
	}
	r, err := browser.Request(v.t.Context(), method, "http://"+v.address+path, "", contentType, body, header...)
	fatalIf(v.t, err)
	a := browser.Send(visitors, r)
	fatalIf(v.t, a.Err)
	return a
}

func (v visitor) get(path, cookie string) browser.Answer {
	v.t.Helper()
	return v.send("GET", path, cookie, "", "")
}

// token is a request of the application.
func (v visitor) token(app browser.App, form url.Values) browser.Answer {
	v.t.Helper()
	return v.send("POST", "/oauth2/token", "", browser.FormType, app.Form(form).Encode())
}

func (v visitor) login(handle, password string) browser.Answer {
	v.t.Helper()
	return v.send("POST", "/api/auth/login", "", browser.JSONType, `{"handle":"`+handle+`","password":"`+password+`"}`)
}

func (v visitor) signIn(handle string) (cookie string) {
	v.t.Helper()
	a := v.login(handle, password)
	if cookie = a.Cookie(browser.SessionCookie); a.Status != http.StatusOK || cookie == "" {
		v.t.Fatalf("sign in: %d %s", a.Status, a.Body)
	}
	return cookie
}

func (v visitor) me(cookie string) int { v.t.Helper(); return v.get("/api/me", cookie).Status }

// refreshToken returns the token that the trusted client gets for a signed-in browser.
func (v visitor) refreshToken(app browser.App, cookie string) string {
	v.t.Helper()
	back := v.get(app.Authorize("openid offline_access"), cookie)
	got := v.token(app, app.Exchange(back.Code()))
	if got.Given("refresh_token") == "" {
		v.t.Fatalf("no refresh token: %v %d %s", back.Location(), got.Status, got.Body)
	}
	return got.Given("refresh_token")
}

// list reads the bits of a status list.
func (v visitor) list(path string) []byte {
	v.t.Helper()
	bits, err := browser.Bits(v.get(path, "").Body)
	fatalIf(v.t, err)
	return bits
}

// revoked tells what the status list says of a cookie, and the list's entity tag.
func (v visitor) revoked(cookie string) (revoked bool, etag string) {
	v.t.Helper()
	ref := browser.ClaimsOf(cookie).Status.List
	at, err := url.Parse(ref.URI)
	fatalIf(v.t, err)
	a := v.get(at.Path, "")
	bit, err := browser.Bit(a.Body, ref.Index)
	fatalIf(v.t, err)
	return bit == 1, a.Header.Get("ETag")
}

func versionOfList(t *testing.T, dsn string) int64 {
	t.Helper()
	st, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler)})
	fatalIf(t, err)
	defer func() { _ = st.Close() }()
	n, err := st.StatusVersion(t.Context(), 1)
	fatalIf(t, err)
	return n
}

// A session that was ended after the backup is live in it. So a restore ends all of them,
// where they are looked up and where other applications look; and with --keep-sessions
// those alone that the backup does not know.
func TestRestoreEndsSessionsAndGrantsUnlessTheyAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		app := browser.App{Callback: "https://app.example.org/cb"}
		app.ID = strings.TrimSpace(s.must("client", "add", "App", "--redirect-uri", app.Callback,
			"--public", "--trusted", "--scope", "openid", "--scope", "offline_access", "-q"))
		p := startProcess(t, "--database", dsn, "--private-key-file", "key.pem")
		v := visitor{t, p.address}
		before := v.signIn("keeper")
		refresh := v.refreshToken(app, before)
		_, oldTag := v.revoked(before)
		// A sign-in that was begun before the backup: its link is sealed with the installation's secret.
		page := v.get(app.Authorize("openid"), "").Location()
		begun := "/oauth2/authorize?continue=" + url.QueryEscape(page.Query().Get("continue"))
		if status := v.get(begun, "").Status; status != http.StatusSeeOther {
			t.Fatalf("%s: the sealed link %s answers %d", page, begun, status)
		}
		s.must("backup", "b.tar.gz")
		after := v.signIn("keeper")
		s.refused([]string{"cairn serve runs", "stop it first"}, "restore", "b.tar.gz", "--force")
		s.refused([]string{"cairn serve runs", "stop it first"}, "copy", "--to", "copy.db")
		p.stop()
		<-p.code
		for _, keep := range []bool{false, true} {
			target := other(t, dsn)
			args := []string{"restore", "b.tar.gz", "--database", target}
			if keep {
				args = append(args, "--keep-sessions")
			}
			s.must(args...)
			if now, then := versionOfList(t, target), versionOfList(t, dsn); now <= then {
				t.Errorf("keep %t: the list has version %d, before it had %d", keep, now, then)
			}
			p := startProcess(t, "--database", target, "--private-key-file", "key.pem")
			v := visitor{t, p.address}
			want, sessions := http.StatusUnauthorized, 1
			if keep {
				want, sessions = http.StatusOK, 2
			}
			same(t, fmt.Sprintf("keep %t: the earlier cookie gets", keep), v.me(before), want)
			same(t, fmt.Sprintf("keep %t: a cookie from after the backup gets", keep),
				v.me(after), http.StatusUnauthorized)
			if got, tag := v.revoked(before); got == keep || tag == oldTag {
				t.Errorf("keep %t: the list says %t of the earlier cookie, and its tag changed: %t", keep, got, tag != oldTag)
			}
			if got, _ := v.revoked(after); !got {
				t.Errorf("keep %t: the list has a cookie from after the backup for valid", keep)
			}
			if got := v.token(app, app.Refresh(refresh)).Status; (got == http.StatusOK) != keep {
				t.Errorf("keep %t: the refresh token gets %d", keep, got)
			}
			if status := v.get(begun, "").Status; (status == http.StatusSeeOther) != keep {
				t.Errorf("keep %t: a link that was sealed before the backup gets %d", keep, status)
			}
			fresh := v.signIn("keeper")
			if revoked, _ := v.revoked(fresh); revoked || v.me(fresh) != http.StatusOK {
				t.Errorf("keep %t: a new session is revoked", keep)
			}
			// A list that was opened after the backup, and is not in it.
			if bits := v.list("/oauth2/status/2"); bytes.Count(bits, []byte{0xff}) != len(bits) {
				t.Errorf("keep %t: a list of after the backup does not have every token revoked", keep)
			}
			p.stop()
			<-p.code
			if got := s.must("session", "list", "keeper", "--database", target, "-q"); strings.Count(got, "\n") != sessions {
				t.Errorf("keep %t: sessions %q", keep, got)
			}
		}
	})
}

// Every write that was acknowledged before a backup began is in it, and what belongs to
// one transaction is in it whole, however many go on writing.
func TestBackupBesideWritersIsOneMoment(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		st, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler)})
		fatalIf(t, err)
		defer func() { _ = st.Close() }()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var acknowledged atomic.Int64
		var writers sync.WaitGroup
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					now := time.Now().UTC().Truncate(time.Second)
					u := account.User{Sub: fmt.Sprintf("s%d-%d", w, i), Handle: fmt.Sprintf("h%d-%d", w, i),
						DisplayName: "H", PasswordHash: "x", CreatedAt: now, UpdatedAt: now}
					if err := st.CreateUser(context.WithoutCancel(ctx), u, cli.Operator(account.AddUser, u.Handle, "")); err != nil {
						t.Error(err)
						return
					}
					acknowledged.Add(1)
					time.Sleep(time.Millisecond) // a second of writes is enough
				}
			})
		}
		for n := range 2 {
			least := acknowledged.Load()
			file := fmt.Sprintf("b%d.tar.gz", n)
			var d archive.BackupReport
			printed := s.must("backup", file, "-o", "json")
			// Before it a line may say that the time was not noted: the writers leave no room for that.
			if err := json.Unmarshal([]byte(printed[strings.Index(printed, "{\n"):]), &d); err != nil {
				t.Errorf("%v: %s", err, printed)
			}
			if d.Users <= least {
				t.Errorf("%d users are in the backup, %d were acknowledged before it", d.Users, least)
			}
			target := filepath.Join(t.TempDir(), "restored.db")
			s.must("restore", file, "--database", target)
			db, err := sql.Open("sqlite3", target)
			fatalIf(t, err)
			var users, counted, written int64
			err = db.QueryRow(`SELECT (SELECT count(*) FROM users), (SELECT value FROM counters WHERE name = 'users'),
				(SELECT count(*) FROM audit WHERE action = 'user.create')`).Scan(&users, &counted, &written)
			_ = db.Close()
			if err != nil || users != d.Users || counted != users || written != users {
				t.Errorf("%d users, counter %d, audit rows %d, said %d: %v", users, counted, written, d.Users, err)
			}
		}
		stop()
		writers.Wait()
	})
}

// From PostgreSQL to a file, into another PostgreSQL and to a file again; nothing in places
// that are taken.
func TestCopyMovesAnInstallationBetweenDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		if !store.IsPostgres(dsn) {
			return // the way below leads through SQLite
		}
		s.must("invite", "add")
		next := other(t, dsn)
		var rows []map[string]int64
		for _, way := range [][2]string{{dsn, "one.db"}, {"one.db", next}, {next, "two.db"}} {
			var d struct{ Rows map[string]int64 }
			fatalIf(t, json.Unmarshal([]byte(s.must("copy", "--database", way[0], "--to", way[1], "-o", "json")), &d))
			rows = append(rows, d.Rows)
		}
		for table, n := range rows[0] {
			if rows[1][table] != n || rows[2][table] != n {
				t.Errorf("%s has %d, %d and %d rows", table, n, rows[1][table], rows[2][table])
			}
		}
		has(t, "copy", s.must("copy", "--database", "two.db", "--to", other(t, dsn)), "write database: the URL of --to into cairn.yaml")
		s.refused([]string{"has an installation"}, "copy", "--to", next)
		s.refused([]string{"one.db exists"}, "copy", "--to", "one.db")
		s.refused([]string{"the database itself"}, "copy", "--to", dsn)
		s.must("backup", "b.tar.gz")
		s.refused([]string{"has an installation", "empty database"}, "restore", "b.tar.gz", "--force")
		got := s.must("invite", "list", "-q", "--database", "two.db")
		same(t, fmt.Sprintf("invites %q", got), strings.Count(got, "\n"), 1)
		p := startProcess(t, "--database", "two.db", "--private-key-file", "key.pem")
		v := visitor{t, p.address}
		same(t, "the copy serves no sign-in", v.me(v.signIn("keeper")), http.StatusOK)
		p.stop()
		<-p.code
	})
}

// At whatever instant a process is killed, a file with the name of a backup is one, and a
// database with the name of the restored one is that, with its sessions ended.
func TestKilledBackupAndRestoreLeaveNothingThatPassesForDone(t *testing.T) {
	racetest.Skip(t)
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		s.must("backup", "good.tar.gz")
		program, err := os.Executable()
		fatalIf(t, err)
		killed := func(after time.Duration, args ...string) {
			c := exec.CommandContext(t.Context(), program)
			c.Args = append([]string{"cairn"}, args...)
			c.Env = append(os.Environ(), s.environ...)
			fatalIf(t, c.Start())
			time.Sleep(after) // the instant of the kill: any is right
			_ = c.Process.Kill()
			_ = c.Wait()
		}
		unfinished := func() (names []string) {
			for _, folder := range []string{".", filepath.Dir(dsn), tmp} {
				left, _ := filepath.Glob(filepath.Join(folder, ".*"))
				names = append(names, left...)
			}
			return names
		}
		made, longest := 0, 250
		times, err := strconv.Atoi(cmp.Or(os.Getenv("CAIRN_KILL_ROUNDS"), "3"))
		fatalIf(t, err)
		if store.IsPostgres(dsn) {
			longest = 1500 // a database is migrated
		}
		for i := range times {
			after := time.Duration(30+rand.IntN(longest)) * time.Millisecond
			file := fmt.Sprintf("k%d.tar.gz", i)
			killed(after, "backup", file)
			if cli.Exists(file) {
				made++
				s.must("backup", "verify", file)
			}
			target := other(t, dsn)
			killed(after, "restore", "good.tar.gz", "--database", target)
			code, said := s.run("restore", "good.tar.gz", "--database", target)
			if code != cli.ExitDone && !strings.Contains(said, "exists, with 1 users") && !strings.Contains(said, "has an installation") {
				t.Errorf("after a kill at %s the restore does not go through: %s", after, said)
			}
			same(t, "restored users", s.must("user", "list", "-q", "--database", target), "keeper\n")
		}
		t.Logf("%d of %d backups were done before the kill, which have left %q", made, times, unfinished())
		s.must("backup", "last.tar.gz")
		if left := unfinished(); len(left) > 0 {
			t.Errorf("after the next backup there is still %q", left)
		}
	})
}

// sqliteShell is onEach for what is the same on both databases.
func sqliteShell(t *testing.T) (s *shell, key string) {
	t.Helper()
	t.Chdir(t.TempDir())
	s = &shell{t: t, stdin: password}
	s.install()
	s.stdin = passphrase
	return s, string(signingKey)
}

// Damage and places that are taken end with one line, and change nothing.
func TestRestoreRefusesWhatItCannotDoWell(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("backup", "plain.tar.gz")
	target := filepath.Join(t.TempDir(), "target.db")
	whole, err := os.ReadFile("plain.tar.gz")
	fatalIf(t, err)
	whole[len(whole)*2/3] ^= 1
	fatalIf(t, os.WriteFile("damaged", whole, 0o600))
	s.refused([]string{"damaged: the backup is damaged"}, "backup", "verify", "damaged")
	s.refused([]string{"the backup is damaged", "nothing was changed"}, "restore", "damaged", "--database", target)
	s.refused([]string{"not a backup"}, "restore", "cairn.yaml", "--database", target)
	s.refused([]string{"there is no folder", "make it first"}, "restore", "plain.tar.gz", "--database", filepath.Join(t.TempDir(), "none", "x.db"))
	s.refused([]string{"exists and is not overwritten"}, "backup", "plain.tar.gz")
	s.refused([]string{"without the keys"}, "backup", "new.age", "--passphrase-file", "-")
	s.refused([]string{"exists, with 1 users", "--force"}, "restore", "plain.tar.gz")
	s.must("invite", "add")
	db, err := sql.Open("sqlite3", "cairn.db")
	fatalIf(t, err)
	if _, err := db.Exec("UPDATE audit SET at = at + 5"); err != nil { // in a later second
		t.Fatal(err)
	}
	_ = db.Close()
	s.refused([]string{"it is newer than the backup"}, "restore", "plain.tar.gz")
	if cli.Exists(target) {
		t.Error("a database was made")
	}
	said := s.must("restore", "plain.tar.gz", "--force")
	moved := regexp.MustCompile(`\S+\.before-restore-\S+`).FindString(said)
	got := s.must("invite", "list", "-q", "--database", moved)
	same(t, fmt.Sprintf("the earlier database: %q", got), strings.Count(got, "\n"), 1)
	same(t, "the restored database", s.must("invite", "list", "-q"), "")
	fatalIf(t, errors.Join(os.Remove("cairn.db"), os.WriteFile("cairn.db-wal", []byte("log"), 0o600)))
	s.refused([]string{"-wal holds changes"}, "restore", "plain.tar.gz")
}

// Without its key the restored installation does not start: what is next is to put it back.
func TestRestoreNamesTheKeyThatTheBackupLacks(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("backup", "b.tar.gz")
	said := s.must("restore", "b.tar.gz", "--database", "one.db")
	_, findings := s.run("doctor", "--offline", "--database", "one.db")
	has(t, "not yet served", findings, "journal_mode is wal")
	if strings.Contains(said, "put back") || !strings.HasSuffix(said, " serve\n") {
		t.Errorf("with the key: %s", said)
	}
	fatalIf(t, os.Rename("key.pem", "elsewhere.pem"))
	said = s.must("restore", "b.tar.gz", "--database", "two.db")
	if !regexp.MustCompile(`(?m)^next +put back what the backup does not have: \S*key\.pem \(private-key-file\); then .* serve$`).MatchString(said) {
		t.Errorf("without it: %s", said)
	}
}

// With --keys a backup is all that a new machine needs, and nothing without its passphrase.
func TestBackupWithKeysRestoresAWholeInstallation(t *testing.T) {
	s, key := sqliteShell(t)
	s.must("backup", "b.age", "--keys", "--passphrase-file", "-")
	sealed, err := os.ReadFile("b.age")
	fatalIf(t, err)
	if bytes.Contains(sealed, []byte("keeper")) || bytes.HasPrefix(sealed, []byte{0x1f, 0x8b}) {
		t.Error("the backup is not encrypted")
	}
	secret := strings.TrimSpace(s.must("show-secret"))
	s.printed.Reset()
	file, err := filepath.Abs("b.age")
	fatalIf(t, err)
	t.Chdir(t.TempDir())
	s.stdin = "another passphrase"
	s.refused([]string{"passphrase is wrong"}, "restore", file, "--passphrase-file", "-")
	s.stdin = "short"
	s.refused([]string{"at least 12 characters"}, "backup", "new.age", "--keys", "--passphrase-file", "-", "--database", filepath.Join(filepath.Dir(file), "cairn.db"))
	if left, _ := filepath.Glob("*"); len(left) > 0 {
		t.Errorf("a refused restore has left %q", left)
	}
	s.stdin = passphrase
	s.must("restore", file, "--passphrase-file", "-")
	if restored, err := os.ReadFile("key.pem"); err != nil || string(restored) != key {
		t.Errorf("the key: %v", err)
	}
	kid := s.must("keys", "list", "-q")
	same(t, fmt.Sprintf("keys %q", kid), len(strings.TrimSpace(kid)), 43)
	p := startProcess(t)
	v := visitor{t, p.address}
	same(t, "the restored installation serves no sign-in", v.me(v.signIn("keeper")), http.StatusOK)
	p.stop()
	<-p.code
	fatalIf(t, os.WriteFile("key.pem", []byte("another"), 0o600))
	s.refused([]string{"key.pem exists and differs"}, "restore", file, "--passphrase-file", "-", "--force")
	for _, hidden := range []string{secret, passphrase, key[40:80]} {
		lacks(t, "a secret was printed", s.printed.String(), hidden)
	}
}

// The service makes scheduled backups, to a recipient whose identity is elsewhere, keeps as many as it is told, deletes
// no file of another name, and has each carried off by a program that learns none of its secrets.
func TestServeMakesBackupsAndKeepsTheNewest(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		recipient := strings.TrimSpace(s.must("keys", "generate", "identity.age", "--type", "age", "-q"))
		folder, away := t.TempDir(), t.TempDir()
		foreign := filepath.Join(folder, "cairn-20200101T000000Z.tar.gz.kept")
		ahead := []string{"cairn-29990101T000000Z.tar.gz.age", "cairn-29990102T000000Z.tar.gz.age"} // of a clock that was ahead
		script := filepath.Join(t.TempDir(), "carry off")
		t.Setenv("SERVICE_AUTH_JWT_SECRET", "a secret of the service")
		t.Setenv("PGPASSWORD", "another secret")
		text := "#!/bin/sh\n[ $# = 1 ] && [ \"$1\" = \"$CAIRN_BACKUP_FILE\" ] && env > '" + away + "/env' && cp \"$1\" '" + away + "' &&\n" +
			"[ $(ls '" + away + "' | wc -l) -lt 4 ] || { echo no room; exit 3; }\n"
		fatalIf(t, errors.Join(os.WriteFile(foreign, nil, 0o600), os.WriteFile(script, []byte(text), 0o700)))
		for _, name := range ahead {
			fatalIf(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
		}
		st, err := store.Open(t.Context(), dsn, store.Options{Log: slog.New(slog.DiscardHandler), DataKey: cli.DataKeyOf("data.key")})
		fatalIf(t, err)
		defer func() { _ = st.Close() }()
		ctx, stop := context.WithCancel(t.Context())
		var log bytes.Buffer
		var background sync.WaitGroup
		background.Go(func() {
			source := archive.BackupSource{Store: st, Database: dsn, Recipient: recipient, DataKey: "data.key"}
			// more often than a setting may say
			b := config.Backup{Dir: folder, Every: time.Second, Keep: 2, Command: script}
			archive.BackupUntil(ctx, source, b, slog.New(slog.NewTextHandler(&log, nil)))
		})
		var failure string
		for end := time.Now().Add(30 * time.Second); failure == "" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if _, failure, err = st.LastTurn(t.Context(), store.TurnBackupCommand); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		background.Wait()
		if !strings.Contains(failure, "exit status 3: no room") || !strings.Contains(log.String(), "exit status 3: no room") {
			t.Errorf("the failure of the third run is recorded as %q, and logged: %s", failure, log.String())
		}
		seen, _ := filepath.Glob(filepath.Join(away, "cairn-*Z.tar.gz.age"))
		left, _ := filepath.Glob(filepath.Join(folder, "*"))
		if len(seen) < 3 || len(left) != 3+len(ahead) || !cli.Exists(foreign) {
			t.Errorf("made %q, left %q", seen, left)
		}
		if env, err := os.ReadFile(filepath.Join(away, "env")); err != nil || bytes.Contains(env, []byte("secret")) || !bytes.Contains(env, []byte("\nPATH=")) {
			t.Errorf("the environment of the command: %s %v", env, err)
		}
		_, file, err := st.LastTurn(t.Context(), store.TurnBackup)
		if err != nil || !cli.Exists(file) || filepath.Dir(file) != folder {
			t.Errorf("the last backup is noted as %q: %v", file, err)
		}
		s.must("keys", "generate", "other.age", "--type", "age", "-q")
		s.refused([]string{"another recipient"}, "restore", file, "--identity", "other.age", "--database", "new.db")
		s.refused([]string{"--identity FILE"}, "backup", "verify", file)
		target := other(t, dsn)
		s.must("restore", file, "--identity", "identity.age", "--database", target)
		same(t, "restored users", s.must("user", "list", "-q", "--database", target), "keeper\n")
	})
}

// The command that operators run, with the setting and nothing else: a backup that others could read would hold every
// address.
func TestServeEncryptsItsBackupsToTheRecipient(t *testing.T) {
	s, _ := sqliteShell(t)
	recipient := strings.TrimSpace(s.must("keys", "generate", "identity.age", "--type", "age", "-q"))
	fatalIf(t, os.Mkdir("backups", 0o700))
	startProcess(t, "--backup-dir", "backups", "--backup-every", "1h", "--backup-recipient", recipient)
	var made []string
	for end := time.Now().Add(30 * time.Second); len(made) == 0 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		made, _ = filepath.Glob("backups/cairn-*Z.tar.gz*")
	}
	if len(made) != 1 {
		t.Fatalf("backups: %q", made)
	}
	content, err := os.ReadFile(made[0])
	if err != nil || !strings.HasSuffix(made[0], ".tar.gz.age") || !bytes.HasPrefix(content, []byte("age-encryption.org/v1\n")) {
		t.Errorf("%q, %.40q, %v", made, content, err)
	}
	s.must("backup", "verify", made[0], "--identity", "identity.age")
}

// By hand, too, no passphrase is needed where a recipient is set, and keys are only in what is encrypted.
func TestBackupByHandIsEncryptedToTheRecipient(t *testing.T) {
	s, key := sqliteShell(t)
	recipient := strings.TrimSpace(s.must("keys", "generate", "identity.age", "--type", "age", "-q"))
	s.refused([]string{"exists"}, "keys", "generate", "identity.age", "--type", "age")
	settings, err := os.OpenFile("cairn.yaml", os.O_APPEND|os.O_WRONLY, 0)
	fatalIf(t, err)
	if _, err := settings.WriteString("backup-recipient: " + recipient + "\nbackup-command: missing\n"); err != nil {
		t.Fatal(err)
	}
	_ = settings.Close()
	s.refused([]string{"--recipient and --passphrase-file"}, "backup", "b.age", "--keys", "--recipient", recipient, "--passphrase-file", "-")
	s.refused([]string{"not a recipient of age"}, "backup", "b.age", "--recipient", "age1mistyped")
	if code, said := s.run("backup", "b.age", "--keys"); code != cli.ExitFailed || !strings.Contains(said, "missing: no such file") || !cli.Exists("b.age") {
		t.Errorf("with a command that cannot be run: exit code %d: %s", code, said)
	}
	file, err := filepath.Abs("b.age")
	fatalIf(t, err)
	identity := filepath.Join(filepath.Dir(file), "identity.age")
	s.must("backup", "verify", file, "--identity", identity)
	t.Chdir(t.TempDir())
	s.must("restore", file, "--identity", identity)
	if restored, err := os.ReadFile("key.pem"); err != nil || string(restored) != key {
		t.Errorf("the key: %v", err)
	}
}

// Before an installation is migrated there is a backup, which a later version restores.
func TestMigrationHasABackupBeforeIt(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		fatalIf(t, undoMigrations(dsn))
		folder, end, recipient, unlock := t.TempDir(), ".tar.gz", []string(nil), []string(nil)
		if !store.IsPostgres(dsn) {
			folder, end, unlock = filepath.Dir(dsn), ".tar.gz.age", []string{"--identity", "identity.age"}
			made := strings.TrimSpace(s.must("keys", "generate", "identity.age", "--type", "age", "-q"))
			recipient = []string{"--backup-recipient", made}
		} else {
			s.environ = append(s.environ, "SERVICE_BACKUP_DIR="+folder)
		}
		release, err := store.Use(t.Context(), dsn, false) // as a service of the version before does
		fatalIf(t, err)
		s.refused([]string{"nothing was migrated", "stop it first"}, "migrate")
		if !store.IsPostgres(dsn) { // an instance that is replaced last goes on
			wait := archive.MigrationWait
			archive.MigrationWait = 0
			defer func() { archive.MigrationWait = wait }()
			s.refused([]string{"nothing was migrated", "stop it first"}, "serve", "--private-key-file", "key.pem",
				"--log-level", "error")
			release()
		} else {
			defer release()
		}
		s.refused([]string{"schema 11"}, "user", "list")
		p := startProcess(t, append(recipient, "--database", dsn, "--private-key-file", "key.pem", "--data-key-file", "data.key",
			"--backup-dir", folder)...)
		p.stop()
		<-p.code
		files, _ := filepath.Glob(filepath.Join(folder, "cairn-before-schema-*"+end))
		if len(files) != 1 {
			t.Fatalf("backups before the migration: %q", files)
		}
		s.must("user", "list", "-q") // nothing is left to migrate
		target := other(t, dsn)
		s.must(append([]string{"restore", files[0], "--database", target}, unlock...)...)
		same(t, "restored users", s.must("user", "list", "-q", "--database", target), "keeper\n")
		again, _ := filepath.Glob(filepath.Join(folder, "cairn-before-schema-*"))
		same(t, fmt.Sprintf("backups before the migration: %q", again), len(again), 1)
	})
}

// undoLastMigrations makes an installation one of schema 11.
var undoLastMigrations = []string{
	"ALTER TABLE sessions DROP COLUMN device_key", "ALTER TABLE sessions DROP COLUMN device_proven_at", "ALTER TABLE users DROP COLUMN second_factor_was", "DROP TABLE refused_sign_ins",
	"ALTER TABLE users DROP COLUMN email_pending", "ALTER TABLE users DROP COLUMN email_pending_at", "ALTER TABLE users DROP COLUMN email_pending_session_id", "ALTER TABLE users DROP COLUMN email_pending_keep",
	"DROP INDEX users_new_email", "ALTER TABLE users DROP COLUMN language", "DROP INDEX users_handle_dots",
	"DROP INDEX users_end_due", "DROP INDEX user_flags_end_due", "DROP INDEX users_end_done", "DROP INDEX user_flags_end_done", "ALTER TABLE users DROP COLUMN end_done", "ALTER TABLE user_flags DROP COLUMN end_done",
	"DROP INDEX users_ends", "DROP INDEX user_flags_ends", "ALTER TABLE users DROP COLUMN ends_at", "ALTER TABLE users DROP COLUMN end_told", "ALTER TABLE user_flags DROP COLUMN ends_at",
	"ALTER TABLE user_flags DROP COLUMN end_told", "DELETE FROM counters WHERE name = 'ends-told'", "ALTER TABLE invites DROP COLUMN account_ends_at", "ALTER TABLE invites DROP COLUMN flag_ends",
	"ALTER TABLE clients DROP COLUMN managed", "ALTER TABLE clients DROP COLUMN require_verified_email",
	"DROP TABLE user_pictures",
	"DROP TABLE join_requests", "DELETE FROM locks WHERE name = 'join-requests'",
	"DROP INDEX users_invite", "ALTER TABLE users DROP COLUMN invite", "ALTER TABLE invites DROP COLUMN uses", "ALTER TABLE invites DROP COLUMN used", "ALTER TABLE invites DROP COLUMN flags",
	"ALTER TABLE invites DROP COLUMN domain", "ALTER TABLE invites DROP COLUMN by_admin",
	"DROP INDEX invites_used_by", "ALTER TABLE invites DROP COLUMN mailed_to",
	"ALTER TABLE clients DROP COLUMN access_lifetime", "ALTER TABLE clients DROP COLUMN refresh_lifetime", "ALTER TABLE clients DROP COLUMN refresh_max_lifetime",
	"ALTER TABLE clients DROP COLUMN claims", "ALTER TABLE clients DROP COLUMN claim_in", "ALTER TABLE clients DROP COLUMN require_all",
	"DROP INDEX passkeys_rp_id", "ALTER TABLE passkeys DROP COLUMN rp_id", "ALTER TABLE recovery_codes DROP COLUMN name",
	"ALTER TABLE consents DROP COLUMN session_id", "ALTER TABLE invites DROP COLUMN session_id", "ALTER TABLE invites DROP COLUMN stale", "ALTER TABLE totp DROP COLUMN session_id",
	"ALTER TABLE passkeys DROP COLUMN session_id", "ALTER TABLE recovery_codes DROP COLUMN session_id", "ALTER TABLE email_changes DROP COLUMN session_id", "ALTER TABLE audit DROP COLUMN session_id",
	"ALTER TABLE users DROP COLUMN email_changed_at", "ALTER TABLE users DROP COLUMN email_session_id", "ALTER TABLE users DROP COLUMN password_disowned_at", "ALTER TABLE sessions DROP COLUMN reported_at",
	"ALTER TABLE sessions DROP COLUMN known_since", "ALTER TABLE audit DROP COLUMN former",
	"ALTER TABLE reset_codes DROP COLUMN session_id", "DROP INDEX mailed_reset_codes_made_by", "ALTER TABLE mailed_reset_codes DROP COLUMN made_by", "ALTER TABLE mailed_reset_codes DROP COLUMN session_id",
	"DROP INDEX mail_outbox_made_by", "ALTER TABLE mail_outbox DROP COLUMN made_by", "ALTER TABLE mail_outbox DROP COLUMN session_id",
	"DROP TABLE former_recovery_codes", "ALTER TABLE users DROP COLUMN second_factor_at", "ALTER TABLE users DROP COLUMN second_factor_session_id",
	"DROP INDEX reset_codes_made_by", "ALTER TABLE reset_codes DROP COLUMN made_by", "ALTER TABLE users DROP COLUMN factor_unlocks", "ALTER TABLE users DROP COLUMN factor_mailed_at", "ALTER TABLE users DROP COLUMN unlocks", "ALTER TABLE users DROP COLUMN locked_until", "ALTER TABLE users DROP COLUMN reset_address", "ALTER TABLE users DROP COLUMN reset_at", "DROP INDEX sessions_address",
	"ALTER TABLE clients DROP COLUMN dpop_bound_access_tokens", "ALTER TABLE clients DROP COLUMN profile", "ALTER TABLE grants DROP COLUMN dpop_jkt",
	"ALTER TABLE tokens DROP COLUMN jkt", "ALTER TABLE client_tokens DROP COLUMN jkt",
	"ALTER TABLE clients DROP COLUMN initiate_login_uri", "DROP TABLE client_logos", "DROP TABLE consent_refusals", "ALTER TABLE clients DROP COLUMN home_uri", "ALTER TABLE clients DROP COLUMN optional_scopes",
	"DROP TABLE client_allowances", "ALTER TABLE clients DROP COLUMN document", "DROP TABLE device_requests", "ALTER TABLE clients DROP COLUMN device_grant", "DROP TABLE api_clients", "DROP TABLE api_scopes", "DROP TABLE apis", "DROP INDEX grants_status", "DROP INDEX grants_status_revoked", "DROP INDEX client_tokens_status",
	"ALTER TABLE grants DROP COLUMN resources", "ALTER TABLE grants DROP COLUMN status_list", "ALTER TABLE grants DROP COLUMN status_index",
	"ALTER TABLE tokens DROP COLUMN audience", "ALTER TABLE tokens DROP COLUMN scope",
	"ALTER TABLE client_tokens DROP COLUMN audience", "ALTER TABLE client_tokens DROP COLUMN status_list", "ALTER TABLE client_tokens DROP COLUMN status_index",
	"DROP INDEX users_foreign_hash", "ALTER TABLE sessions DROP COLUMN passkey", "ALTER TABLE sessions DROP COLUMN disowned", "ALTER TABLE users DROP COLUMN devices_voided_at",
	"ALTER TABLE invites DROP COLUMN sealed_code", "ALTER TABLE email_changes DROP COLUMN seq", "DELETE FROM locks WHERE name = 'verified-emails'",
	"CREATE INDEX grants_client ON grants (client_id, id)", "ALTER TABLE clients DROP COLUMN id_token_alg", "DROP INDEX logout_outbox_client", "DROP INDEX mail_outbox_sub", "DROP TABLE turns", "DELETE FROM goose_db_version WHERE version_id >= 12",
}

// A backup by hand is another file in another place: the next scheduled one is as far away as before.
func TestBackupByHandDoesNotDelayScheduledOnes(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		s.must("backup", "by-hand.tar.gz")
		folder := t.TempDir()
		p := startProcess(t, "--database", dsn, "--private-key-file", "key.pem", "--backup-dir", folder)
		var files []string
		for end := time.Now().Add(30 * time.Second); len(files) == 0 &&
			time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			files, _ = filepath.Glob(filepath.Join(folder, "cairn-*Z.tar.gz"))
		}
		p.stop()
		if <-p.code; len(files) == 0 {
			t.Error("the service makes none")
		}
	})
}

// A folder for temporary files that others can write to: what looks like the rest of a killed
// process leads nowhere, and is not touched where it is another user's.
func TestWorkFolderFollowsNoLinksOfOthers(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("backup", "b.tar.gz")
	tmp, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	t.Setenv("TMPDIR", tmp)
	before := time.Now().Add(-time.Hour)
	folder := func(name string, uid int) string {
		path := filepath.Join(tmp, archive.WorkPrefix+name)
		fatalIf(t, errors.Join(os.Mkdir(path, 0o700), os.Symlink(victim, filepath.Join(path, "work.lock")), os.Chtimes(path, before, before), os.Chown(path, uid, -1)))
		return path
	}
	folder("own", os.Geteuid())
	var foreign string
	if os.Geteuid() == 0 {
		foreign = folder("foreign", 65534)
	}
	s.must("backup", "verify", "b.tar.gz")
	if cli.Exists(victim) {
		t.Error("a file was made where a link leads")
	}
	if foreign != "" && !cli.Exists(foreign) {
		t.Error("the folder of another user was removed")
	}
}

// A backup, a restore and the service remove what killed processes have left beside the database and in the folder of
// backups, and leave alone what another process uses.
func TestUnfinishedWorkIsRemovedUnlessItIsInUse(t *testing.T) {
	s, _ := sqliteShell(t)
	folder := t.TempDir()
	s.must("backup", filepath.Join(folder, "first.tar.gz"))
	for name, do := range map[string]func(){
		"backup":  func() { s.must("backup", filepath.Join(folder, "second.tar.gz")) },
		"restore": func() { s.must("restore", filepath.Join(folder, "first.tar.gz"), "--force") },
		"serve": func() {
			p := startProcess(t, "--private-key-file", "key.pem", "--backup-dir", folder)
			p.stop()
			<-p.code
		},
	} {
		var left, used []string
		for _, parent := range []string{".", folder} {
			work, done, err := archive.WorkFolder(t.Context(), parent)
			fatalIf(t, err)
			defer done()
			killed := filepath.Join(parent, archive.WorkPrefix+name)
			fatalIf(t, errors.Join(os.Mkdir(killed, 0o700), os.WriteFile(filepath.Join(killed, "cairn.db"), nil, 0o600)))
			used, left = append(used, work), append(left, killed)
		}
		do()
		if cli.Exists(left[0]) || cli.Exists(left[1]) {
			t.Errorf("%s has left unfinished work: %q", name, left)
		}
		if !cli.Exists(used[0]) || !cli.Exists(used[1]) {
			t.Errorf("%s has removed what is in use: %q", name, used)
		}
	}
}

// The lock is that of the file, by whatever name: a link to it, too.
func TestRestoreSeesTheServiceBehindALink(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("backup", "b.tar.gz")
	fatalIf(t, os.Symlink("cairn.db", "link.db"))
	p := startProcess(t, "--database", "link.db", "--private-key-file", "key.pem")
	s.refused([]string{"cairn serve runs"}, "restore", "b.tar.gz", "--force")
	p.stop()
	<-p.code
	s.must("restore", "b.tar.gz", "--force", "--database", "link.db")
	if info, err := os.Lstat("link.db"); err != nil || info.Mode().IsRegular() {
		t.Errorf("the link was replaced: %v", err)
	}
	old, _ := filepath.Glob("cairn.db.before-restore-*Z")
	same(t, fmt.Sprintf("the earlier database: %q", old), len(old), 1)
}

// What a command writes while the database is copied or replaced would be lost.
func TestCommandsStayAwayWhileTheDatabaseIsReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		release, err := store.Use(t.Context(), dsn, true)
		fatalIf(t, err)
		s.refused([]string{"being restored, copied or migrated"}, "invite", "add")
		release()
		s.must("invite", "add")
	})
}

func TestBackupOfANewerProgramIsRefused(t *testing.T) {
	s, _ := sqliteShell(t)
	var b bytes.Buffer
	m := &backupfile.Manifest{Program: "v9.8.7", Schema: store.SchemaOfProgram() + 1, Files: []backupfile.File{{Name: backupfile.Database, Path: "cairn.db"}}}
	fatalIf(t, errors.Join(backupfile.Create(t.Context(), &b, m, nil), os.WriteFile("b.tar.gz", b.Bytes(), 0o600)))
	s.refused([]string{"v9.8.7"}, "backup", "verify", "b.tar.gz")
	s.refused([]string{"v9.8.7", "nothing was changed"}, "restore", "b.tar.gz", "--database", "new.db")
}

// Instances that are updated at once have one folder for backups.
func TestInstancesThatMigrateAtOnceShareABackup(t *testing.T) {
	onEach(t, func(t *testing.T, s *shell, dsn string) {
		fatalIf(t, undoMigrations(dsn))
		settings := config.Defaults()
		settings.Database, settings.BackupDir, settings.DataKeyFile = dsn, t.TempDir(), "data.key"
		checked, err := settings.Check()
		fatalIf(t, err)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				st, release, err := archive.OpenToServe(t.Context(), checked, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Error(err)
					return
				}
				release()
				_ = st.Close()
			})
		}
		all.Wait()
		files, _ := os.ReadDir(settings.BackupDir)
		same(t, "backups", len(files), 1)
	})
}

// The row of a deleted account stays, because its identifier is never given twice: nobody signs in with it.
func TestBackupCountsLivingUsers(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("user", "add", "ada", "--generate-password")
	s.must("user", "add", "bob", "--generate-password")
	s.must("user", "delete", "bob", "--yes")
	s.must("backup", "one.tar.gz")
	has(t, "backup", s.must("backup", "verify", "one.tar.gz"), " rows, 2 users")
	has(t, "restore", s.must("restore", "one.tar.gz", "--database", "restored.db"), "2 users, as of")
}
