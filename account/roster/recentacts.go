package roster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// RecentAct is what an administrator did in the last seven days and somebody may want to undo with their power.
type RecentAct struct {
	ID   string `json:"id"`   // for Undoing; "" if there is nothing to undo
	Kind string `json:"kind"` // of templates.ActRow
	Name string `json:"name"` // of the person or the setting
	// Detail is the permission, or the former value of the setting in JSON.
	Detail string    `json:"detail"`
	At     time.Time `json:"created_at"`
	// Unjoined is set for an address of somebody who has no password yet: it counts without being verified.
	Unjoined bool `json:"-"`

	power bool      // who got it may have been an administrator afterwards
	until time.Time // when a permission would have ended before the act, zero: there was none
	rank  int       // see byPower
}

const maxRecentActs = 500

// byPower are the kinds that RecentActs keeps first, after those about administrators.
var byPower = []string{templates.ActReset, templates.ActAddress, templates.ActLift, templates.ActSetting,
	templates.ActPermission, templates.ActAccount, templates.ActCode}

// errActsNamed means that what is named can be no act of the list.
var errActsNamed = web.NewProblem(409, "invalid_acts",
	"The list has changed since you opened it. Nothing was changed. Check it again.")

// RecentActs lists what users did as administrators, newest first, never nil: accounts that they added, invited or let
// in again, or for which a code set a password after they made it or changed the address, addresses that they changed
// and permissions that they gave, as far as these are still there, codes and links that still work, and settings. What
// those did whom they made administrators or took over is listed too, whatever these are now. Of too many those stay
// that give most power.
func (a *Administration) RecentActs(ctx context.Context, users ...account.User) ([]RecentAct, error) {
	list, err := a.allActs(ctx, users)
	if len(list) > maxRecentActs {
		slices.SortStableFunc(list, func(a, b RecentAct) int { return cmp.Compare(a.rank, b.rank) })
		list = list[:maxRecentActs]
		slices.SortStableFunc(list, newestFirst)
	}
	return list, err
}

func newestFirst(a, b RecentAct) int { return b.At.Compare(a.At) }

// allActs is RecentActs of any number.
func (a *Administration) allActs(ctx context.Context, users []account.User) ([]RecentAct, error) {
	list, codes, people := []RecentAct{}, []RecentAct{}, map[string]account.User{}
	all, known := slices.Clone(users), map[string]bool{}
	for _, u := range users {
		known[u.Handle] = true
	}
	for i := 0; i < len(all); i++ {
		did, administers, err := a.didBy(ctx, all[i])
		if err != nil {
			return nil, err
		}
		list = append(list, did...)
		there, err := a.Store().UsersByHandle(ctx, namesOf(did))
		if err != nil {
			return nil, err
		}
		for _, u := range there {
			people[u.Handle] = u
		}
		for _, act := range did {
			u := people[act.Name]
			power := act.power || act.Kind == templates.ActAccount && u.Has(account.FlagAdmin)
			if power && !known[act.Name] {
				u.Handle, known[act.Name] = act.Name, true // who is gone has no more than this
				all = append(all, u)
			}
		}
		if i >= len(users) || !administers {
			continue
		}
		made, err := a.Store().MadeByOthers(ctx, all[i].Sub, "", a.Now())
		if err != nil {
			return nil, err
		}
		for _, g := range made.Given {
			codes = append(codes, RecentAct{Kind: templates.ActCode, Name: g.Name, At: g.At})
		}
	}
	list, err := a.undoable(ctx, list, people)
	list = append(list, codes...)
	for i, act := range list {
		list[i].rank = slices.Index(byPower, act.Kind)
		if act.Kind == templates.ActPermission && act.power || act.ID != "" && people[act.Name].Has(account.FlagAdmin) {
			list[i].rank = -1
		}
	}
	slices.SortStableFunc(list, newestFirst)
	return list, err
}

