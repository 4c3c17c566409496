package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/disk"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// databaseFile must run before anything opens the database, which would correct its mode.
func databaseFile(_ context.Context, x *examination) Finding {
	path, folder := x.checked.Database, filepath.Dir(x.checked.Database)
	if whole, err := filepath.Abs(folder); err == nil { // chmod o-w . at the end of a sentence reads as another folder
		folder = whole
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return skipped("There is no file %s: see database.", path)
	}
	beside, err := os.Stat(folder)
	if err == nil && beside.Mode().Perm()&0o002 != 0 {
		return openFolder(folder, beside.Mode())
	}
	var open, modes []string // of files that others can open
	var closed []string      // that their owner, this user, cannot write
	var closedErr error
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return found(Problem, "Run cairn doctor as the user of the service.", "%v.", err)
		case info.IsDir():
			return found(Problem, "Name the file in it with --database (SERVICE_DATABASE).", "%s is a folder.", name)
		case info.Mode().Perm()&0o077 != 0:
			open = append(open, config.ShellQuote(name))
			modes = append(modes, fmt.Sprintf("%s (mode %04o)", name, info.Mode().Perm()))
		case beside != nil && config.OwnedByRoot(info) && !config.OwnedByRoot(beside):
			return found(Problem, "Run chown --reference="+config.ShellQuote(folder)+" "+config.ShellQuote(name)+
				", and commands as the user of the service.",
				"%s belongs to root and its folder does not: the service cannot open it.", name)
		default:
			switch err := disk.WritableFile(name); {
			case err != nil && !errors.Is(err, syscall.EROFS) && config.OwnFile(info):
				closed, closedErr = append(closed, config.ShellQuote(name)), cmp.Or(closedErr, err)
			case err != nil:
				return unwritable(err, name)
			}
		}
	}
	if len(open) > 0 {
		return found(Problem,
			"Run chmod 600 "+strings.Join(open, " ")+"; if other people use this machine, change the secrets.",
			"Other users of this machine can open the database, which holds password hashes and secrets: %s.",
			strings.Join(modes, ", "))
	}
	if len(closed) > 0 {
		return found(Problem, "Run chmod u+rw "+strings.Join(closed, " ")+
			"; it belongs to this user, who cannot write it.", "The database cannot be written: %v.", closedErr)
	}
	if err := disk.Writable(folder); err != nil {
		return unwritable(err, folder)
	}
	return ok("Only its owner can open and write %s.", path)
}

// openFolder returns a finding about a folder that all users can write. One with the sticky bit, such as
// /tmp, is meant to be.
func openFolder(folder string, mode os.FileMode) Finding {
	bits, do := mode.Perm(), "Run chmod o-w "+config.ShellQuote(folder)+
		"; or move the database to a folder of the service's user."
	if mode&os.ModeSticky != 0 {
		bits, do = bits|0o1000, "Move the database to a folder of the service's user."
	}
	return found(Problem, do, "Other users of this machine can write the folder of the database, %s (mode %04o), "+
		"and put files in the place of its own.", folder, bits)
}

// unwritable returns a finding about a file or folder that this user cannot write.
func unwritable(err error, path string) Finding {
	do := "Run cairn doctor as the user of the service, and give " + config.ShellQuote(path) +
		" to that user with chown."
	if info, statErr := os.Stat(path); statErr == nil && config.OwnFile(info) {
		do = "Run chmod u+rwx " + config.ShellQuote(path) + "; it belongs to this user, who cannot write it."
	}
	if errors.Is(err, syscall.EROFS) {
		do = "Mount the file system for writing (mount -o remount,rw), after a look at dmesg for a failing disk; " +
			"under systemd, name the folder in ReadWritePaths; in a container, mount the volume without ro."
	}
	return found(Problem, do, "The database cannot be written: %v.", err)
}

