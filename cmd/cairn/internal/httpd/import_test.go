package httpd

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/config"
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
	dsn := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t,
		serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }})
	out, _ := cairn(t, exitDone, "user", "import", file, "--dry-run", "--database", dsn)
	if _, err := s.store.UserByHandle(t.Context(), rows[1][0]); err == nil || !strings.Contains(out, fmt.Sprintf("%d could be added, 0 skipped, 0 refused", len(rows)-1)) {
		t.Fatalf("a dry run has added users, or said: %s", out)
	}
	cairn(t, exitDone, "user", "import", file, "--database", dsn)
	for _, row := range rows[1:] {
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
}

// What is exported is imported elsewhere as it was, with the passwords.
func TestExportedUsersAreTheSameAfterAnImport(t *testing.T) {
	dsn := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }}, "gone")
	s.addUser("keeper", "activity", "admin")
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
		has(t, "an imported user is not found by a word of the name",
			o.signedIn("keeper").api("GET", "/api/admin/users?query=sum", nil).Text, `"keeper"`)
		without, _ := cairn(t, exitDone, "user", "export", "-o", form, "--database", dsn)
		if strings.Contains(without, "argon2") || strings.Contains(without, "password_hash") {
			t.Error("hashes are exported without being asked for")
		}
		if form == "csv" && (!strings.Contains(first, `'=1+1;'@SUM`) || !strings.Contains(first, ",'+39061234567")) {
			t.Errorf("cells that a spreadsheet would run: %s", first)
		}
	}
}

// Of two imports of the same people at once, and of one beside registrations, all of one
// is stored and nothing of the other.
func TestImportIsAllOrNothing(t *testing.T) {
	storetest.EachDSN(t, func(t *testing.T, dsn string) {
		s := startService(t, serviceOptions{Store: storetest.Open(t, dsn), Settings: func(c *config.Settings) { c.Database = dsn }}, "taken")
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
		for _, want := range []string{"1202 +taken +refused +the user name is taken", "1203 +No Name +refused +handle: Use 1 to 30",
			"1204 +user7 +refused +user7 is already in row 9", "1205 +new +refused +email: Enter an email address", "1200 could be added, 0 skipped, 4 refused"} {
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
		same(t, "users after three imports at once", count(), "1201")
		cairn(t, exitDone, "user", "import", write("more.csv", "handle", "taken", "fresh"), "--skip-existing", "--database", dsn)
		cairn(t, exitDone, "settings", "set", "max_users", "1203", "--database", dsn)
		if _, errs := cairn(t, exitFailed, "user", "import", write("full.csv", "handle", "one", "two"), "--database",
			dsn); !strings.Contains(errs, "max_users is 1203") || count() != "1202" {
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
