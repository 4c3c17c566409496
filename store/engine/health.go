package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Health describes what can be wrong with a database without any statement failing.
type Health struct {
	Version string // of the SQLite in this program, or of the PostgreSQL server
	Number  int    // the version as SQLite and PostgreSQL number it: 3051003, 150004
	// Durability holds the settings by which an acknowledged write survives a power cut and
	// references are enforced.
	Durability map[string]string
	Bytes      int64
	DailyBytes int64     // growth in a day, estimated by the audit log
	Tokens     int64     // counted up to ManyTokens
	Newest     time.Time // of the entries of the audit log
	// Encoding is that of a PostgreSQL database, "" on SQLite, which has UTF-8 only.
	Encoding string
	// CollationChanged is set if the C library orders text in another way than when the PostgreSQL
	// database was made: its indexes may then miss rows. Only PostgreSQL 15 and later know it.
	CollationChanged bool
}

// ManyTokens bounds the count of tokens.
const ManyTokens = 5_000_000

// growthDays is the number of days from which the growth is estimated.
const growthDays = 7

// Health inspects the database. It changes nothing and needs the schema of this program.
func (d *DB) Health(ctx context.Context, now time.Time) (Health, error) {
	h := Health{Durability: map[string]string{}}
	var names []string
	size := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	version, number, value := "SELECT sqlite_version()", "", "PRAGMA "
	if d.dialect == Postgres {
		names = []string{"synchronous_commit", "fsync", "full_page_writes"}
		size = "SELECT pg_database_size(current_database())"
		version, value = "SELECT current_setting('server_version')", "SHOW "
		number = "SELECT current_setting('server_version_num')::int"
	} else {
		names = []string{"journal_mode", "synchronous", "foreign_keys"}
	}
	db := Conn(ctx, d)
	err := db.Raw(version).Find(&h.Version).Error
	if number == "" {
		var major, minor, patch int
		_, _ = fmt.Sscanf(h.Version, "%d.%d.%d", &major, &minor, &patch)
		h.Number = major*1_000_000 + minor*1_000 + patch
	} else if err == nil {
		err = db.Raw(number).Find(&h.Number).Error
	}
	for _, name := range names {
		var v string
		if err == nil {
			err = db.Raw(value + name).Find(&v).Error
		}
		h.Durability[name] = strings.ToLower(v)
	}
	if err == nil {
		err = db.Raw(size).Find(&h.Bytes).Error
	}
	if err == nil {
		err = db.Raw("SELECT count(*) FROM (SELECT 1 FROM tokens LIMIT ?) t", ManyTokens).Find(&h.Tokens).Error
	}
	if err == nil && d.dialect == Postgres {
		h.Encoding, err = d.Encoding(ctx)
	}
	if err == nil && d.dialect == Postgres && h.Number >= 150_000 {
		err = db.Raw(`SELECT coalesce(datcollversion <> pg_database_collation_actual_version(oid), false)
			FROM pg_database WHERE datname = current_database()`).Find(&h.CollationChanged).Error
	}
	if err != nil {
		return h, d.fail("health of the database", err)
	}
	var audit struct{ Total, Recent, First, Newest int64 }
	since := now.AddDate(0, 0, -growthDays)
	err = db.Raw(`SELECT count(*) AS total, coalesce(sum(CASE WHEN at > ? THEN 1 ELSE 0 END), 0) AS recent,
		coalesce(min(at), 0) AS first, coalesce(max(at), 0) AS newest FROM audit`, ToUnix(since)).Find(&audit).Error
	h.Newest = FromUnix(audit.Newest)
	if err == nil && audit.Total > 0 {
		days := min(growthDays, max(1, int64(now.Sub(FromUnix(audit.First)).Hours()/24)))
		h.DailyBytes = h.Bytes / audit.Total * audit.Recent / days
	}
	return h, d.fail("health of the database", err)
}

// Encoding returns the encoding of a PostgreSQL database, "" on SQLite.
func (d *DB) Encoding(ctx context.Context) (encoding string, err error) {
	if d.dialect == Postgres {
		err = Conn(ctx, d).Raw("SELECT current_setting('server_encoding')").Find(&encoding).Error
	}
	return encoding, d.fail("encoding of the database", err)
}

// ErrTakesNoWrites means that a PostgreSQL server answers and refuses writes.
var ErrTakesNoWrites = errors.New("the PostgreSQL server takes no writes")

// CheckWrites returns ErrTakesNoWrites for a standby, for a database whose sessions are read-only, and for a
// user who may not write its tables. A connection that Options.ReadOnly made read-only does not count.
func (d *DB) CheckWrites(ctx context.Context) error {
	if d.dialect != Postgres {
		return nil
	}
	var is struct{ Standby, ReadOnly, Denied bool }
	err := Conn(ctx, d).Raw(`SELECT pg_is_in_recovery() AS standby, reset_val = 'on' AS read_only, EXISTS (
			SELECT FROM pg_class WHERE oid = to_regclass('sessions')
			AND NOT has_table_privilege(oid, 'INSERT')) AS denied
		FROM pg_settings WHERE name = 'default_transaction_read_only'`).Find(&is).Error
	switch {
	case err != nil:
		return d.fail("check whether the database takes writes", err)
	case is.Standby:
		return fmt.Errorf("%w: it is a standby: name the primary, or promote it", ErrTakesNoWrites)
	case is.ReadOnly:
		return fmt.Errorf("%w: default_transaction_read_only is on: turn it off for this database and user",
			ErrTakesNoWrites)
	case is.Denied:
		return fmt.Errorf("%w from this user: make it the owner of the tables, or connect as the owner",
			ErrTakesNoWrites)
	}
	return nil
}

// IntegrityCheck reads the whole SQLite file with its indexes and returns what is damaged, nil if nothing
// is. PostgreSQL has its own tools for that.
func (d *DB) IntegrityCheck(ctx context.Context) ([]string, error) {
	var found []string
	if d.dialect != SQLite {
		return nil, nil
	}
	if err := Conn(ctx, d).Raw("PRAGMA integrity_check(3)").Find(&found).Error; err != nil {
		return nil, d.fail("check the database", err)
	}
	if len(found) == 1 && found[0] == "ok" {
		return nil, nil
	}
	return found, nil
}
