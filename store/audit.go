package store

import (
	"context"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
)

type auditRow struct {
	ID        int64 `gorm:"primaryKey"`
	At        int64
	Actor     string
	Action    string
	Target    string
	Detail    string
	Address   string
	RequestID string
}

// insertAudit writes down an act in the transaction of the act.
func insertAudit(tx *gorm.DB, a account.Audit) error {
	return tx.Exec("INSERT INTO audit (at, actor, action, target, detail, address, request_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
		toUnix(a.At), sanitize(a.Actor), sanitize(a.Action), sanitize(a.Target), sanitize(a.Detail), sanitize(a.Address), sanitize(a.RequestID)).Error
}

// Audit implements account.Store.
func (s *Store) Audit(ctx context.Context, before int64, limit int) ([]account.Audit, error) {
	db := s.conn(ctx).Table("audit").Order("id DESC").Limit(pageSize(limit))
	if before > 0 {
		db = db.Where("id < ?", before)
	}
	var rows []auditRow
	err := db.Find(&rows).Error
	return each(rows, auditRow.audit), fail("read audit", err)
}

func (r auditRow) audit() account.Audit {
	return account.Audit{ID: r.ID, At: fromUnix(r.At), Actor: r.Actor, Action: r.Action, Target: r.Target, Detail: r.Detail, Address: r.Address, RequestID: r.RequestID}
}
