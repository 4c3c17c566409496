package store

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/seal"
)

// Factors implements account.Store.
func (s *Store) Factors(ctx context.Context, sub string) (account.Factors, error) {
	var f account.Factors
	var counts struct {
		Hosts  string
		Codes  int
		MadeAt int64
	}
	err := s.conn(ctx).Raw(`SELECT coalesce((SELECT string_agg(coalesce(nullif(rp_id, ''), '.'), ' ') FROM passkeys
		WHERE sub = ?), '') AS hosts, (SELECT count(*) FROM recovery_codes WHERE sub = ? AND used_at = 0) AS codes,
		(SELECT coalesce(max(created_at), 0) FROM recovery_codes WHERE sub = ?) AS made_at`,
		sub, sub, sub).Find(&counts).Error
	if err != nil {
		return f, fail("find factors", err)
	}
	for _, host := range strings.Fields(counts.Hosts) {
		f.PasskeyHosts = append(f.PasskeyHosts, strings.TrimPrefix(host, "."))
	}
	f.Passkeys, f.RecoveryCodes, f.CodesMadeAt = len(f.PasskeyHosts), counts.Codes, fromUnix(counts.MadeAt)
	var rows []totpRow
	if err := s.conn(ctx).Raw("SELECT "+totpColumns+" FROM totp WHERE sub = ?", sub).Find(&rows).Error; err != nil {
		return f, fail("find authenticator app", err)
	}
	for _, r := range rows {
		secret, err := s.sealer.Open(seal.TOTPSecret, sub, r.Secret)
		if err != nil {
			return f, fail("find authenticator app", err)
		}
		f.TOTP = &account.TOTP{
			Secret: secret, LastStep: r.LastStep, CreatedAt: fromUnix(r.CreatedAt), LastUsedAt: fromUnix(r.LastUsedAt),
		}
	}
	return f, nil
}

type totpRow struct {
	Sub        string
	Secret     string
	LastStep   int64
	CreatedAt  int64 `gorm:"autoCreateTime:false"`
	LastUsedAt int64
}

var totpColumns = engine.ColumnsOf[totpRow]("totp")

// lockForFactors locks a user whose factors are about to change. The session must have used a
// second factor if the user has chosen one; none is the operator's.
func lockForFactors(tx *engine.Tx, sub, session string) account.User {
	u := lockedUser(tx, sub)
	if u.SecondFactor {
		provenFactor(tx, sub, session)
	}
	return u
}

// provenFactor refuses a session that has used no second factor; none is the operator's.
func provenFactor(tx *engine.Tx, sub, session string) {
	if session == "" {
		return
	}
	var amr string
	tx.Find(&amr, "SELECT amr FROM sessions WHERE id = ? AND sub = ?", sanitize(session), sub)
	if !slices.Contains(strings.Fields(amr), account.MethodMultiFactor) {
		tx.Refuse(account.ErrReauthenticationRequired)
	}
}

// addFactor adds a second factor by calling add: see account.NewFactor.
func (s *Store) addFactor(
	ctx context.Context, doing, sub string, n account.NewFactor, add func(tx *engine.Tx),
) (first bool, err error) {
	err = s.act(ctx, doing, n.Audit, func(tx *engine.Tx) {
		u := lockForFactors(tx, sub, n.Audit.Session)
		if !hasFactor(tx, sub) { // what sessions have used was removed
			tx.Exec(`UPDATE sessions SET amr = replace(amr, ?, '')
				WHERE sub = ?`, " "+account.MethodMultiFactor, sub)
		}
		add(tx)
		row := n.Audit
		if first = !u.SecondFactor && !n.WayIn; first {
			askSecondStep(tx, sub, n)
		}
		if first || n.End {
			row = end(tx, sub, "", n.Audit, n.Now).noted(row)
		}
		insertAudit(tx, row)
	})
	return first && err == nil, err
}

// hasFactor reports whether the user has an authenticator app or a passkey.
func hasFactor(tx *engine.Tx, sub string) bool {
	var found []int
	tx.Find(&found, "SELECT 1 FROM totp WHERE sub = @sub UNION SELECT 1 FROM passkeys WHERE sub = @sub",
		map[string]any{"sub": sub})
	return len(found) > 0
}

