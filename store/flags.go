package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

type flagRow struct {
	Sub, Flag string
	EndsAt    int64
	EndTold   int
	EndDone   int
}

// flagRows returns the rows of a new user.
func flagRows(u account.User) []flagRow {
	return each(u.Flags, func(f string) flagRow {
		ends := u.FlagEnds[f]
		return flagRow{Sub: u.Sub, Flag: f, EndsAt: toUnix(ends), EndTold: account.EndTold(ends, u.CreatedAt)}
	})
}

// addFlags adds flags, or changes their ends.
func addFlags(tx *engine.Tx, rows []flagRow) {
	if len(rows) == 0 {
		return
	}
	key := []clause.Column{{Name: "sub"}, {Name: "flag"}}
	replace := clause.OnConflict{
		Columns: key, DoUpdates: clause.AssignmentColumns([]string{"ends_at", "end_told", "end_done"}),
	}
	tx.Ran(tx.Table("user_flags").Clauses(replace).CreateInBatches(&rows, bulkRows))
}

// SetFlagsOfAll implements account.Store.
func (s *Store) SetFlagsOfAll(
	ctx context.Context, change account.FlagChange, now time.Time, rows map[string]account.Audit,
) (after map[string][]string, err error) {
	err = s.changeAccessOf(ctx, "set flags", rows, func(tx *engine.Tx, users []account.User) {
		var out map[string]ended
		out, after = setFlagsOf(tx, users, change, now, rows[users[0].Sub])
		insertAudits(tx, each(users, func(u account.User) account.Audit {
			row := out[u.Sub].noted(rows[u.Sub])
			row.Former = strings.Join(u.FlagWords(), " ")
			if !change.Alters(u) { // somebody was faster
				row.Mails = nil
			}
			return row
		}))
	})
	if err != nil {
		return nil, err
	}
	return after, nil
}

// setFlagsOf is SetFlagsOfAll of users who were read in changeAccessOf, without audit rows.
func setFlagsOf(
	tx *engine.Tx, users []account.User, change account.FlagChange, now time.Time, a account.Audit,
) (_ map[string]ended, after map[string][]string) {
	var set []flagRow
	var removed []string               // flags that somebody loses
	var losers, changed []account.User // changed: their FlagAdmin goes or gets an end
	var appointed []account.User
	after = map[string][]string{}
	for _, u := range users {
		has, loses := slices.Clone(u.Flags), false
		for _, name := range keysOf(change) {
			switch c := change[name]; {
			case !c.On && u.Has(name):
				removed, loses = append(removed, name), true
				has = slices.DeleteFunc(has, func(f string) bool { return f == name })
			case c.On && (!u.Has(name) || c.SetEnd && !c.EndsAt.Equal(u.FlagEnds[name])):
				told := account.EndTold(c.EndsAt, now)
				set = append(set, flagRow{Sub: u.Sub, Flag: name, EndsAt: toUnix(c.EndsAt), EndTold: told})
				if !u.Has(name) {
					has = append(has, name)
				}
				if !u.Has(name) && name == account.FlagAdmin {
					appointed = append(appointed, u)
				}
			}
		}
		slices.Sort(has)
		if after[u.Sub] = has; loses {
			losers = append(losers, u)
		}
		if c, named := change[account.FlagAdmin]; named && u.Has(account.FlagAdmin) && (!c.On || !c.EndsAt.IsZero()) {
			changed = append(changed, u)
		}
	}
	keepAdministrator(tx, a, !change[account.FlagAdmin].On, changed...)
	addFlags(tx, set)
	if len(appointed) > 0 { // who were administrators until an end
		closeAdminInvites(tx, appointed, now)
	}
	slices.Sort(removed)
	removed = slices.Compact(removed)
	tx.Exec("UPDATE users SET updated_at = ? WHERE sub IN ?", toUnix(now), subsOf(users))
	if len(losers) > 0 {
		tx.Exec("DELETE FROM user_flags WHERE sub IN ? AND flag IN ?", subsOf(losers), removed)
	}
	// Also of those whose new flag demands a second factor.
	tokens := revokeUnfit(tx, now, "g.sub IN @subs", map[string]any{"subs": subsOf(users)})
	if len(losers) == 0 {
		revoke(tx, tokens)
		return nil, after
	}
	return endWithFlags(tx, losers, removed, a, now, tokens...), after
}
