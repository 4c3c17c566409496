package store

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// youngFactor is the condition on rows of a table of factors that a remedy may reach: see account.FactorUndo.
// What was made at joining never is: no session made it. What one made in the same second is no part of that.
func youngFactor(table string) string {
	return young(table+".created_at") + " AND (" + table + ".session_id <> '' OR " + table +
		".created_at > (SELECT u.created_at FROM users u WHERE u.sub = " + table + ".sub))"
}

// young is the condition on a time that it is within account.FactorUndo, with youngTimes. What a clock made that was
// further ahead is not young until then: whoever has the mailbox could remove it for as long.
func young(at string) string { return at + " BETWEEN @young AND @ahead" }

func youngTimes(args map[string]any, now time.Time) map[string]any {
	args["young"], args["ahead"] = toUnix(now.Add(-account.FactorUndo)), toUnix(now.Add(account.FactorUndo))
	return args
}

// othersFactor adds that another session than @keep made it.
func othersFactor(table string) string {
	return youngFactor(table) + " AND (" + table + ".session_id = '' OR " + table + ".session_id <> @keep)"
}

// disowned is the condition on the maker and the time of something that a disowned session, which began at @made,
// a later one but @owners, or one of @earlier made. A maker that is not known counts as later.
func disowned(at, session string) string {
	return "(" + session + " IN @earlier OR " + at + " >= @made AND " + session + " NOT IN @owners AND " +
		session + " NOT IN (SELECT s.id FROM sessions s WHERE s.sub IN @subs AND s.created_at < @made))"
}

// endFactors removes the factors of users that an act removes (account.Ending.Factors) and returns them. id is the
// session that the act names.
func endFactors(
	tx *engine.Tx, id string, a account.Audit, now time.Time, args map[string]any,
) map[string][]account.MadeFactor {
	youngTimes(args, now)
	args["now"], args["none"] = toUnix(now), account.NoPassword
	named, err := account.FactorsNamed(a.Remove)
	which := othersFactor
	switch a.Ends.Factors {
	case account.DisownedFactors:
		made := toUnix(a.Since)
		tx.Find(&made, "SELECT created_at FROM sessions WHERE id = ?", sanitize(id))
		args["made"], args["earlier"], args["owners"] = made, a.Earlier, append(a.Owners, "none")
		named.TOTP, named.Codes = true, true
		which = func(table string) string {
			return youngFactor(table) + " AND " + disowned(table+".created_at", table+".session_id")
		}
	case account.NamedFactors:
		if tx.Refuse(err); named.Count() == 0 {
			return nil
		}
	default:
		return nil
	}
	out := map[string][]account.MadeFactor{}
	remove := func(on bool, f account.MadeFactor, statement string) {
		var rows []madeRow
		if on {
			tx.Find(&rows, statement, args)
		}
		for _, r := range rows {
			f.Name, f.CreatedAt = r.Name, fromUnix(r.CreatedAt)
			if f.Kind == account.FactorPasskey {
				f.ID = passkeyFactorID(r.ID)
			}
			if of := out[r.Sub]; f.Kind != account.FactorRecoveryCode || len(of) == 0 || of[len(of)-1].Kind != f.Kind {
				out[r.Sub] = append(of, f)
			}
		}
	}
	passkeys := "DELETE FROM passkeys WHERE sub IN @subs AND " + which("passkeys")
	if a.Ends.Factors == account.NamedFactors {
		args["ids"] = named.Passkeys
		passkeys += " AND id IN @ids"
	}
	remove(named.Passkeys != nil || a.Ends.Factors == account.DisownedFactors,
		account.MadeFactor{Kind: account.FactorPasskey}, passkeys+" RETURNING sub, id, name, created_at")
	remove(named.TOTP, account.MadeFactor{ID: account.FactorTOTP, Kind: account.FactorTOTP},
		"DELETE FROM totp WHERE sub IN @subs AND "+which("totp")+" RETURNING sub, created_at")
	remove(named.Codes, account.MadeFactor{ID: account.RecoveryCodesID, Kind: account.FactorRecoveryCode},
		"DELETE FROM recovery_codes WHERE sub IN @subs AND "+which("recovery_codes")+" RETURNING sub, created_at")
	if a.Ends.Factors == account.DisownedFactors {
		tx.Exec("DELETE FROM former_recovery_codes WHERE sub IN @subs AND "+which("former_recovery_codes"), args)
		// What a passwordless account asks for, and what an authenticator app is for, is no choice.
		remove(true, account.MadeFactor{ID: account.FactorChoice, Kind: account.FactorChoice}, `UPDATE users
			SET second_factor = second_factor_was, second_factor_at = 0, second_factor_session_id = ''
			WHERE sub IN @subs AND second_factor <> second_factor_was AND `+young("second_factor_at")+`
			AND `+disowned("second_factor_at", "second_factor_session_id")+`
			AND NOT (second_factor AND (password_hash = @none
				OR EXISTS (SELECT 1 FROM totp t WHERE t.sub = users.sub)))
			RETURNING sub, CAST(@now AS BIGINT) AS created_at`)
	}
	withoutFactors(tx, args)
	if a.Ends.Factors == account.DisownedFactors {
		restoreCodes(tx, args)
	}
	if a.Ends.Factors == account.NamedFactors {
		if a.Ends.Sessions == account.NoSessions { // they are not kept
			endOpened(tx, firstSub(args), now, args)
		}
		checkNamed(tx, len(out[firstSub(args)]) == named.Count(), a, args)
	}
	return out
}

