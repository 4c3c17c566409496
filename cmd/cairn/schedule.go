package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

const (
	// stampFormat is that of times in the names of files.
	stampFormat = "20060102T150405Z"
	// backupsAtMigration is how many backups from before migrations are kept.
	backupsAtMigration = 3
	// migrationRetry is how long such a backup is taken for that of an earlier attempt: a
	// service that is started again and again must not fill the disk.
	migrationRetry = time.Hour
	// commandTimeout is for --backup-command: no longer than the least --backup-every.
	commandTimeout = time.Hour
	// commandGrace is how long that may take to end once it is told to.
	commandGrace = 10 * time.Second
)

// backupUntil makes scheduled backups until the context ends, one instance of all.
func backupUntil(ctx context.Context, source backupSource, b config.Backup, log *slog.Logger) {
	t := time.NewTicker(min(max(b.Every/20, time.Second), 10*time.Minute))
	defer t.Stop()
	for {
		file, err := backupInTurn(ctx, source, b)
		if err != nil && ctx.Err() == nil {
			log.Error("scheduled backup failed", "error", err)
		}
		if file != "" {
			log.Info("backup made", "file", file)
			if err := runBackupCommand(ctx, source.store, b.Command, file); err != nil {
				log.Error("the backup was not carried off", "file", file, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func backupInTurn(ctx context.Context, source backupSource, b config.Backup) (file string, err error) {
	var after error // the backup is made all the same: it is not made again and again
	work := func(ctx context.Context, now time.Time) (string, error) {
		made, err := filepath.Abs(filepath.Join(b.Dir, source.fileName("cairn-", now)))
		if err != nil {
			return "", err
		}
		if _, err := source.make(ctx, made); err != nil {
			return "", err
		}
		file = made
		after = errors.Join(source.store.NoteDone(ctx, store.TurnBackup, now, file),
			removeOldBackups(b.Dir, scheduledBackup, b.Keep))
		return file, nil
	}
	err = source.store.InTurn(ctx, store.TurnScheduledBackup, b.Every, work)
	return file, errors.Join(err, after)
}

// fileName returns the name of a backup that is made without being asked for.
func (s backupSource) fileName(prefix string, now time.Time) string {
	name := prefix + now.Format(stampFormat) + ".tar.gz"
	if s.recipient != "" {
		name += ".age"
	}
	return name
}

// runBackupCommand runs the program of --backup-command, if there is one, and records what became of it: doctor reads
// that. The program gets nothing of the service's environment that could be a secret.
func runBackupCommand(ctx context.Context, st *store.Store, command, file string) error {
	if command == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	path, err := filepath.Abs(command) // not looked up in PATH
	if err != nil {
		return err
	}
	c := exec.CommandContext(limited, path, file) // #nosec G204 -- the operator names it
	c.Env = []string{"CAIRN_BACKUP_FILE=" + file}
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	var said tail
	c.Stdout, c.Stderr, c.WaitDelay = &said, &said, commandGrace
	endAsGroup(c)
	if err = c.Run(); errors.Is(limited.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s", commandTimeout)
	}
	failure := ""
	if err != nil {
		failure = fmt.Sprintf("--backup-command %s: %s: %s", command, err, strings.Join(strings.Fields(string(said)), " "))
		failure = printable(strings.TrimSuffix(failure, ": "))
		err = errors.New(failure)
	}
	return errors.Join(err, st.NoteDone(context.WithoutCancel(ctx), store.TurnBackupCommand, time.Now().UTC(), failure))
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(len(*t)-500, 0):]
	return len(b), nil
}

// Names of the files that are made here, and so may be deleted here.
var (
	scheduledBackup = regexp.MustCompile(`^cairn-\d{8}T\d{6}Z\.tar\.gz(\.age)?$`)
	migrationBackup = regexp.MustCompile(`^cairn-before-schema-\d+-\d{8}T\d{6}Z\.tar\.gz(\.age)?$`)
	stamp           = regexp.MustCompile(`\d{8}T\d{6}Z`)
)

// removeOldBackups deletes the oldest files of a kind but keep.
func removeOldBackups(folder string, kind *regexp.Regexp, keep int) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if kind.MatchString(e.Name()) && e.Type().IsRegular() {
			old = append(old, e.Name())
		}
	}
	slices.SortFunc(old, func(a, b string) int { return strings.Compare(stamp.FindString(a), stamp.FindString(b)) })
	for _, name := range old[:max(len(old)-keep, 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// backupBeforeMigration makes a backup of an installation that is about to be migrated. file is empty where there is no
// place for one.
func backupBeforeMigration(
	ctx context.Context, st *store.Store, c config.Checked, log *slog.Logger,
) (file string, err error) {
	version, err := st.SchemaVersion(ctx)
	if err != nil {
		return "", err
	}
	folder := c.Backup.Dir
	if folder == "" && store.IsPostgres(c.Database) {
		log.Warn("the database is migrated without a backup: "+
			"set --backup-dir (SERVICE_BACKUP_DIR) to have one made before the next migration", "schema", version)
		return "", nil
	}
	if folder == "" {
		folder = filepath.Dir(c.Database)
	}
	now := time.Now().UTC()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("--backup-dir (SERVICE_BACKUP_DIR): %w", err)
	}
	prefix := fmt.Sprintf("cairn-before-schema-%d-", store.SchemaOfProgram())
	for _, e := range entries {
		made, err := time.Parse(stampFormat, stamp.FindString(e.Name()))
		if err == nil && strings.HasPrefix(e.Name(), prefix) && now.Sub(made) < migrationRetry {
			return filepath.Join(folder, e.Name()), nil
		}
	}
	source := backupSource{store: st, database: c.Database, dataKey: c.DataKeyFile, recipient: c.Backup.Recipient}
	file = filepath.Join(folder, source.fileName(prefix, now))
	_, err = source.make(ctx, file)
	if errors.Is(err, os.ErrExist) {
		return file, nil // another instance has made it just now
	}
	if at, unread := st.SchemaVersion(ctx); err != nil && unread == nil && at > version {
		return "", nil // another instance has made one and migrated meanwhile
	}
	if err != nil {
		return "", fmt.Errorf("before a migration there must be a backup: %w: make room there, "+
			"or set --backup-dir (SERVICE_BACKUP_DIR) to another folder", err)
	}
	log.Info("backup made before the migration", "file", file, "schema", version)
	return file, removeOldBackups(folder, migrationBackup, backupsAtMigration)
}
