package store

import (
	"context"
	"time"

	"gorm.io/gorm"
)

// TurnBackup is the name of backups, however they are made, TurnScheduledBackup that of the
// turn of those that the service makes: one by hand does not delay them.
const (
	TurnBackup          = "backup"
	TurnScheduledBackup = "scheduled backup"
	// TurnBackupCommand has how the command after the last backup failed, or nothing, in its detail.
	TurnBackupCommand = "backup command"
)

// A Turn is the right to do a piece of background work, which only one instance has at a
// time. The zero value is none.
type Turn struct {
	name  string
	until int64 // Unix seconds; it also tells this turn from a later one
}

// TakeTurn gives the turn to do the work of a name, unless another instance has it or the
// work was done less than every ago. Without EndTurn, after a crash, the turn ends with
// its lease. One that outlasts its lease loses it to the next caller.
func (s *Store) TakeTurn(ctx context.Context, name string, now time.Time, every, lease time.Duration) (turn Turn, ok bool, err error) {
	t := Turn{name: name, until: toUnix(now.Add(lease))}
	err = s.writeOne(ctx, "take the turn of "+name, func(db *gorm.DB) error {
		taken := db.Exec(`INSERT INTO turns (name, leased_until) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET leased_until = excluded.leased_until
			WHERE turns.leased_until <= ? AND turns.done_at <= ?`, name, t.until, toUnix(now), toUnix(now.Add(-every)))
		ok = taken.RowsAffected == 1
		return taken.Error
	})
	if err != nil || !ok {
		return Turn{}, false, err
	}
	return t, true, nil
}

// EndTurn gives the turn back. done is when the work was done, zero when it was not and the
// next caller should try; detail says what came of it. A turn that was lost changes nothing.
func (s *Store) EndTurn(ctx context.Context, t Turn, done time.Time, detail string) error {
	return s.writeOne(ctx, "end the turn of "+t.name, func(db *gorm.DB) error {
		if done.IsZero() {
			return db.Exec("UPDATE turns SET leased_until = 0 WHERE name = ? AND leased_until = ?", t.name, t.until).Error
		}
		return db.Exec("UPDATE turns SET leased_until = 0, done_at = ?, detail = ? WHERE name = ? AND leased_until = ?", toUnix(done), sanitize(detail), t.name, t.until).Error
	})
}

// LastTurn tells when the work of a name was last done and what came of it; a zero time
// means that it was not done yet.
func (s *Store) LastTurn(ctx context.Context, name string) (done time.Time, detail string, err error) {
	var row struct {
		DoneAt int64
		Detail string
	}
	err = s.conn(ctx).Raw("SELECT done_at, detail FROM turns WHERE name = ?", name).Find(&row).Error
	return fromUnix(row.DoneAt), row.Detail, fail("read the last turn of "+name, err)
}

// NoteDone is for work of a name that was done without a turn.
func (s *Store) NoteDone(ctx context.Context, name string, done time.Time, detail string) error {
	return s.writeOne(ctx, "note that "+name+" was done", func(db *gorm.DB) error {
		return db.Exec(`INSERT INTO turns (name, done_at, detail) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET done_at = excluded.done_at, detail = excluded.detail`, name, toUnix(done), sanitize(detail)).Error
	})
}
