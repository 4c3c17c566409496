package httpd

import (
	"bytes"
	"database/sql"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/storetest"
)

// The hashes of testdata/import/users.csv are of the tests' password, and made by Django
// 5.2.19, Werkzeug 3.1.9, bcrypt 5.0, passlib 1.7.4 and argon2-cffi 25.1; go-crypt writes
// the forms of passlib.
func TestPasswordsOfOtherSystemsSignInOnceAndAreThenOurs(t *testing.T) {
	const file = "testdata/import/users.csv"
	f, err := os.Open(file)
	noError(t, err)
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	noError(t, err)
	if len(rows) < 18 {
		t.Fatalf("%d hashes", len(rows)-1)
	}
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
		out, _ := cairn(t, exitDone, "user", "import", file, "--dry-run", "--database", dsn)
		if _, err := s.store.UserByHandle(t.Context(), rows[1][0]); err == nil || !strings.Contains(out, fmt.Sprintf("%d could be added, 0 skipped, 0 refused", len(rows)-1)) {
			t.Fatalf("a dry run has added users, or said: %s", out)
		}
		cairn(t, exitDone, "user", "import", file, "--database", dsn)
		for i, row := range rows[1:] {
			if i > 0 && store.IsPostgres(dsn) { // the hashes are the same
				break
			}
			handle, b := row[0], s.browser()
			before, err := s.store.UserByHandle(t.Context(), handle)
			noError(t, err)
			wantStatus(t, handle+" with a wrong password", b.login(handle, password+" "), http.StatusUnauthorized)
			wantStatus(t, handle, b.login(handle, password), http.StatusOK)
			after, err := s.store.UserByHandle(t.Context(), handle)
			noError(t, err)
			if !strings.HasPrefix(after.PasswordHash, "$argon2id$v=19$m=16,t=1,p=1$") || after.PasswordHash == before.PasswordHash {
				t.Errorf("%s: the hash is still of the form %.20s", handle, after.PasswordHash)
			}
			wantStatus(t, handle+" again", s.browser().login(handle, password), http.StatusOK)
		}
	})
}

// What is exported is imported elsewhere as it was, with the passwords.
func TestExportedUsersAreTheSameAfterAnImport(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
		s.addUser("keeper", "activity", "admin")
		s.addUser("gone")
		cairn(t, exitDone, "user", "update", "keeper", "--database", dsn, "--display-name", `=1+1;@SUM(A1) "q", ü`, "--email", "k@example.org", "--email-verified",
			"--set", "phone_number=+39061234567", "--set", "phone_number_verified=true", "--set", "address.street_address=-1 Via Roma\n'=2", "--set", "nickname='quoted")
		cairn(t, exitDone, "user", "suspend", "gone", "--database", dsn, "--reason", "@left")
		for _, form := range []string{"csv", "json"} {
			first, _ := cairn(t, exitDone, "user", "export", "--with-password-hashes", "-o", form, "--database", dsn)
			file, other := filepath.Join(t.TempDir(), "users"), filepath.Join(t.TempDir(), "other.db")
			noError(t, os.WriteFile(file, []byte(first), 0o600))
			o := startService(t, serviceOptions{Store: storetest.Open(t, other)})
			cairn(t, exitDone, "user", "import", file, "--database", other)
			second, _ := cairn(t, exitDone, "user", "export", "--with-password-hashes", "-o", form, "--database", other)
			if first != second || !strings.Contains(first, "Via Roma") || !strings.Contains(first, "@left") {
				t.Errorf("exported\n%s\nimported and exported\n%s", first, second)
			}
			wantStatus(t, "sign in after the move", o.browser().login("keeper", password), http.StatusOK)
			wantStatus(t, "sign in of who is suspended", o.browser().login("gone", password), http.StatusForbidden)
			if found := o.signedIn("keeper").api("GET", "/api/admin/users?query=sum", nil).Text; !strings.Contains(found, `"keeper"`) {
				t.Errorf("an imported user is not found by a word of the name: %s", found)
			}
			without, _ := cairn(t, exitDone, "user", "export", "-o", form, "--database", dsn)
			if strings.Contains(without, "argon2") || strings.Contains(without, "password_hash") {
				t.Error("hashes are exported without being asked for")
			}
			if form == "csv" && (!strings.Contains(first, `'=1+1;'@SUM`) || !strings.Contains(first, ",'+39061234567")) {
				t.Errorf("cells that a spreadsheet would run: %s", first)
			}
		}
	})
}

