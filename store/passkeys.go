package store

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// passkeyRow is an account.Passkey with how its members are stored.
type passkeyRow struct {
	ID                          []byte
	Sub                         string
	RPID                        string `gorm:"column:rp_id;serializer:text"`
	Name                        string `gorm:"serializer:text"`
	PublicKey                   []byte
	AAGUID                      []byte   `gorm:"column:aaguid"`
	Transports                  []string `gorm:"serializer:words"`
	Attachment                  string   `gorm:"serializer:text"`
	SignCount                   uint32
	BackupEligible, BackupState bool
	CreatedAt, LastUsedAt       time.Time `gorm:"autoCreateTime:false;serializer:unix"`
}

var passkeyColumns = engine.ColumnsOf[passkeyRow]("passkeys")

func (r passkeyRow) passkey() account.Passkey { return account.Passkey(r) }

// Passkeys implements account.Store.
func (s *Store) Passkeys(ctx context.Context, sub string) ([]account.Passkey, error) {
	var rows []passkeyRow
	err := s.conn(ctx).Raw("SELECT "+passkeyColumns+` FROM passkeys WHERE sub = ?
		ORDER BY created_at, id`, sub).Find(&rows).Error
	return each(rows, passkeyRow.passkey), fail("list passkeys", err)
}

// Passkey implements account.Store.
func (s *Store) Passkey(ctx context.Context, id []byte) (account.Passkey, account.User, error) {
	var row struct {
		Passkey passkeyRow `gorm:"embedded;embeddedPrefix:p_"`
		User    storedUser `gorm:"embedded"`
	}
	found := s.conn(ctx).Raw("SELECT "+userColumns+`, p.id AS p_id, p.sub AS p_sub, p.rp_id AS p_rp_id,
		p.name AS p_name,
		p.public_key AS p_public_key, p.aaguid AS p_aaguid, p.transports AS p_transports,
		p.attachment AS p_attachment, p.sign_count AS p_sign_count, p.backup_eligible AS p_backup_eligible,
		p.backup_state AS p_backup_state, p.created_at AS p_created_at, p.last_used_at AS p_last_used_at
		FROM passkeys p JOIN users u ON u.sub = p.sub WHERE p.id = ? AND u.deleted_at = 0`, id).Find(&row)
	if err := expect(found, account.ErrPasskeyNotFound); err != nil {
		return account.Passkey{}, account.User{}, fail("find passkey", err)
	}
	return row.Passkey.passkey(), row.User.userAt(s.Now()), nil
}

// AddPasskey implements account.Store.
func (s *Store) AddPasskey(
	ctx context.Context, p account.Passkey, limit int, n account.NewFactor,
) (first bool, err error) {
	return s.addFactor(ctx, "add passkey", p.Sub, n, func(tx *engine.Tx) {
		var count int64
		tx.Find(&count, "SELECT count(*) FROM passkeys WHERE sub = ?", p.Sub)
		if count >= int64(limit) {
			tx.Refuse(account.ErrPasskeyLimit)
			return
		}
		insertPasskey(tx, p, n.Audit.Session)
	})
}

func insertPasskey(tx *engine.Tx, p account.Passkey, session string) {
	row := struct {
		Row       passkeyRow `gorm:"embedded"`
		SessionID string
	}{passkeyRow(p), sanitize(session)}
	once := clause.OnConflict{Columns: []clause.Column{{Name: "id"}}, DoNothing: true}
	tx.Expect(tx.Ran(tx.Table("passkeys").Clauses(once).Create(&row)), account.ErrPasskeyExists)
}

// StampPasskeys implements account.Store.
func (s *Store) StampPasskeys(ctx context.Context, rpID string) error {
	return s.writeOne(ctx, "stamp passkeys", func(db *gorm.DB) error {
		return db.Exec("UPDATE passkeys SET rp_id = ? WHERE rp_id = ''", sanitize(rpID)).Error
	})
}

// PasskeysElsewhere implements account.Store.
func (s *Store) PasskeysElsewhere(ctx context.Context, rpIDs []string) (out account.PasskeysElsewhere, err error) {
	here := slices.Concat(rpIDs, []string{""})
	err = s.conn(ctx).Raw(`SELECT count(*) AS passkeys, count(DISTINCT p.sub) AS members,
		count(DISTINCT CASE WHEN u.password_hash = ? AND NOT EXISTS
			(SELECT 1 FROM passkeys o WHERE o.sub = p.sub AND o.rp_id IN ?) THEN p.sub END) AS locked_out
		FROM passkeys p JOIN users u ON u.sub = p.sub WHERE p.rp_id NOT IN ?`,
		account.NoPassword, here, here).Find(&out).Error
	return out, fail("count passkeys", err)
}

// OlderPasskeyHost implements account.Store.
func (s *Store) OlderPasskeyHost(ctx context.Context, rpIDs []string, present string) (host string, err error) {
	err = s.conn(ctx).Raw(`SELECT rp_id FROM passkeys WHERE rp_id IN ? AND rp_id <> ?
		GROUP BY rp_id ORDER BY count(*) DESC, rp_id LIMIT 1`, rpIDs, present).Find(&host).Error
	return host, fail("look for older passkeys", err)
}

// RenamePasskey implements account.Store.
func (s *Store) RenamePasskey(ctx context.Context, sub string, id []byte, name string, a account.Audit) error {
	return s.act(ctx, "rename passkey", a, func(tx *engine.Tx) {
		tx.Expect(tx.Exec("UPDATE passkeys SET name = ? WHERE id = ? AND sub = ?", sanitize(name), id, sanitize(sub)),
			account.ErrPasskeyNotFound)
		insertAudit(tx, a)
	})
}

// RemovePasskey implements account.Store.
func (s *Store) RemovePasskey(ctx context.Context, sub string, id []byte, o account.OldFactor) error {
	return s.removeFactor(ctx, "remove passkey", sub, o, id, func(tx *engine.Tx) {
		tx.Expect(tx.Exec("DELETE FROM passkeys WHERE id = ? AND sub = ?", id, sub), account.ErrPasskeyNotFound)
	})
}

// UsePasskey implements account.Store.
func (s *Store) UsePasskey(ctx context.Context, p account.Passkey, a account.Audit) (wentBack bool, err error) {
	err = s.write(ctx, "use passkey", func(tx *engine.Tx) {
		const set = "UPDATE passkeys SET sign_count = ?, backup_state = ?, last_used_at = ? WHERE id = ? AND sub = ?"
		values := []any{int64(p.SignCount), p.BackupState, toUnix(p.LastUsedAt), p.ID, p.Sub}
		ahead := tx.Exec(set+` AND (sign_count < ? OR sign_count = 0
			AND CAST(? AS BIGINT) = 0)`, append(values, int64(p.SignCount), int64(p.SignCount))...)
		if wentBack = ahead == 0; wentBack {
			tx.Expect(tx.Exec(set, values...), account.ErrPasskeyNotFound)
			insertAudit(tx, a)
		}
	})
	return wentBack && err == nil, err
}