// setSecondStep stores the choice of a second step, and what a remedy makes of it. One session may change it and
// change it back, so that does not count; where several have within account.FactorUndo, it is on if it ever was.
func setSecondStep(tx *engine.Tx, sub, session string, on bool, now time.Time) {
	tx.Exec(`UPDATE users SET second_factor_was = CASE
			WHEN `+young("second_factor_at")+` AND second_factor_session_id = @session THEN second_factor_was
			ELSE second_factor OR (`+young("second_factor_at")+` AND second_factor_was) END,
		second_factor = @on, second_factor_at = @now, second_factor_session_id = @session, updated_at = @now
		WHERE sub = @sub`, youngTimes(map[string]any{
		"sub": sub, "session": sanitize(session), "on": on, "now": toUnix(now)}, now))
}

// askSecondStep switches the second step on, with recovery codes.
func askSecondStep(tx *engine.Tx, sub string, n account.NewFactor) {
	if len(n.Codes) == 0 && n.Audit.Session != "" { // it was switched off meanwhile
		tx.Refuse(account.ErrReauthenticationRequired)
	}
	setSecondStep(tx, sub, n.Audit.Session, true, n.Now)
	replaceRecoveryCodes(tx, sub, n.Audit.Session, n.Codes, n.Now)
}

// dropSecondStep switches the second step off for a user who has a password, with the recovery codes.
func dropSecondStep(tx *engine.Tx, sub, session string, now time.Time) {
	var apps []int
	if tx.Find(&apps, "SELECT 1 FROM totp WHERE sub = ?", sub); len(apps) > 0 {
		tx.Refuse(account.ErrStepOfApp)
	}
	setSecondStep(tx, sub, session, false, now)
	withoutFactors(tx, map[string]any{"subs": []string{sub}, "now": toUnix(now), "none": account.NoPassword})
}

// SetSecondStep implements account.Store.
func (s *Store) SetSecondStep(ctx context.Context, sub string, on bool, n account.NewFactor) error {
	return s.act(ctx, "set second step", n.Audit, func(tx *engine.Tx) {
		switch u := lockForFactors(tx, sub, n.Audit.Session); {
		case on == u.SecondFactor: // meanwhile
			tx.Refuse(account.ErrReauthenticationRequired)
		case u.Passwordless():
			tx.Refuse(account.ErrNoStep)
		case !on:
			dropSecondStep(tx, sub, n.Audit.Session, n.Now)
		case !hasFactor(tx, sub):
			tx.Refuse(account.ErrNoStep)
		default:
			provenFactor(tx, sub, n.Audit.Session)
			askSecondStep(tx, sub, n)
		}
		insertAudit(tx, s.endRenewing(tx, sub, n.Audit, n.Now).noted(n.Audit))
	})
}

// removeFactor removes a second factor by calling remove: see account.OldFactor. passkey is the id
// of a removed passkey, nil for other factors.
func (s *Store) removeFactor(
	ctx context.Context, doing, sub string, o account.OldFactor, passkey []byte, remove func(tx *engine.Tx),
) error {
	return s.act(ctx, doing, o.Audit, func(tx *engine.Tx) {
		u := lockForFactors(tx, sub, o.Audit.Session)
		remove(tx)
		if u.Passwordless() {
			keepWayIn(tx, sub, o.RPIDs)
		}
		var left struct{ Apps, Passkeys int }
		tx.Find(&left, `SELECT (SELECT count(*) FROM totp WHERE sub = ?) AS apps,
			(SELECT count(*) FROM passkeys WHERE sub = ?) AS passkeys`, sub, sub)
		last := left.Apps+left.Passkeys == 0
		lastPasskey := passkey != nil && left.Passkeys == 0
		if last && o.Demanded != "" || lastPasskey && o.Demanded == account.ACRPhishingResistant {
			tx.Refuse(account.ErrFactorDemanded)
		}
		args := map[string]any{"keep": sanitize(o.Audit.Session), "ids": [][]byte{passkey}, "subs": []string{sub},
			"now": toUnix(o.Now), "none": account.NoPassword}
		withoutFactors(tx, args)
		if passkey != nil && o.Audit.Ends.Sessions == account.NoSessions { // they are not kept
			endOpened(tx, sub, o.Now, args)
		}
		insertAudit(tx, s.endRenewing(tx, sub, o.Audit, o.Now).noted(o.Audit))
	})
}

func replaceRecoveryCodes(tx *engine.Tx, sub, session string, codes []account.RecoveryCode, now time.Time) {
	retireCodes(tx, "sub = @sub", map[string]any{"sub": sub, "now": toUnix(now)})
	for _, c := range codes {
		tx.Exec(`INSERT INTO recovery_codes (sub, hash, name, created_at, session_id)
			VALUES (?, ?, ?, ?, ?)`, sub, c.Hash, c.Name, toUnix(now), sanitize(session))
	}
}