func databaseFilesystem(_ context.Context, x *examination) Finding {
	fs, err := disk.Of(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	if kind := fs.Network(); kind != "" {
		return found(Warning, "Move the database to a local disk, or to PostgreSQL.",
			"%s is on a %s file system: SQLite's locks and shared memory do not work there between machines, "+
				"and the file can be damaged.", x.checked.Database, kind)
	}
	return ok("%s is on a local file system.", x.checked.Database)
}

// Limits of the free space.
const (
	leastFree      = 500 << 20
	plentyFree     = 10 << 30 // enough, whatever its share
	leastDays      = 30
	leastFreeShare = 10 // percent
	leastFiles     = 1000
)

func diskSpace(_ context.Context, x *examination) Finding {
	fs, err := disk.Of(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	if fs.Files > 0 && fs.FreeFiles < leastFiles {
		return found(Warning, "Remove files that nobody needs (df -i): SQLite makes files beside the database, "+
			"and every write fails without.", "The disk of the database has %d inodes left, of %d.", fs.FreeFiles,
			fs.Files)
	}
	return spaceLeft(fs.Free, fs.Total)
}

func spaceLeft(free, total int64) Finding {
	share := free * 100 / max(total, 1)
	if free < leastFree || share < leastFreeShare && free < plentyFree {
		return found(Warning, "Make room, or move the database to a larger disk: on a full disk every write fails.",
			"The disk of the database has %s free, %d %% of it.", sizeText(free), share)
	}
	return ok("The disk of the database has %s free, %d %% of it.", sizeText(free), share)
}

func diskGrowth(_ context.Context, x *examination) Finding {
	fs, err := disk.Of(filepath.Dir(x.checked.Database))
	if err != nil {
		return skipped("%v.", err)
	}
	return growth(fs.Free, x.health.Bytes, x.health.DailyBytes)
}

func growth(free, size, daily int64) Finding {
	text := fmt.Sprintf("The database has %s and grows by about %s a day", sizeText(size), sizeText(daily))
	days := free / max(daily, 1)
	if daily > 0 && days < leastDays {
		const do = "Make room, or keep the audit log for a shorter time: cairn settings set audit_days 90."
		return found(Warning, do, "%s: the disk will be full in %d days.", text, days)
	}
	return ok("%s.", text)
}

// sizeText formats a size in bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

func databaseWrites(ctx context.Context, x *examination) Finding {
	err := x.store.CheckWrites(ctx)
	switch {
	case errors.Is(err, store.ErrTakesNoWrites):
		return found(Problem,
			"Do what the message says; of several hosts in the URL of --database (SERVICE_DATABASE), the one that "+
				"takes writes is used.", "Nobody can sign in: %v.", err)
	case err != nil:
		return unreadable(err)
	}
	return ok("%s takes writes.", x.checked.DatabaseLabel())
}

// databasePool looks for a pooler in front of PostgreSQL that gives the connection of one client to another between
// transactions.
func databasePool(ctx context.Context, x *examination) Finding {
	shared, err := x.store.SharesConnections(ctx)
	if err != nil {
		return unreadable(err)
	}
	return poolMode(x.checked.DatabaseLabel(), shared)
}

const sessionMode = "Set pool_mode = session in PgBouncer for this database (docs/scale.md), or connect to the " +
	"server itself: locks and prepared statements belong to a connection."

func poolMode(database string, shared bool) Finding {
	if shared {
		return found(Problem, sessionMode, "%s is behind a pooler that shares connections between transactions.",
			database)
	}
	return ok("%s gives each connection to one client.", database)
}

// databaseText checks how PostgreSQL stores and orders text.
func databaseText(_ context.Context, x *examination) Finding {
	return textOf(x.health)
}

func textOf(h store.Health) Finding {
	switch {
	case h.Encoding == "":
		return ok("SQLite stores text as UTF-8.")
	case h.Encoding != "UTF8":
		return found(Problem, "Make a database with createdb --encoding UTF8 --template template0, "+
			"and move the installation there with cairn copy.",
			"The database has the encoding %s: names with other letters cannot be stored.", h.Encoding)
	case h.CollationChanged:
		return found(Problem, "Run REINDEX DATABASE and then ALTER DATABASE ... REFRESH COLLATION VERSION in it.",
			"The C library of the server orders text in another way than when the database was made: "+
				"its indexes may miss rows, so that people are not found.")
	}
	return ok("The database stores text as UTF-8, in the order of its indexes.")
}

func migrations(ctx context.Context, x *examination) Finding {
	err := x.store.CheckSchema(ctx)
	switch {
	case errors.Is(err, store.ErrNotMigrated):
		return found(Warning, "Make a backup and restart cairn serve, which migrates.",
			"Migrations are pending: %v.", err)
	case errors.Is(err, store.ErrNewerSchema):
		return found(Problem, "Run that version of cairn, or restore a backup.", "%v.", err)
	case err != nil:
		return unreadable(err)
	}
	version, err := x.store.SchemaVersion(ctx)
	if err != nil {
		return unreadable(err)
	}
	return ok("The schema has version %d, like this program.", version)
}

// The minimum versions. A bug in SQLite up to 3.51.2 can damage a database in WAL mode; PostgreSQL
// 13 is no longer supported.
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
		return found(Warning, "Build cairn with a newer github.com/mattn/go-sqlite3.",
			"The SQLite in this program is %s: up to 3.51.2 a database in WAL mode can be damaged.", version)
	case dialect == store.Postgres && number < leastPostgres:
		return found(Warning, "Upgrade the server to PostgreSQL 14 or later.",
			"The server is PostgreSQL %s, which is no longer supported.", version)
	case dialect == store.SQLite:
		return ok("The SQLite in this program is %s.", version)
	}
	return ok("The server is PostgreSQL %s.", version)
}

