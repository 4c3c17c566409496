package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// databaseFlags are the settings of a command that only needs the database.
type databaseFlags struct {
	Database string `env:"SERVICE_DATABASE" default:"cairn.db" help:"SQLite file, or a postgres:// URL."`
}

// openDatabase opens an existing, current database.
func openDatabase(ctx context.Context, dsn string, log *slog.Logger) (*store.Store, error) {
	s := config.Defaults()
	s.Database = dsn
	checked, err := s.Check()
	if err != nil {
		return nil, err
	}
	return openExisting(ctx, checked, log)
}

// openExisting opens the database without creating it: a mistyped path must
// not become a second, empty installation.
func openExisting(ctx context.Context, c config.Checked, log *slog.Logger) (*store.Store, error) {
	if !isURL(c.Database) {
		if _, err := os.Stat(c.Database); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("--database (SERVICE_DATABASE): there is no database %s: run cairn init, or name the right file", c.DatabaseLabel())
		}
	}
	st, err := store.Open(ctx, c.Database, store.Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("--database (SERVICE_DATABASE): %w", err)
	}
	switch err := st.CheckSchema(ctx); {
	case errors.Is(err, store.ErrNotMigrated):
		err = st.Migrate(ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--database (SERVICE_DATABASE): %w", err), st.Close())
		}
	case errors.Is(err, store.ErrNewerSchema):
		return nil, errors.Join(fmt.Errorf("--database (SERVICE_DATABASE): %s was migrated by a newer cairn: run that version, or restore a backup", c.DatabaseLabel()), st.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("--database (SERVICE_DATABASE): %w", err), st.Close())
	}
	if _, err := st.Settings(ctx); err != nil {
		if errors.Is(err, account.ErrNotInitialized) {
			err = fmt.Errorf("--database (SERVICE_DATABASE): %s is not initialized: run cairn init", c.DatabaseLabel())
		}
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// sharedSecret is the HS256 secret: the environment's wins over the stored one.
// note says so when they differ.
func sharedSecret(ctx context.Context, env *config.Environment, st *store.Store) (secret []byte, note string, err error) {
	stored, err := st.Secret(ctx, account.SecretJWT)
	if err != nil {
		return nil, "", fmt.Errorf("read the stored secret: %w", err)
	}
	given, source, err := config.Secret(env.Lookup)
	if err != nil {
		return nil, "", err
	}
	if given == nil {
		return stored, "", nil
	}
	if string(given) != string(stored) {
		note = source + " differs from the stored secret (cairn show-secret) and is used instead: give the activity application the same one"
	}
	return given, note, nil
}

// operator is who the command line acts as in the audit log.
func operator(action, target, detail string) account.Audit {
	return account.Audit{At: time.Now().UTC().Truncate(time.Second), Actor: "operator", Action: action, Target: target, Detail: detail}
}

// quietLog drops everything below errors, for commands that talk themselves.
func quietLog(p *program) *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