// AddTOTP implements account.Store.
func (s *Store) AddTOTP(ctx context.Context, sub string, t account.TOTP, n account.NewFactor) (first bool, err error) {
	return s.addFactor(ctx, "add authenticator app", sub, n, func(tx *engine.Tx) {
		secret := s.sealer.In(tx).Seal(seal.TOTPSecret, sub, t.Secret)
		tx.Expect(tx.Exec(`INSERT INTO totp (sub, secret, last_step, created_at, session_id) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (sub) DO NOTHING`,
			sub, secret, t.LastStep, toUnix(n.Now), sanitize(n.Audit.Session)), account.ErrFactorExists)
	})
}

// UseTOTP implements account.Store.
func (s *Store) UseTOTP(ctx context.Context, sub string, step int64, now time.Time) (later bool, err error) {
	err = s.writeOne(ctx, "accept time step", func(db *gorm.DB) error {
		use := db.Exec(`UPDATE totp SET last_step = ?, last_used_at = ?
			WHERE sub = ? AND last_step < ?`, step, toUnix(now), sub, step)
		later = use.RowsAffected == 1
		return use.Error
	})
	return later && err == nil, err
}

// RemoveTOTP implements account.Store.
func (s *Store) RemoveTOTP(ctx context.Context, sub string, o account.OldFactor) error {
	return s.removeFactor(ctx, "remove authenticator app", sub, o, nil, func(tx *engine.Tx) {
		tx.Expect(tx.Exec("DELETE FROM totp WHERE sub = ?", sub), account.ErrFactorNotFound)
	})
}

// ReplaceRecoveryCodes implements account.Store.
func (s *Store) ReplaceRecoveryCodes(
	ctx context.Context, sub string, codes []account.RecoveryCode, now time.Time, a account.Audit,
) error {
	return s.act(ctx, "replace recovery codes", a, func(tx *engine.Tx) {
		if u := lockForFactors(tx, sub, a.Session); !u.SecondFactor {
			tx.Refuse(account.ErrFactorNotFound)
		}
		replaceRecoveryCodes(tx, sub, a.Session, codes, now)
		insertAudit(tx, a)
	})
}

// RecoveryCode implements account.Store.
func (s *Store) RecoveryCode(
	ctx context.Context, sub, name string, hash []byte,
) (code account.RecoveryCode, left int, err error) {
	var rows []account.RecoveryCode
	err = s.conn(ctx).Raw("SELECT name, hash FROM recovery_codes WHERE sub = ? AND used_at = 0", sub).Find(&rows).Error
	for _, r := range rows {
		if r.Name == name && name != "" || r.Name == "" && bytes.Equal(r.Hash, hash) {
			code = r
		}
	}
	return code, len(rows), fail("find recovery code", err)
}

// UseRecoveryCode implements account.Store.
func (s *Store) UseRecoveryCode(
	ctx context.Context, sub string, hash []byte, now time.Time, a account.Audit,
) (bool, error) {
	err := s.write(ctx, "use recovery code", func(tx *engine.Tx) {
		tx.Expect(tx.Exec(`UPDATE recovery_codes SET used_at = ?
			WHERE sub = ? AND hash = ? AND used_at = 0`, toUnix(now), sub, hash), account.ErrFactorNotFound)
		insertAudit(tx, a)
	})
	if errors.Is(err, account.ErrFactorNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ResetFactors implements account.Store.
func (s *Store) ResetFactors(ctx context.Context, sub string, now time.Time, a account.Audit) error {
	return s.act(ctx, "reset factors", a, func(tx *engine.Tx) {
		lockUser(tx, sub)
		deleteOf(tx, sub, "totp", "passkeys", "recovery_codes", "former_recovery_codes")
		tx.Exec("UPDATE users SET second_factor = false, second_factor_at = 0 WHERE sub = ?", sub)
		insertAudit(tx, end(tx, sub, "", a, now).noted(a))
	}, sub)
}

// SpendOnce implements account.Store.
func (s *Store) SpendOnce(ctx context.Context, hash []byte, expires time.Time) (first bool, err error) {
	err = s.writeOne(ctx, "spend once", func(db *gorm.DB) error {
		// GORM expands a slice right after a parenthesis into a list, so the hash comes second.
		spend := db.Exec(`INSERT INTO spent (expires_at, hash) VALUES (?, ?)
			ON CONFLICT (hash) DO NOTHING`, toUnix(expires), hash)
		first = spend.RowsAffected == 1
		return spend.Error
	})
	return first && err == nil, err
}
