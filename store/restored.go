package store

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/seal"
	"gorm.io/gorm"
)

const (
	// wholeList as the count of issued indices means that every index of the list is revoked.
	wholeList = -1
	// listsAfterBackup is how many lists may have been opened after a backup: they answer with
	// every index revoked. A token of a list beyond them is refused too, because the list does not
	// exist.
	listsAfterBackup = 64
	// listEpoch is subtracted from Unix seconds for the number of the first list after a restore:
	// greater than that of any list before, unless there is one a second, and within the 31 bits
	// that verifiers read.
	listEpoch = 1577836800 // 2020-01-01
)

// PrepareRestored prepares a snapshot for service: migrated to this program's schema, with no work
// leased to an earlier instance. What was revoked or spent after the snapshot is live in it, so
// every session, grant, code and pending request is ended, unless KeepSessions is set. Tokens
// issued after the snapshot are revoked in both cases: their indices are never reused, and are
// revoked except for those of kept sessions.
func PrepareRestored(ctx context.Context, path string, r Restoring, a account.Audit) (lost LostValues, err error) {
	quiet := slog.New(slog.DiscardHandler)
	s, err := Open(ctx, path, Options{Timeout: engine.LongTimeout, Log: quiet, DataKey: r.DataKey})
	if err != nil {
		return lost, err
	}
	err = s.Migrate(ctx)
	if err == nil {
		lost, err = s.prepareRestored(ctx, r, a)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return lost, err
	}
	return lost, engine.SingleFile(ctx, path)
}

// Restoring holds the options of PrepareRestored.
type Restoring struct {
	KeepSessions bool
	DataKey      func() ([]byte, error) // as in Options
	NewDataKey   bool                   // DataKey replaces a lost one
}

// PrepareMoved is PrepareRestored for a snapshot of a database that is no longer used: everything
// in it stays live.
func PrepareMoved(ctx context.Context, path string) error {
	s, err := Open(ctx, path, Options{Timeout: engine.LongTimeout, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err = s.Migrate(ctx); err == nil {
		err = s.writeOne(ctx, "end leases", endLeases)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	return engine.SingleFile(ctx, path)
}

func endLeases(db *gorm.DB) error { return db.Exec("UPDATE turns SET leased_until = 0").Error }

func (s *Store) prepareRestored(ctx context.Context, r Restoring, a account.Audit) (lost LostValues, err error) {
	now := toUnix(a.At)
	// By then the last earlier cookie has expired.
	until := now + int64(account.SessionLifetime/time.Second)
	err = s.writeAlone(ctx, "prepare the restored database", s.Timeout(), func(tx *engine.Tx) {
		tx.Refuse(endLeases(tx.DB))
		if r.NewDataKey {
			lost = s.sealer.Replace(tx, a.At)
		}
		if !r.KeepSessions {
			s.endEverything(tx, now)
		}
		args := []any{sql.Named("now", now), sql.Named("until", until), sql.Named("whole", wholeList),
			sql.Named("more", listsAfterBackup),
			sql.Named("size", statuslist.Size), sql.Named("first", now-listEpoch)}
		statements := []string{
			"INSERT INTO status_lists (id, issued) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM status_lists)",
			// A verifier with a copy sees a new version in any case.
			"UPDATE status_lists SET version = max(version + 1, @now)",
			`WITH RECURSIVE n (id) AS (SELECT max(id) + 1 FROM status_lists
				UNION ALL SELECT id + 1 FROM n WHERE id < (SELECT max(id) FROM status_lists) + @more)
				INSERT INTO status_lists (id, issued, version) SELECT id, @whole, @now FROM n`,
		}
		if r.KeepSessions {
			statements = append(statements, `WITH RECURSIVE i (n) AS
				(SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < @size - 1)
				INSERT INTO revocations (status_list, status_index, expires_at)
				SELECT l.id, i.n, @until FROM status_lists l, i WHERE l.issued <> @whole
				AND NOT EXISTS (SELECT 1 FROM sessions s
					WHERE s.status_list = l.id AND s.status_index = i.n AND s.ended_at = 0)
				AND NOT EXISTS (SELECT 1 FROM grants g WHERE g.status_list > 0
					AND g.status_list = l.id AND g.status_index = i.n AND g.revoked_at = 0)
				AND NOT EXISTS (SELECT 1 FROM client_tokens t WHERE t.status_list > 0
					AND t.status_list = l.id AND t.status_index = i.n AND t.revoked_at = 0)
				ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at, cleared_at = 0`)
		} else {
			statements = append(statements, "UPDATE status_lists SET issued = @whole")
		}
		statements = append(statements,
			// A revocation keeps a list until its last cookie has expired.
			`INSERT INTO revocations (status_list, status_index, expires_at)
				SELECT id, 0, @until FROM status_lists WHERE issued = @whole
				ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at, cleared_at = 0`,
			`INSERT INTO status_lists (id, issued, version)
				SELECT max(max(id) + 1, @first), 0, @now FROM status_lists`,
		)
		for _, statement := range statements {
			named := args
			if !strings.Contains(statement, "@") {
				named = nil
			}
			tx.Exec(statement, named...)
		}
		insertAudit(tx, a)
	})
	return lost, err
}

// endEverything ends what gives people and applications access, and what could restore it. Only
// invites stay.
func (s *Store) endEverything(tx *engine.Tx, now int64) {
	for _, statement := range []string{
		"UPDATE sessions SET ended_at = @now WHERE ended_at = 0",
		"UPDATE grants SET revoked_at = @now WHERE revoked_at = 0",
		"UPDATE client_tokens SET revoked_at = @now WHERE revoked_at = 0",
	} {
		tx.Exec(statement, sql.Named("now", now))
	}
	dropPending(tx, "email_pending <> @none", map[string]any{"none": ""})
	for _, table := range []string{
		"reset_codes", "mailed_reset_codes", "pushed_requests", "device_requests", "logout_outbox", "mail_outbox",
	} {
		tx.Exec("DELETE FROM " + table)
	}
	// Links and forms that were sealed before the restore may have been used since.
	seal.SetSecret(tx, s.sealer.In(tx), account.SecretInstallation, seal.NewSecret())
}
