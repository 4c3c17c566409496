package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// errUncheckedActor is a fault of the program.
var errUncheckedActor = errors.New("an act whose actor was not checked")

// act is write for an act by the session of a row, on the users subs if there are any: see checkActor.
func (s *Store) act(
	ctx context.Context, doing string, a account.Audit, do func(tx *engine.Tx), subs ...string,
) error {
	return s.write(ctx, doing, func(tx *engine.Tx) {
		checkActor(tx, a, subs...)
		do(tx)
	})
}

// checkActor refuses an act as account.Audit.Bound says. It comes first in the transaction, after the lock
// "administrators". On PostgreSQL it locks the rows of the actor and of the users whom the act is about, in
// the order of subs: whoever ends the session, suspends the actor or takes the flag locks that row too, and
// has come before or waits. Only then it reads. On SQLite the transaction itself excludes the others.
func checkActor(tx *engine.Tx, a account.Audit, subs ...string) {
	if !a.Bound() {
		return
	}
	if tx.Hot.Dialect() == Postgres {
		var locked []string
		tx.Find(&locked, `SELECT sub FROM users WHERE sub = ANY(ARRAY(SELECT s.sub FROM sessions s WHERE s.id = ?
			UNION SELECT u.sub FROM users u WHERE u.sub IN ?)) ORDER BY sub FOR NO KEY UPDATE`,
			sanitize(a.Session), append(each(subs, sanitize), ""))
	}
	var now struct {
		AuthTime, ConfirmedAt      int64
		AMR                        string `gorm:"column:amr"`
		SecondFactor, Passwordless bool
		Admin                      bool
	}
	tx.Expect(tx.Find(&now, `SELECT s.auth_time, s.confirmed_at, s.amr, v.second_factor,
		v.password_hash = ? AS passwordless,
		EXISTS (SELECT 1 FROM user_flags f WHERE f.sub = v.sub AND f.flag = ? AND `+flagInForce+`) AS admin
		FROM sessions s JOIN users v ON v.sub = s.sub
		WHERE s.id = ? AND s.ended_at = 0 AND s.expires_at > ? AND `+userActive, account.NoPassword, account.FlagAdmin,
		tx.Now(), sanitize(a.Session), toUnix(a.At), tx.Now()), account.ErrNotAuthenticated)
	fresh := a.Proof == account.ProofFresh || a.Proof == account.ProofAdministrator ||
		a.Proof == account.ProofPassword && (now.SecondFactor || now.Passwordless)
	if a.Proof == account.ProofAdministrator && !now.Admin {
		tx.Refuse(account.ErrAdminRequired)
	}
	// What came with the request is not in the row of the session.
	confirmed := fromUnix(max(now.AuthTime, now.ConfirmedAt, toUnix(a.ConfirmedAt)))
	methods := append(strings.Fields(now.AMR), a.AMR...)
	if fresh && (a.At.Sub(confirmed).Abs() > account.FreshFor || // a proof of the future is of a clock that was ahead
		now.SecondFactor && !slices.Contains(methods, account.MethodMultiFactor)) {
		tx.Refuse(account.ErrReauthenticationRequired)
	}
	tx.Actor = actorOf(a)
}

// actorOf names the actor of an act and what was asked of them.
func actorOf(a account.Audit) string { return strconv.Itoa(int(a.Proof)) + " " + a.Session }

// actorChecked fails the operation if a row is about an act whose actor was not checked.
func actorChecked(tx *engine.Tx, a account.Audit) {
	if a.Bound() && tx.Actor != actorOf(a) {
		tx.Refuse(errUncheckedActor)
	}
}
