package archive

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

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

const (
	// stampFormat is the format of times in the names of files.
	stampFormat = "20060102T150405Z"
	// backupsAtMigration is the number of backups from before migrations that are kept.
	backupsAtMigration = 3
	// migrationRetry is how long a backup from before a migration is reused by further attempts: a
	// service that restarts again and again must not fill the disk.
	migrationRetry = time.Hour
	// commandTimeout limits --backup-command. It is the shortest --backup-every.
	commandTimeout = time.Hour
	// commandGrace is the time that the command has to end after SIGTERM.
	commandGrace = 10 * time.Second
)

// BackupUntil makes scheduled backups until the context ends. Of several instances, one makes each
// backup.
func BackupUntil(ctx context.Context, source BackupSource, b config.Backup, log *slog.Logger) {
	t := time.NewTicker(min(max(b.Every/20, time.Second), 10*time.Minute))
	defer t.Stop()
	for {
		file, err := backupInTurn(ctx, source, b)
		if err != nil && ctx.Err() == nil {
			log.Error("scheduled backup failed", "error", err)
		}
		if file != "" {
			log.Info("backup made", "file", file)
			if err := runBackupCommand(ctx, source.Store, b.Command, file); err != nil {
				log.Error("the command after the backup failed", "file", file, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func backupInTurn(ctx context.Context, source BackupSource, b config.Backup) (file string, err error) {
	var after error // not returned to InTurn: the backup is made and must not be repeated
	work := func(ctx context.Context, now time.Time) (string, error) {
		made, err := filepath.Abs(filepath.Join(b.Dir, source.fileName("cairn-", now)))
		if err != nil {
			return "", err
		}
		if _, err := source.make(ctx, made); err != nil {
			return "", err
		}
		file = made
		after = errors.Join(source.Store.NoteDone(ctx, store.TurnBackup, now, file),
			removeOldBackups(b.Dir, scheduledBackup, b.Keep, now))
		return file, nil
	}
	err = source.Store.InTurn(ctx, store.TurnScheduledBackup, b.Every, work)
	return file, errors.Join(err, after)
}

// fileName returns the name of an automatic backup.
func (s BackupSource) fileName(prefix string, now time.Time) string {
	name := prefix + now.Format(stampFormat) + ".tar.gz"
	if s.Recipient != "" {
		name += ".age"
	}
	return name
}

// runBackupCommand runs the program of --backup-command, if there is one, and records the result
// for doctor. The program's environment has no variables of the service that could be secret.
func runBackupCommand(ctx context.Context, st *store.Store, command, file string) error {
	if command == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	path, err := filepath.Abs(command) // do not search PATH
	if err != nil {
		return err
	}
	c := exec.CommandContext(limited, path, file) // #nosec G204 -- the operator configures it
	c.Env = []string{"CAIRN_BACKUP_FILE=" + file}
	for _, name := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	var output tail
	c.Stdout, c.Stderr, c.WaitDelay = &output, &output, commandGrace
	cli.EndAsGroup(c)
	if err = c.Run(); errors.Is(limited.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s", commandTimeout)
	}
	failure := ""
	if err != nil {
		line := strings.Join(strings.Fields(string(output)), " ")
		failure = fmt.Sprintf("--backup-command %s: %s: %s", command, err, line)
		failure = cli.Printable(strings.TrimSuffix(failure, ": "))
		err = errors.New(failure)
	}
	noted := st.NoteDone(context.WithoutCancel(ctx), store.TurnBackupCommand, time.Now().UTC(), failure)
	return errors.Join(err, noted)
}

// tail keeps the last 500 bytes written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	*t = append(*t, b...)
	*t = (*t)[max(len(*t)-500, 0):]
	return len(b), nil
}

// Names of automatic backups. Only these files may be deleted.
var (
	scheduledBackup = regexp.MustCompile(`^cairn-\d{8}T\d{6}Z\.tar\.gz(\.age)?$`)
	migrationBackup = regexp.MustCompile(`^cairn-before-schema-\d+-\d{8}T\d{6}Z\.tar\.gz(\.age)?$`)
	stamp           = regexp.MustCompile(`\d{8}T\d{6}Z`)
)

// removeOldBackups deletes the files of a kind except the newest keep. Those of the future, of a clock that was
// ahead, are neither counted nor deleted.
func removeOldBackups(folder string, kind *regexp.Regexp, keep int, now time.Time) error {
	ahead := now.Add(store.ClockTolerance).Format(stampFormat)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if kind.MatchString(e.Name()) && e.Type().IsRegular() && stamp.FindString(e.Name()) <= ahead {
			old = append(old, e.Name())
		}
	}
	slices.SortFunc(old, func(a, b string) int {
		return strings.Compare(stamp.FindString(a), stamp.FindString(b))
	})
	for _, name := range old[:max(len(old)-keep, 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// backupBeforeMigration makes a backup of an installation that is about to be migrated. file is
// empty if no folder is configured for it.
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
		if err == nil && strings.HasPrefix(e.Name(), prefix) && now.Sub(made).Abs() < migrationRetry {
			return filepath.Join(folder, e.Name()), nil
		}
	}
	source := BackupSource{Store: st, Database: c.Database, DataKey: c.DataKeyFile, Recipient: c.Backup.Recipient}
	file = filepath.Join(folder, source.fileName(prefix, now))
	if _, err := source.make(ctx, file); err != nil {
		return "", fmt.Errorf("a migration requires a backup first: %w: make room there, "+
			"or set --backup-dir (SERVICE_BACKUP_DIR) to another folder", err)
	}
	log.Info("backup made before the migration", "file", file, "schema", version)
	return file, removeOldBackups(folder, migrationBackup, backupsAtMigration, now)
}
