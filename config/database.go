package config

import (
	"net/url"
	"strings"
)

// checkDatabase accepts a file path or a PostgreSQL URL. No message repeats a value that could hold a password, and
// that is every value with :// or = in it.
func checkDatabase(s string) (string, error) {
	const flag = "database"
	const remedy = "write the path of a file, as cairn.db, or a URL, as postgres://user@host/cairn"
	switch {
	case s == "":
		return "", refuse(flag, remedy, "is empty")
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", refuse(flag, remedy, "has control characters")
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		if scheme != "postgres" && scheme != "postgresql" {
			return "", refuse(flag, remedy, "is a URL that does not begin with postgres://")
		}
		return s, checkPostgresURL(s)
	}
	switch {
	case strings.HasPrefix(s, "file:") || strings.HasPrefix(s, "sqlite:") || strings.HasPrefix(s, "postgres:") || strings.HasPrefix(s, "postgresql:"):
		return "", refuse(flag, remedy, "is neither a path nor a postgres:// URL")
	case isKeywordString(s):
		return "", refuse(flag, "write it as a URL, postgres://user@host/cairn", "is a list of connection keywords")
	case s == ":memory:":
		return "", refuse(flag, remedy, "is a database that ends with the process")
	case strings.ContainsAny(s, "?#"):
		return "", refuse(flag, "choose a path without ? and #", "has a ? or a # in the path")
	case strings.HasSuffix(s, "/"):
		return "", refuse(flag, "write the path of the file in it, as "+s+"cairn.db", "is a folder")
	}
	return s, nil
}

func checkPostgresURL(s string) error {
	const flag, remedy = "database", "write postgres://user:password@host:5432/cairn and percent-encode special characters in the password"
	// The error of url.Parse repeats the URL with its password: it is not wrapped.
	u, err := url.Parse(s)
	if err != nil {
		return refuse(flag, remedy, "is a postgres URL that cannot be read")
	}
	if strings.Contains(s, "#") {
		return refuse(flag, remedy, "is a postgres URL with a #")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return refuse(flag, remedy, "is a postgres URL with parameters that cannot be read")
	}
	return nil
}

// isKeywordString recognises libpq's other notation (host=... dbname=...).
func isKeywordString(s string) bool {
	for _, word := range []string{"host=", "hostaddr=", "dbname=", "user=", "password="} {
		if strings.HasPrefix(s, word) || strings.Contains(s, " "+word) {
			return true
		}
	}
	return false
}

// DatabaseLabel names the database for people and logs: the path, or the URL without password and parameters.
func (c Checked) DatabaseLabel() string {
	if !strings.Contains(c.Database, "://") {
		return c.Database
	}
	u, err := url.Parse(c.Database)
	if err != nil {
		return "postgres"
	}
	u.RawQuery, u.Fragment = "", ""
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// HasPassword tells whether the database's URL holds a password.
func (c Checked) HasPassword() bool { return hasPassword(c.Database) }

// hasPassword tells whether a database URL holds a password.
func hasPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return strings.Contains(dsn, "://") // unreadable: assume the worst
	}
	_, set := u.User.Password()
	return u.Scheme != "" && (set || u.Query().Has("password"))
}