const reinstall = "Install cairn again: this program does not set what it should."

// durable has the values with which an acknowledged write survives a power failure, and what to do
// about any other value.
var durable = map[string]struct {
	values []string
	level  Level
	do     string
}{
	"journal_mode": {
		[]string{"wal"}, Warning, "Restart cairn serve, which sets it; if that does not last, " +
			"the file system does not support it: move the database to a local disk.",
	},
	"synchronous":  {[]string{"2", "3"}, Problem, reinstall},
	"foreign_keys": {[]string{"1"}, Problem, reinstall},
	"synchronous_commit": {
		[]string{"on", "local", "remote_write", "remote_apply"}, Problem, "Set synchronous_commit to on " +
			"for this database, and remove it from the URL of --database (SERVICE_DATABASE).",
	},
	"fsync": {[]string{"on"}, Problem, "Set fsync = on in postgresql.conf and reload the server."},
	"full_page_writes": {
		[]string{"on"}, Problem, "Set full_page_writes = on in postgresql.conf and reload the server.",
	},
}

func databaseDurability(_ context.Context, x *examination) Finding {
	return durability(x.health.Durability)
}

func durability(values map[string]string) Finding {
	worst := Finding{Level: OK}
	var all []string
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
		return found(Warning, "Keep the audit log for a shorter time (cairn settings set audit_days 90), "+
			"and consider PostgreSQL: docs/doctor.md.",
			"The database has %s and more than %d tokens.", sizeText(x.health.Bytes), store.ManyTokens)
	}
	return ok("The database has %s.", sizeText(x.health.Bytes))
}

func databaseIntegrity(ctx context.Context, x *examination) Finding {
	if !x.Deep {
		return skipped("Only checked with --deep, which reads the whole file.")
	}
	ctx, cancel := context.WithTimeout(ctx, deepTimeout)
	defer cancel()
	damage, err := x.store.IntegrityCheck(ctx)
	if err == nil && len(damage) == 0 {
		return ok("The whole file was read, and nothing is damaged.")
	}
	return found(Problem, restoreBackup,
		"The file is damaged: %s.", strings.Join(append(damage, errorText(err)...), "; "))
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
	f := judged("backup", "The last backup was made at "+at.Format(time.RFC3339)+".")(ctx, x)
	if b := x.checked.Backup; f.Level == OK && b.Command != "" && b.Recipient == "" {
		return found(Advice, "Set backup-recipient (cairn keys generate --type age), unless the command encrypts "+
			"itself.", "%s carries backups off that are not encrypted.", b.Command)
	}
	return f
}