// endOpened ends the sessions but @keep that the passkeys @ids have opened.
func endOpened(tx *engine.Tx, sub string, now time.Time, args map[string]any) {
	const theirs = ` IN (SELECT id FROM sessions s WHERE s.sub IN @subs AND s.id <> @keep AND s.passkey IN @ids)`
	endSessions(tx, sub, now, "id <> @keep AND passkey IN @ids", "sid"+theirs+signOutGrants, args)
	dropPending(tx, "sub IN @subs AND email_pending_session_id"+theirs, args)
}

// checkNamed refuses the removal of named factors if not all were found, or if it would leave the person who asks
// without a way in.
func checkNamed(tx *engine.Tx, found bool, a account.Audit, args map[string]any) {
	if !found {
		tx.Refuse(account.ErrFactorsNamed)
	}
	var closed []int
	tx.Find(&closed, `SELECT 1 FROM users u WHERE u.sub IN @subs AND u.password_hash = @none
		AND NOT EXISTS (SELECT 1 FROM passkeys p WHERE p.sub = u.sub)`, args)
	if a.Proof == account.ProofFresh && len(closed) > 0 {
		tx.Refuse(account.ErrFactorsNamed)
	}
}

type madeRow struct {
	ID        []byte
	Sub, Name string
	CreatedAt int64 `gorm:"autoCreateTime:false"`
}

// passkeyFactorID returns the id of a passkey among the factors of a user.
func passkeyFactorID(id []byte) string {
	return account.PasskeyIDPrefix + base64.RawURLEncoding.EncodeToString(id)
}

func firstSub(args map[string]any) string {
	subs, _ := args["subs"].([]string)
	return subs[0]
}

// withoutFactors makes the accounts @subs consistent after factors of theirs were removed: no second step is asked
// of an account that has no factor, and there are no recovery codes where a password is enough. args also has @now
// and @none, account.NoPassword.
func withoutFactors(tx *engine.Tx, args map[string]any) {
	tx.Exec(`UPDATE users SET second_factor = (1 = 0), second_factor_at = 0, second_factor_session_id = ''
		WHERE sub IN @subs AND second_factor AND NOT EXISTS (SELECT 1 FROM totp t WHERE t.sub = users.sub)
		AND NOT EXISTS (SELECT 1 FROM passkeys p WHERE p.sub = users.sub)`, args)
	retireCodes(tx, `sub IN (SELECT u.sub FROM users u WHERE u.sub IN @subs AND NOT u.second_factor
		AND u.password_hash <> @none)`, args)
}

// retireCodes takes recovery codes out of use as of @now.
func retireCodes(tx *engine.Tx, which string, args map[string]any) {
	tx.Exec(`INSERT INTO former_recovery_codes (sub, hash, name, created_at, used_at, session_id, replaced_at)
		SELECT sub, hash, name, created_at, used_at, session_id, CAST(@now AS BIGINT) FROM recovery_codes
		WHERE `+which, args)
	tx.Exec("DELETE FROM recovery_codes WHERE "+which, args)
}

// restoreCodes gives the accounts @subs that need recovery codes and have none those that were replaced last, unless
// one was used since @made, but for the minute that a sign-in may take: somebody else has them.
func restoreCodes(tx *engine.Tx, args map[string]any) {
	tx.Exec(`INSERT INTO recovery_codes (sub, hash, name, created_at, used_at, session_id)
		SELECT f.sub, f.hash, f.name, f.created_at, f.used_at, f.session_id FROM former_recovery_codes f
		JOIN users u ON u.sub = f.sub AND (u.second_factor OR u.password_hash = @none)
		WHERE f.sub IN @subs AND `+young("f.replaced_at")+`
		AND f.replaced_at = (SELECT max(m.replaced_at) FROM former_recovery_codes m WHERE m.sub = f.sub)
		AND NOT EXISTS (SELECT 1 FROM former_recovery_codes m
			WHERE m.sub = f.sub AND m.replaced_at = f.replaced_at AND m.used_at >= @made - 60)
		AND NOT EXISTS (SELECT 1 FROM recovery_codes r WHERE r.sub = f.sub)`, args)
	tx.Exec(`DELETE FROM former_recovery_codes WHERE sub IN @subs AND hash IN
		(SELECT r.hash FROM recovery_codes r WHERE r.sub = former_recovery_codes.sub)`, args)
}

// RecentFactors implements account.Store.
func (s *Store) RecentFactors(ctx context.Context, sub, keep string, now time.Time) ([]account.MadeFactor, error) {
	var rows []struct {
		Kind string
		Row  madeRow `gorm:"embedded"`
	}
	err := s.conn(ctx).Raw(`SELECT '`+account.FactorPasskey+`' AS kind, sub, id, name, created_at FROM passkeys
			WHERE sub = @sub AND `+othersFactor("passkeys")+`
		UNION ALL SELECT '`+account.FactorTOTP+`', sub, NULL, '', created_at FROM totp
			WHERE sub = @sub AND `+othersFactor("totp")+`
		UNION ALL SELECT '`+account.FactorRecoveryCode+`', sub, NULL, '', max(created_at) FROM recovery_codes
			WHERE sub = @sub AND `+othersFactor("recovery_codes")+` GROUP BY sub
		ORDER BY created_at, kind`,
		youngTimes(map[string]any{"sub": sub, "keep": sanitize(keep)}, now),
	).Find(&rows).Error
	list := make([]account.MadeFactor, 0, len(rows))
	for _, r := range rows {
		f := account.MadeFactor{ID: r.Kind, Kind: r.Kind, Name: r.Row.Name, CreatedAt: fromUnix(r.Row.CreatedAt)}
		switch r.Kind {
		case account.FactorPasskey:
			f.ID = passkeyFactorID(r.Row.ID)
		case account.FactorRecoveryCode:
			f.ID = account.RecoveryCodesID
		}
		list = append(list, f)
	}
	return list, fail("list recent factors", err)
}
