package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// acceptedRequest is the condition of an invite that answers a request to join: it is for one address. Whether it
// counts does not depend on what its creator is today: it falls when what they gave does.
const acceptedRequest = "domain LIKE '%@%'"

// givenTables have what administrators gave others to get into an account, in the order in which a code is made:
// see CreateMailedResetCode.
var givenTables = []string{"reset_codes", "mail_outbox", "mailed_reset_codes"}

// voidBy voids what an act on the users @subs does of what they gave others.
func voidBy(tx *engine.Tx, a account.Audit, args map[string]any) map[string]int {
	switch {
	case a.Ends.Given == account.AllGiven:
		return voidGiven(tx, "1 = 1", args)
	case a.Ends.Given == account.RecentGiven:
		return voidGiven(tx, "created_at >= @since", args)
	case len(a.Void) > 0:
		return voidNamed(tx, args)
	}
	return nil
}

// voidGiven voids what the users @subs gave others, where a condition on it is met, and returns the number of
// accepted requests by creator.
func voidGiven(tx *engine.Tx, condition string, args map[string]any) map[string]int {
	for _, table := range givenTables {
		tx.Exec("DELETE FROM "+table+" WHERE made_by IN @subs AND "+condition, args)
	}
	_, requests := closeInvites(tx, "created_by IN @subs AND "+acceptedRequest+" AND "+condition, args)
	return requests
}

// voidNamed voids what the users @subs gave others and named by account.Given.Name.
func voidNamed(tx *engine.Tx, args map[string]any) map[string]int {
	for _, table := range givenTables {
		tx.Exec("DELETE FROM "+table+` WHERE made_by IN @subs
			AND sub IN (SELECT u.sub FROM users u WHERE u.handle IN @void)`, args)
	}
	_, requests := closeInvites(tx, "created_by IN @subs AND "+acceptedRequest+" AND domain IN @void", args)
	return requests
}

// givenBy lists what a user gave others in other sessions than keep and is not used yet.
func (s *Store) givenBy(ctx context.Context, sub, keep string, now time.Time) (list []account.Given, err error) {
	var rows []struct {
		Name      string
		CreatedAt int64
	}
	const code = ` r JOIN users u ON u.sub = r.sub
		WHERE r.made_by = @sub AND r.sub <> @sub AND r.session_id <> @keep`
	err = s.conn(ctx).Raw(`SELECT u.handle AS name, r.created_at FROM reset_codes`+code+` AND r.expires_at > @now
		UNION ALL SELECT u.handle, r.created_at FROM mailed_reset_codes`+code+` AND r.expires_at > @now
		UNION ALL SELECT u.handle, r.created_at FROM mail_outbox`+code+`
		UNION ALL SELECT domain, created_at FROM invites WHERE created_by = @sub AND session_id <> @keep
			AND `+acceptedRequest+` AND used_at = 0 AND expires_at > @now`,
		map[string]any{"sub": sub, "keep": keep, "now": toUnix(now)}).Find(&rows).Error
	for _, r := range rows {
		list = append(list, account.Given{Name: r.Name, At: fromUnix(r.CreatedAt)})
	}
	slices.SortFunc(list, func(a, b account.Given) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), b.At.Compare(a.At))
	})
	return slices.CompactFunc(list, func(a, b account.Given) bool { return a.Name == b.Name }), err
}