const setClock = "Compare date -u with another machine, and set the clock by NTP: timedatectl set-ntp true."

// backgroundWork looks for work that a wrong clock holds up.
func backgroundWork(ctx context.Context, x *examination) Finding {
	until, why, err := x.store.ClockWait(ctx)
	if err != nil {
		return unreadable(err)
	}
	if !until.IsZero() {
		return found(Warning, setClock+" If it is right, there is nothing to do.",
			"Expired rows are not deleted and memberships do not end before %s: %s.", until.Format(time.RFC3339), why)
	}
	var swept time.Time
	for _, name := range []string{store.TurnScheduledBackup, store.TurnSweep} {
		if swept, _, err = x.store.LastTurn(ctx, name); err != nil {
			return unreadable(err)
		}
		if swept.After(x.Now().Add(store.ClockTolerance)) {
			return found(Warning, setClock+" If it is right now, the service does the work again within ten minutes; "+
				"sessions of that time last longer.",
				"The last %s is noted for %s, a time that has not come.", name, swept.Format(time.RFC3339))
		}
	}
	if swept.IsZero() {
		return ok("Expired rows were not deleted yet.")
	}
	return ok("Expired rows were last deleted at %s.", swept.Format(time.RFC3339))
}

// backupFault checks backup-dir, that the last recorded backup exists, and the last run of
// backup-command. wrong reports whether f is a fault.
func backupFault(ctx context.Context, x *examination) (f Finding, wrong bool) {
	var err error
	dir := x.checked.Backup.Dir
	if dir != "" {
		if dir, err = filepath.Abs(dir); err == nil {
			err = disk.Writable(dir)
		}
		if err != nil {
			return found(Problem, "Create the folder, and let the user of the service write to it.",
				"No backup can be made, because backup-dir cannot be used: %v.", err), true
		}
		if info, err := os.Stat(dir); err == nil && config.OpenTo(info.Mode(), 0o002) {
			return found(Warning, "Run chmod o-w "+config.ShellQuote(dir)+".",
				"Other users of this machine can write backup-dir, %s (mode %04o), and put another file in the place "+
					"of a backup.", dir, info.Mode().Perm()), true
		}
	}
	_, file, err := x.store.LastTurn(ctx, store.TurnBackup)
	if err == nil && filepath.Dir(file) != dir { // made by hand; its owner may move it
		_, file, err = x.store.LastTurn(ctx, store.TurnScheduledBackup)
	}
	_, failure, failureErr := x.store.LastTurn(ctx, store.TurnBackupCommand)
	if err = errors.Join(err, failureErr); err != nil {
		return unreadable(err), true
	}
	if info, err := os.Stat(file); file != "" && dir != "" && (err != nil || info.Size() == 0) {
		const do = "Find out what removed it, or which instance has it, " +
			"and run cairn backup with a new file in backup-dir."
		return found(Warning, do, "The last backup, %s, is missing or empty.", file), true
	}
	if x.Deep && dir != "" && file != "" && x.CheckBackup != nil {
		if err := x.CheckBackup(ctx, file); err != nil {
			const do = "Run cairn backup with a new file, then look for the cause: a full or failing disk, or a " +
				"copy that ended early."
			return found(Problem, do, "The last backup, %s, cannot be restored: %v.", file, err), true
		}
	}
	if failure != "" && x.checked.Backup.Command != "" {
		return found(Warning, "Correct the cause, and copy the last backup to its destination by hand.",
			"The command after the last backup failed: %s.", failure), true
	}
	return Finding{}, false
}