// didBy returns what a user did, whether it is there or not, and whether the user is an administrator or was one then.
func (a *Administration) didBy(
	ctx context.Context, u account.User,
) (list []RecentAct, administers bool, err error) {
	since := a.Now().Add(-account.Recently)
	administers = u.Has(account.FlagAdmin)
	err = a.EachAudit(ctx, account.AuditQuery{Person: u.Handle, From: since}, func(row account.Audit) error {
		if row.Actor != u.Handle {
			return nil
		}
		administers = administers || row.Action == account.CreateWideInvite.Action ||
			slices.ContainsFunc(account.Acts, func(act account.Act) bool {
				return act.Action == row.Action && act.Proof == account.ProofAdministrator
			})
		if row.Target != u.Handle || row.Action == account.UpdateSettings.Action { // which has its target from no user
			list = append(list, actsOf(row)...)
		}
		return nil
	})
	if err != nil || !administers {
		return nil, false, err
	}
	joined := account.UserQuery{InvitedBy: u.Handle, Sort: account.SortNewest}
	err = a.EachUser(ctx, joined, func(j account.User) error {
		if !j.CreatedAt.After(since) {
			return io.EOF
		}
		act := RecentAct{Kind: templates.ActAccount, Name: j.Handle, At: j.CreatedAt.UTC(), power: true}
		act.ID = act.Kind + ":" + act.Name
		list = append(list, act)
		return nil
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return list, true, err
}

// namesOf returns the people of the acts.
func namesOf(list []RecentAct) (names []string) {
	for _, act := range list {
		if act.ID != "" {
			names = append(names, act.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func actsOf(row account.Audit) (list []RecentAct) {
	add := func(kind string, power bool) *RecentAct {
		id := kind + ":" + row.Target
		list = append(list, RecentAct{ID: id, Kind: kind, Name: row.Target, At: row.At.UTC(), power: power})
		return &list[len(list)-1]
	}
	switch row.Action {
	case account.AddUser.Action:
		add(templates.ActAccount, slices.Contains(strings.Fields(row.Detail), "flag="+account.FlagAdmin))
	case account.Unsuspend.Action:
		add(templates.ActLift, true)
	case account.SetEnd.Action:
		if row.Former != "" {
			add(templates.ActLift, true)
		}
	case account.IssueResetCode.Action:
		add(templates.ActReset, true)
	case account.AmendUser.Action:
		if strings.Contains(row.Detail, "email") {
			add(templates.ActAddress, true)
			add(templates.ActReset, true)
		}
	case account.SetFlags.Action:
		former, ends, _ := account.ParseFlags(strings.Fields(row.Former), time.UTC)
		for _, word := range strings.Fields(row.Detail) {
			flag, state, _ := strings.Cut(word, "=")
			until := ends[flag]
			if strings.HasPrefix(state, "on") && (!until.IsZero() || !slices.Contains(former, flag)) {
				act := add(templates.ActPermission, flag == account.FlagAdmin)
				act.ID, act.Detail, act.until = act.ID+":"+flag, flag, until
			}
		}
	case account.UpdateSettings.Action:
		var former map[string]json.RawMessage
		_ = json.Unmarshal([]byte(row.Former), &former) // rows of the version before have none
		for _, name := range slices.Sorted(maps.Keys(former)) {
			act := add(templates.ActSetting, false)
			act.ID, act.Name, act.Detail = "", name, string(former[name])
		}
	}
	return list
}

// undoable leaves out accounts that are suspended or gone, addresses that do not count or were chosen later,
// permissions that their holders have lost or that end as before, and what is there twice, but for the first.
func (a *Administration) undoable(
	ctx context.Context, list []RecentAct, there map[string]account.User,
) ([]RecentAct, error) {
	seen, failed := map[string]bool{}, error(nil)
	slices.Reverse(list) // of one second the rows are newest first
	slices.SortStableFunc(list, func(a, b RecentAct) int { return a.At.Compare(b.At) })
	list = slices.DeleteFunc(list, func(act RecentAct) bool {
		u, key := there[act.Name], cmp.Or(act.ID, act.Kind+":"+act.Name)
		gone := seen[key]
		switch act.Kind {
		case templates.ActAccount, templates.ActLift:
			gone = gone || u.Sub == "" || u.Suspended()
		case templates.ActReset:
			if gone = gone || u.Sub == "" || u.Suspended(); !gone {
				used, err := a.AuditLog(ctx, account.AuditQuery{Person: act.Name, Kind: account.ResetPassword.Action,
					From: act.At, Limit: 1})
				failed, gone = cmp.Or(failed, err), len(used) == 0
			}
		case templates.ActAddress:
			counts := u.EmailVerified || u.PasswordHash == ""
			gone = gone || u.Email == "" || !counts || u.EmailChangedAt.After(act.At)
		case templates.ActPermission:
			ends := u.FlagEnds[act.Detail]
			longer := act.until.IsZero() || ends.IsZero() || ends.After(act.until)
			gone = gone || !u.Has(act.Detail) || !longer
		}
		seen[key] = seen[key] || !gone
		return gone
	})
	for i, act := range list {
		list[i].Unjoined = act.Kind == templates.ActAddress && there[act.Name].PasswordHash == ""
	}
	return list, failed
}

// Undoing does an act against users, and undoes these of their RecentActs, by id, as far as they are still there:
// accounts are suspended, addresses are no longer verified or, before a first password, removed, permissions taken
// away. All of it is done or nothing. errActsNamed.
func (a *Administration) Undoing(
	ctx context.Context, by account.Caller, ids []string, act func(*Administration) error, users ...account.User,
) error {
	if len(ids) == 0 {
		return act(a)
	}
	return a.AllOrNone(ctx, "undo acts", func(in account.Base) error {
		return (&Administration{in}).undo(ctx, by, ids, act, users)
	})
}

func (a *Administration) undo(
	ctx context.Context, by account.Caller, ids []string, act func(*Administration) error, users []account.User,
) error {
	for _, id := range ids {
		if kind, of, _ := strings.Cut(id, ":"); !slices.Contains(byPower, kind) || of == "" {
			return errActsNamed
		}
	}
	list, err := a.allActs(ctx, users)
	if err != nil {
		return err
	}
	if err := act(a); err != nil {
		return err
	}
	for _, r := range list {
		if !slices.Contains(ids, r.ID) {
			continue
		}
		of, err := a.User(ctx, r.Name)
		switch {
		case errors.Is(err, account.ErrUserNotFound): // the act has deleted them
			err = nil
		case err != nil:
		case r.Kind == templates.ActAccount, r.Kind == templates.ActLift, r.Kind == templates.ActReset:
			err = a.Suspend(ctx, by, of, "", false)
		case r.Unjoined:
			_, err = a.Amend(ctx, by, of, account.UserChange{"email": ""})
		case r.Kind == templates.ActAddress:
			_, err = a.Amend(ctx, by, of, account.UserChange{"email_verified": "false"})
		default:
			_, err = a.SetFlags(ctx, by, of, account.FlagChange{r.Detail: {}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ActRows returns the rows of RecentActs for pages.
func ActRows(list []RecentAct) (rows []templates.ActRow) {
	for _, r := range list {
		rows = append(rows, templates.ActRow{ID: r.ID, Kind: r.Kind, Name: r.Name, Detail: r.Detail, At: r.At,
			Unjoined: r.Unjoined})
	}
	return rows
}
