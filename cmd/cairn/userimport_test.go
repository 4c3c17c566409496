package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"
)

// What user export writes, user import reads, with the attributes that the settings declare.
func TestAttributesAreExportedAndImported(t *testing.T) {
	for _, format := range []string{"csv", "json"} {
		from, _ := sqliteShell(t)
		from.must("settings", "set", "attributes", "member_number")
		from.must("user", "add", "bea", "--display-name", "Bea", "--generate-password")
		from.must("user", "set", "bea", "member_number=4711")
		exported := from.must("user", "export", "-o", format)
		to, _ := sqliteShell(t)
		fatalIf(t, os.WriteFile("users", []byte(exported), 0o600))
		if code, printed := to.run("user", "import", "users", "--skip-existing"); code == 0 ||
			!strings.Contains(printed, "is not in the settings of this service") {
			t.Errorf("%s: exit code %d, %s", format, code, printed)
		}
		to.must("settings", "set", "attributes", "member_number")
		to.must("user", "import", "users", "--skip-existing")
		has(t, format, to.must("user", "show", "bea"), "4711")
	}
}

func TestUserShowHasAWaitingAddress(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("user", "add", "ada", "--email", "ada@example.org", "--email-verified", "--generate-password")
	fatalIf(t, os.WriteFile("users.json", []byte(`[{"handle":"bob"}]`), 0o600))
	s.must("user", "import", "users.json")
	db, err := sql.Open("sqlite3", "cairn.db")
	fatalIf(t, err)
	codes := -1
	fatalIf(t, db.QueryRow("SELECT count(*) FROM reset_codes").Scan(&codes))
	same(t, "codes that nobody asked for", codes, 0)
	_, err = db.Exec("UPDATE users SET email_pending = 'new@example.org' WHERE handle = 'ada'")
	fatalIf(t, errors.Join(err, db.Close()))
	for want, shown := range map[string]string{
		"ada@example.org (verified); new@example.org waits for its link": s.must("user", "show", "ada"),
		`"email_pending": "new@example.org"`:                             s.must("user", "show", "ada", "-o", "json"),
	} {
		has(t, "shown", shown, want)
	}
}

// What spreadsheets save is read, or refused with what to do.
func TestFileIsReadAsSpreadsheetsSaveIt(t *testing.T) {
	s, _ := sqliteShell(t)
	utf16le := func(text string) string {
		var b strings.Builder
		for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
			b.WriteByte(byte(u))
			b.WriteByte(byte(u >> 8))
		}
		return b.String()
	}
	const lines = "handle;display_name;email\nmax;\"Müller, Max\";max@example.org\n"
	tabs := strings.NewReplacer(";", "\t", `"`, "").Replace(lines)
	n := 0
	for name, c := range map[string]struct{ file, want string }{
		"UTF-8":                 {lines, ""},
		"UTF-8 with a mark":     {"\ufeff" + lines, ""},
		"commas":                {strings.ReplaceAll(lines, ";", ","), ""},
		"CRLF":                  {strings.ReplaceAll(lines, "\n", "\r\n"), ""},
		"CR":                    {strings.ReplaceAll(lines, "\n", "\r"), ""},
		"Unicode Text":          {utf16le(strings.ReplaceAll(tabs, "\n", "\r\n")), ""},
		"separator line":        {"sep=;\r\n" + lines, ""},
		"separator in marks":    {"\ufeff\"sep=;\"\r\n" + lines, ""},
		"German":                {"Benutzername;Nachname;Vorname;E-Mail\nmax;;Müller, Max;max@example.org\n", ""},
		"empty columns":         {"handle;display_name;email;;\nmax;\"Müller, Max\";max@example.org;;\n;;;;\n", ""},
		"fewer cells":           {"handle;display_name;email;flags\nmax;\"Müller, Max\";max@example.org\n", ""},
		"line break in a cell":  {"handle;display_name;email\nmax;\"Müller,\nMax\";max@example.org\n", ""},
		"CR and a line break":   {"handle;display_name;email\rmax;\"Müller,\nMax\";max@example.org\r", ""},
		"spaces":                {"handle;display_name;email\nmax;\u00a0Müller, Max\u00a0;max@example.org\u00a0\n", ""},
		"Numbers":               {"\ufeffhandle;display_name;email\r\nmax;\"Müller, Max\";max@example.org\r\n", ""},
		"CR within a cell":      {"handle;display_name;email\nmax;Müller,\rMax;max@example.org\n", ""},
		"no separator":          {"sep=:\n" + lines, ""},
		"bars":                  {strings.ReplaceAll(lines, ";", "|"), ""},
		"a title":               {"TSV Neustadt Mitgliederliste 2026;;\n\n" + lines, ""},
		"read as Latin-1":       {"handle;display_name;email\nmax;MÃ¼ller;max@example.org\n", "Line 2: “Ã¼” is a letter that another program has damaged. Take the original list, and save it as CSV UTF-8."},
		"Windows-1252":          {"handle;display_name;email\nmax;M\xfcller;max@example.org\n", "line 2 is not UTF-8: save the file as CSV UTF-8"},
		"a spreadsheet":         {"PK\x03\x04\x14\x00", "this is a spreadsheet, and not text: save it as CSV UTF-8"},
		"marks":                 {lines + "eva;\"Eva\" Lee;eva@example.org\n", "Line 3: a quotation mark does not end with its cell"},
		"two arrays":            {`[{"handle":"max"}] [{"handle":"eva"}]`, `after the array follows "\[\{..handle..:..eva..\}\]": write all users into one array`},
		"too large":             {"handle\n" + strings.Repeat(" ", 64<<20), "the file is larger than 64 MiB: import it in several parts"},
		"a long line":           {"handle\n\nmax\n\"" + strings.Repeat("a\n", 1<<16) + "\"\n", "line 4: this is longer than 128 KiB, and no person"},
		"a long entry":          {`[{"handle":"max"},{"handle":"` + strings.Repeat("a", 1<<17) + `"}]`, "entry 2: this is longer than 128 KiB, and no person"},
		"many lines":            {"handle\n" + strings.Repeat("max\n", 200_001), "line 200002: an import takes at most 200,000 people"},
		"many entries":          {"[{}" + strings.Repeat(",{}", 200_000) + "]", "entry 200001: an import takes at most 200,000 people"},
		"the line of a refusal": {"sep=;\n\n" + lines + "max;;\n", "5 .*refused .*m.. is already in row 4"},
	} {
		n++ // no user name is given twice
		who := fmt.Sprintf("m%02d", n)
		file := strings.NewReplacer("max", who, "m\x00a\x00x", strings.Join(strings.Split(who, ""), "\x00")).Replace(c.file)
		fatalIf(t, os.WriteFile("list", []byte(file), 0o600))
		code, printed := s.run("user", "import", "list")
		if c.want != "" {
			if code == 0 || !regexp.MustCompile(c.want).MatchString(printed) {
				t.Errorf("%s: exit code %d, %s", name, code, printed)
			}
			continue
		}
		if shown := s.must("user", "export"); code != 0 || !strings.Contains(shown, `,"Müller, Max",`+who+"@example.org,") {
			t.Errorf("%s: exit code %d, %s, %s", name, code, printed, shown)
		}
	}
}
