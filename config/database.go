package config

import (
	"net/url"
	"regexp"
	"strings"
)

// checkDatabase accepts a file path or a PostgreSQL URL. No message repeats a value that could
// contain a password, which is every value with :// or = in it.
func checkDatabase(c *Checked, s Settings) error {
	const flag = "database"
	const remedy = "write the path of a file, as cairn.db, or a URL, as postgres://user:password@host:5432/cairn " +
		"with special characters percent-encoded"
	// Other notations of SQLite and libpq would become files of that name.
	foreign := regexp.MustCompile(`^(file|sqlite|postgres|postgresql):|^:memory:$|[?#]|` +
		`(^| )(host|hostaddr|dbname|user|password)=`)
	dsn := s.Database
	scheme, _, isURL := strings.Cut(dsn, "://")
	switch {
	case dsn == "":
		return refuse(flag, remedy, "is empty")
	case strings.ContainsFunc(dsn, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse(flag, remedy, "has control characters")
	case isURL:
		// The error of url.Parse repeats the URL with its password: it is not wrapped.
		u, err := url.Parse(dsn)
		if err == nil {
			_, err = url.ParseQuery(u.RawQuery)
		}
		if err != nil || strings.Contains(dsn, "#") || scheme != "postgres" && scheme != "postgresql" {
			return refuse(flag, remedy, "is a URL that is not postgres:// or that cannot be read")
		}
	case foreign.MatchString(dsn):
		return refuse(flag, remedy, "is neither a plain path nor a postgres:// URL")
	case strings.HasSuffix(dsn, "/"):
		return refuse(flag, "write the path of the file in it, as "+dsn+"cairn.db", "is a folder")
	}
	c.Database = dsn
	return nil
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

// HasPassword reports whether the database's URL holds a password.
func (c Checked) HasPassword() bool { return hasPassword(c.Database) }

func hasPassword(dsn string) bool {
	u, err := url.Parse(dsn)
	if err != nil {
		return strings.Contains(dsn, "://") // unreadable: assume the worst
	}
	_, set := u.User.Password()
	return u.Scheme != "" && (set || u.Query().Has("password"))
}