// Of two imports of the same people at once, and of one beside registrations, all of one
// is stored and nothing of the other.
func TestImportIsAllOrNothing(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
		s.addUser("taken")
		dir := t.TempDir()
		write := func(name string, lines ...string) string {
			file := filepath.Join(dir, name)
			noError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
			return file
		}
		many := []string{"handle,email"}
		for i := range 1200 {
			many = append(many, fmt.Sprintf("user%d,user%d@example.org", i, i))
		}
		count := func() string {
			out, _ := cairn(t, exitDone, "user", "list", "-q", "--database", dsn)
			return fmt.Sprint(strings.Count(out, "\n"))
		}
		out, errs := cairn(t, exitFailed, "user", "import", write("refused.csv", append(many, "taken,", "No Name,", "user7,", "new,nobody")...), "--database", dsn)
		for _, want := range []string{"1202 +taken +refused +the handle is taken", "1203 +No Name +refused +handle: A handle has", "1204 +user7 +refused +user7 is in row 9 already", "1205 +new +refused +email: This is not", "1200 could be added, 0 skipped, 4 refused"} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the report lacks %q:\n%s", want, out)
			}
		}
		if !strings.Contains(errs, "nothing was changed") || count() != "1" {
			t.Errorf("%s users after a refused import: %s", count(), errs)
		}
		all := write("all.csv", many...)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _ = exec.Command(programFile(), "user", "import", all, "--database", dsn).Run() })
		}
		wg.Wait()
		if count() != "1201" {
			t.Errorf("%s users after three imports at once", count())
		}
		cairn(t, exitDone, "user", "import", write("more.csv", "handle", "taken", "fresh"), "--skip-existing", "--database", dsn)
		cairn(t, exitDone, "settings", "set", "max_users", "1203", "--database", dsn)
		if _, errs := cairn(t, exitFailed, "user", "import", write("full.csv", "handle", "one", "two"), "--database", dsn); !strings.Contains(errs, "max_users is 1203") || count() != "1202" {
			t.Errorf("beyond max_users: %s users, %s", count(), errs)
		}
		codes := filepath.Join(dir, "codes.csv")
		cairn(t, exitDone, "user", "import", write("one.csv", "handle", "one"), "--reset-codes", codes, "--database", dsn)
		text, err := os.ReadFile(codes)
		noError(t, err)
		record := strings.Split(strings.Split(string(text), "\n")[1], ",")
		wantStatus(t, "reset code of an imported user", s.browser().reset("one", record[1], password), http.StatusOK)
		wantStatus(t, "first sign-in", s.browser().login("one", password), http.StatusOK)
	})
}

// legacyFile is a database as the older Python service writes it.
func legacyFile(t *testing.T, more ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "old ?#.db")
	db, err := sql.Open("sqlite3", "file:"+url.PathEscape(file)+"?_journal_mode=WAL")
	noError(t, err)
	for _, statement := range append([]string{
		"CREATE TABLE users (id INTEGER PRIMARY KEY, handle TEXT, display_name TEXT, password_hash TEXT, is_admin BOOLEAN, created_at TIMESTAMP, theme TEXT)",
		"CREATE TABLE invites (code TEXT, used_by TEXT, expires_at REAL)", "CREATE TABLE settings (key TEXT, value TEXT)", "CREATE TABLE user_prefs (user_id INTEGER, key TEXT, value TEXT)", "CREATE TABLE notes (x)",
		"INSERT INTO users VALUES (1, 'ada', 'Ada L', '$2b$04$9TzqHW0lmReiKF464ar83u6OVyv.9vmIdoNrMsEq8YkJrELVgVGra', 1, '2021-03-04 05:06:07.123456', 'dark')",
		"INSERT INTO users VALUES (7, 'bob', NULL, 'scrypt:1024:8:1$UL430I4d3kYaJowQ$307b7aea5bcfd78eb4e647ead26815f4a8ffd2b1ed51e534c7e4f80a74f7118c59de5feeb4e3c53000fe13f2801f76266d1831c40858a04804a54c06c5fd8aec', 0, 1600000000.5, NULL)",
		"INSERT INTO invites VALUES ('ABCD2345', NULL, NULL), ('ABCD-EFGH-JKMN-PQRS', NULL, 4102444800.0), ('0000-1111-2222-3333', NULL, 1000.0), ('AAAA-1111-2222-3333', 'bob', NULL)",
		"INSERT INTO settings VALUES ('instance_name', 'The Old Club'), ('max_users', 'many'), ('session_key', 'a secret'), ('flags', 'x')",
		"INSERT INTO user_prefs VALUES (7, 'units', 'metric'), (7, 'week', 'monday'), (99, 'units', 'miles')",
	}, more...) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	noError(t, db.Close())
	return file
}

