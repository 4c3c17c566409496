package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
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
	// unfinishedAge is when a backup that has no name yet is one of a killed process.
	unfinishedAge = 24 * time.Hour
)

// backupUntil makes scheduled backups until the context ends, one instance of all.
func backupUntil(ctx context.Context, source backupSource, b config.Backup, log *slog.Logger) {
	t := time.NewTicker(min(max(b.Every/20, time.Second), 10*time.Minute))
	defer t.Stop()
	for {
		if file, err := backupInTurn(ctx, source, b); err != nil && ctx.Err() == nil {
			log.Error("scheduled backup failed", "error", err)
		} else if file != "" {
			log.Info("backup made", "file", file)
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
		made := filepath.Join(b.Dir, "cairn-"+now.Format(stampFormat)+".tar.gz")
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

// Names of the files that are made here, and so may be deleted here.
var (
	scheduledBackup  = regexp.MustCompile(`^cairn-\d{8}T\d{6}Z\.tar\.gz$`)
	migrationBackup  = regexp.MustCompile(`^cairn-before-schema-\d+-(\d{8}T\d{6}Z)\.tar\.gz$`)
	unfinishedBackup = regexp.MustCompile(`^\.cairn-(before-schema-\d+-)?\d{8}T\d{6}Z\.tar\.gz-\d+$`)
)

// removeOldBackups deletes the oldest files of a kind but keep, and what killed processes have left.
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
		if info, infoErr := e.Info(); infoErr == nil && unfinishedBackup.MatchString(e.Name()) && time.Since(info.ModTime()) > unfinishedAge {
			err = errors.Join(err, os.Remove(filepath.Join(folder, e.Name())))
		}
	}
	slices.SortFunc(old, func(a, b string) int { return strings.Compare(stampOf(a), stampOf(b)) })
	for _, name := range old[:max(len(old)-keep, 0)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// stampOf is the time in the name of a backup.
func stampOf(name string) string {
	return name[len(name)-len(".tar.gz")-len(stampFormat) : len(name)-len(".tar.gz")]
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
	if folder == "" && isURL(c.Database) {
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
		if made, err := time.Parse(stampFormat, strings.TrimSuffix(strings.TrimPrefix(e.Name(), prefix), ".tar.gz")); err == nil && now.Sub(made) < migrationRetry {
			return filepath.Join(folder, e.Name()), nil
		}
	}
	file = filepath.Join(folder, prefix+now.Format(stampFormat)+".tar.gz")
	_, err = backupSource{store: st, database: c.Database, dataKey: c.DataKeyFile}.make(ctx, file)
	if errors.Is(err, os.ErrExist) {
		return file, nil // another instance has made it just now
	}
	if err != nil {
		return "", fmt.Errorf("before a migration there must be a backup: %w: make room there, "+
			"or set --backup-dir (SERVICE_BACKUP_DIR) to another folder", err)
	}
	log.Info("backup made before the migration", "file", file, "schema", version)
	return file, removeOldBackups(folder, migrationBackup, backupsAtMigration)
}
