package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// databaseFile comes before the database is opened by anything that would correct it.
func databaseFile(_ context.Context, x *examination) Finding {
	path := x.checked.Database
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, os.ErrNotExist) && name == path:
			return skipped("There is no file %s: see database.", path)
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return found(Problem, "Run cairn doctor as the user of the service.", "%v.", err)
		case info.Mode().Perm()&0o077 != 0:
			return found(Problem, "Run chmod 600 "+config.ShellQuote(name)+"; where other people use this machine, change the secrets.",
				"Other users of this machine can open %s (mode %04o), which holds password hashes and secrets.", name, info.Mode().Perm())
		}
	}
	return ok("Only its owner can open %s.", path)
}

func databaseFilesystem(_ context.Context, x *examination) Finding {
	fs, err := statFS(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	if kind := networkFS(fs.kind); kind != "" {
		return found(Warning, "Move the database to a local disk, or to PostgreSQL.",
			"%s is on a file system of the kind %s: locks and shared memory of SQLite do not hold there between machines, and the file can be damaged.", x.checked.Database, kind)
	}
	return ok("%s is on a local file system.", x.checked.Database)
}

// Bounds of the space that is left.
const (
	leastFree      = 500 << 20
	plentyFree     = 10 << 30 // of which 10 % are not asked for
	leastDays      = 30
	leastFreeShare = 10
)

func diskSpace(_ context.Context, x *examination) Finding {
	fs, err := statFS(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	return spaceLeft(fs.free, fs.total)
}

func spaceLeft(free, total int64) Finding {
	share := free * 100 / max(total, 1)
	if free < leastFree || share < leastFreeShare && free < plentyFree {
		return found(Warning, "Make room, or move the database to a larger disk: a full one ends every write.", "The disk of the database has %s free, %d %% of it.", sizeText(free), share)
	}
	return ok("The disk of the database has %s free, %d %% of it.", sizeText(free), share)
}

func diskGrowth(_ context.Context, x *examination) Finding {
	fs, err := statFS(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	return growth(fs.free, x.health.Bytes, x.health.DailyBytes)
}

func growth(free, size, daily int64) Finding {
	says := fmt.Sprintf("The database has %s and grows by about %s a day", sizeText(size), sizeText(daily))
	days := free / max(daily, 1)
	if daily > 0 && days < leastDays {
		return found(Warning, "Make room, or keep the audit log for a shorter time: cairn settings set audit_days 90.", "%s: the disk is full in %d days.", says, days)
	}
	return ok("%s.", says)
}

// sizeText is a size for people.
func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

func migrations(ctx context.Context, x *examination) Finding {
	err := x.store.CheckSchema(ctx)
	switch {
	case errors.Is(err, store.ErrNotMigrated):
		return found(Warning, "Make a backup and restart cairn serve, which migrates.", "Migrations are pending: %v.", err)
	case errors.Is(err, store.ErrNewerSchema):
		return found(Problem, "Run that version of cairn, or restore a backup.", "%v.", err)
	case err != nil:
		return unreadable(err)
	}
	version, err := x.store.SchemaVersion(ctx)
	if err != nil {
		return unreadable(err)
	}
	return ok("The schema has version %d, as this program.", version)
}

// The least versions: a fault of SQLite up to 3.51.2 could damage a database in WAL mode; PostgreSQL 13 gets no
// corrections any more.
const (
	leastSQLite   = 3_051_003
	leastPostgres = 140_000
)

func databaseVersion(_ context.Context, x *examination) Finding {
	return versionOf(x.store.Dialect(), x.health.Version, x.health.Number)
}

func versionOf(dialect, version string, number int) Finding {
	switch {
	case dialect == store.SQLite && number < leastSQLite:
		return found(Warning, "Build cairn with a newer github.com/mattn/go-sqlite3.", "The SQLite in this program is %s: up to 3.51.2 a database in WAL mode can be damaged.", version)
	case dialect == store.Postgres && number < leastPostgres:
		return found(Warning, "Upgrade the server to PostgreSQL 14 or later.", "The server is PostgreSQL %s, which gets no corrections any more.", version)
	case dialect == store.SQLite:
		return ok("The SQLite in this program is %s.", version)
	}
	return ok("The server is PostgreSQL %s.", version)
}

// durable are the values with which an acknowledged write survives a power cut, and what to do about another one.
var durable = map[string]struct {
	values []string
	level  Level
	do     string
}{
	"journal_mode":       {[]string{"wal"}, Warning, "Restart cairn serve, which sets it; where that does not last, the file system cannot do it: move the database to a local disk."},
	"synchronous":        {[]string{"2", "3"}, Problem, "Install cairn again: this program does not set what it should."},
	"foreign_keys":       {[]string{"1"}, Problem, "Install cairn again: this program does not set what it should."},
	"synchronous_commit": {[]string{"on", "local", "remote_write", "remote_apply"}, Problem, "Set synchronous_commit to on for this database, and take it out of the URL of --database (SERVICE_DATABASE)."},
	"fsync":              {[]string{"on"}, Problem, "Set fsync = on in postgresql.conf and reload the server."},
	"full_page_writes":   {[]string{"on"}, Problem, "Set full_page_writes = on in postgresql.conf and reload the server."},
}

func databaseDurability(_ context.Context, x *examination) Finding {
	return durability(x.health.Durability)
}

func durability(values map[string]string) Finding {
	worst, all := Finding{Level: OK}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		want, value := durable[name], values[name]
		all = append(all, name+" is "+value)
		if !slices.Contains(want.values, value) && worst.Level != Problem {
			worst = Finding{Level: want.level, Do: want.do}
		}
	}
	worst.Found = strings.Join(all, ", ") + "."
	return worst
}

func databaseSize(_ context.Context, x *examination) Finding {
	if x.store.Dialect() == store.SQLite && x.health.Tokens >= store.ManyTokens {
		return found(Warning, "Keep the audit log for a shorter time (cairn settings set audit_days 90), and think of PostgreSQL: docs/doctor.md.",
			"The database has %s and more than %d tokens.", sizeText(x.health.Bytes), store.ManyTokens)
	}
	return ok("The database has %s.", sizeText(x.health.Bytes))
}

func databaseIntegrity(ctx context.Context, x *examination) Finding {
	if !x.Deep {
		return skipped("Only looked at with --deep: the whole file is read.")
	}
	ctx, cancel := context.WithTimeout(ctx, deepTimeout)
	defer cancel()
	damage, err := x.store.QuickCheck(ctx)
	if err == nil && len(damage) == 0 {
		return ok("The whole file was read, and nothing is damaged.")
	}
	return found(Problem, "Stop the service, keep the file, and restore the last backup.", "The file is damaged: %s.", strings.Join(append(damage, errorText(err)...), "; "))
}

func errorText(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

func lastBackup(ctx context.Context, x *examination) Finding {
	if f, wrong := backupFault(ctx, x); wrong {
		return f
	}
	at, _, err := x.store.LastTurn(ctx, store.TurnBackup)
	if err != nil {
		return unreadable(err)
	}
	return judged("backup", "The last backup is of "+at.Format(time.RFC3339)+".")(ctx, x)
}

// backupFault looks at backup-dir, for the last backup where the books say that it is, and at the last run of
// backup-command.
func backupFault(ctx context.Context, x *examination) (f Finding, wrong bool) {
	dir, err := x.checked.Backup.Dir, error(nil)
	if dir != "" {
		if dir, err = filepath.Abs(dir); err == nil {
			err = writable(dir)
		}
		if err != nil {
			return found(Problem, "Make the folder, and let the user of the service write to it.",
				"No backup can be made, because backup-dir cannot be used: %v.", err), true
		}
	}
	_, file, err := x.store.LastTurn(ctx, store.TurnBackup)
	if err == nil && filepath.Dir(file) != dir { // made by hand, and free to be moved
		_, file, err = x.store.LastTurn(ctx, store.TurnScheduledBackup)
	}
	_, failure, failureErr := x.store.LastTurn(ctx, store.TurnBackupCommand)
	if err = errors.Join(err, failureErr); err != nil {
		return unreadable(err), true
	}
	if info, err := os.Stat(file); file != "" && dir != "" && (err != nil || info.Size() == 0) {
		const do = "Find out what has removed it, or which instance has it, and run cairn backup with a new file in backup-dir."
		return found(Warning, do, "The last backup, %s, is not there or empty.", file), true
	}
	if failure != "" && x.checked.Backup.Command != "" {
		return found(Warning, "Correct what it says, and carry the last backup off by hand.",
			"The last backup was not carried off: %s.", failure), true
	}
	return Finding{}, false
}