func TestOlderServiceIsTakenOver(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
		s.addUser("keeper", "admin")
		file := legacyFile(t)
		before, err := os.ReadFile(file)
		noError(t, err)
		for _, value := range []string{"'no'", "2.5", "''", "'True'"} { // none of them may make an administrator
			odd := legacyFile(t, "UPDATE users SET is_admin = "+value+" WHERE handle = 'bob'")
			if _, errs := cairn(t, exitFailed, "import-legacy", odd, "--database", dsn); !strings.Contains(errs, "row 2 (bob) has ") || !strings.Contains(errs, "nothing was changed") {
				t.Errorf("is_admin %s: %s", value, errs)
			}
		}
		dry, _ := cairn(t, exitDone, "import-legacy", file, "--dry-run", "--database", dsn)
		for _, want := range []string{`users +2 could be added`, `columns of users left +theme`, `preferences +2 taken, 1 left`, `settings taken +instance_name`, `settings left +max_users session_key flags`, `invites +1 taken, 1 left as used, 1 as expired, 1 because`, `tables left +notes`} {
			if !regexp.MustCompile(want).MatchString(dry) {
				t.Errorf("the report lacks %q:\n%s", want, dry)
			}
		}
		if _, err := s.store.UserByHandle(t.Context(), "ada"); err == nil || strings.Contains(dry, "a secret") {
			t.Fatalf("a dry run has added users, or said: %s", dry)
		}
		cairn(t, exitDone, "import-legacy", file, "--database", dsn)
		b := s.browser()
		wantStatus(t, "ada", b.login("ada", password), http.StatusOK)
		me := b.api("GET", "/api/me", nil).JSON(t)
		if me["created_at"] != "2021-03-04T05:06:07Z" || me["display_name"] != "Ada L" || me["flags"].(map[string]any)["admin"] != true {
			t.Errorf("%v", me)
		}
		wantStatus(t, "bob", b.login("bob", password), http.StatusOK)
		if got := b.api("GET", "/api/me/prefs", nil).Text; got != `{"units":"metric","week":"monday"}`+"\n" {
			t.Error(got)
		}
		if got := b.api("GET", "/api/me", nil).JSON(t); got["created_at"] != "2020-09-13T12:26:40Z" || got["display_name"] != "bob" {
			t.Errorf("%v", got)
		}
		wantStatus(t, "an invite of the older service", s.browser().register("abcd-efgh-jkmn-pqrs", "eve"), http.StatusCreated)
		if v, err := s.store.Settings(t.Context()); err != nil || v.InstanceName != "The Old Club" || v.MaxUsers != 0 {
			t.Errorf("%+v %v", v, err)
		}
		_, errs := cairn(t, exitFailed, "import-legacy", file, "--database", dsn)
		if !strings.Contains(errs, "2 of 2 rows are refused") {
			t.Error(errs)
		}
		cairn(t, exitDone, "import-legacy", file, "--skip-existing", "--database", dsn)
		if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
			t.Error("the older service's file has changed")
		}
		if _, errs = cairn(t, exitFailed, "import-legacy", sharedKey(), "--database", dsn); !strings.Contains(errs, "no SQLite file") {
			t.Error(errs)
		}
	})
}
