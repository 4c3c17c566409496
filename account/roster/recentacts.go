package roster

import (
	"cmp"
	"context"
	"encoding/json"
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
}

const maxRecentActs = 500 // newest first

var recentKinds = []account.Act{account.AddUser, account.Unsuspend, account.AmendUser, account.SetFlags,
	account.UpdateSettings, account.IssueResetCode}

// errActsNamed means that an act of the list is not there any more.
var errActsNamed = web.NewProblem(409, "invalid_acts",
	"The list has changed since you opened it. Nothing was changed. Check it again.")

// RecentActs lists what users did as administrators, newest first, never nil: accounts that they added, invited or let
// in again, or for which they made a code that was used, addresses that they verified and permissions that they gave,
// as far as these are still there, codes and links that still work, and settings. What administrators whom they made
// or took over did is listed too.
func (a *Administration) RecentActs(ctx context.Context, users ...account.User) ([]RecentAct, error) {
	list, codes := []RecentAct{}, []RecentAct{}
	for i, all := 0, users; i < len(all); i++ {
		did, err := a.didBy(ctx, all[i])
		if err != nil {
			return nil, err
		}
		list = append(list, did...)
		there, err := a.Store().UsersByHandle(ctx, namesOf(did))
		if err != nil {
			return nil, err
		}
		for _, u := range there {
			known := slices.ContainsFunc(all, func(o account.User) bool { return o.Sub == u.Sub })
			if u.Has(account.FlagAdmin) && !known {
				all = append(slices.Clip(all), u)
			}
		}
		if i >= len(users) {
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
	list, err := a.undoable(ctx, list)
	list = append(list, codes...)
	slices.SortStableFunc(list, func(a, b RecentAct) int { return b.At.Compare(a.At) })
	return list[:min(len(list), maxRecentActs)], err
}

// didBy returns what a user did, whether it is there or not.
func (a *Administration) didBy(ctx context.Context, u account.User) (list []RecentAct, err error) {
	since := a.Now().Add(-account.Recently)
	for _, act := range recentKinds {
		rows, err := a.AuditLog(ctx, account.AuditQuery{Person: u.Handle, Kind: act.Action, From: since,
			Limit: maxRecentActs})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if row.Actor == u.Handle && row.Target != u.Handle {
				list = append(list, actsOf(row)...)
			}
		}
	}
	joined, _, err := a.Store().Users(ctx, account.UserQuery{InvitedBy: u.Handle, Sort: account.SortNewest,
		Limit: maxRecentActs})
	for _, j := range joined {
		if j.CreatedAt.After(since) {
			added := account.Audit{Action: account.AddUser.Action, Target: j.Handle, At: j.CreatedAt}
			list = append(list, actsOf(added)...)
		}
	}
	return list, err
}

// namesOf returns the people of the acts, but for who got another permission than that of an administrator.
func namesOf(list []RecentAct) (names []string) {
	for _, act := range list {
		if act.ID != "" && (act.Kind != templates.ActPermission || act.Detail == account.FlagAdmin) {
			names = append(names, act.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func actsOf(row account.Audit) (list []RecentAct) {
	add := func(kind, name, detail string) {
		id := kind + ":" + name
		if kind == templates.ActPermission {
			id += ":" + detail
		} else if kind == templates.ActSetting {
			id = ""
		}
		list = append(list, RecentAct{id, kind, name, detail, row.At.UTC()})
	}
	switch row.Action {
	case account.AddUser.Action:
		add(templates.ActAccount, row.Target, "")
	case account.Unsuspend.Action:
		add(templates.ActLift, row.Target, "")
	case account.IssueResetCode.Action:
		add(templates.ActReset, row.Target, "")
	case account.AmendUser.Action:
		if strings.Contains(row.Detail, "email") {
			add(templates.ActAddress, row.Target, "")
		}
	case account.SetFlags.Action:
		for _, word := range strings.Fields(row.Detail) {
			flag, state, _ := strings.Cut(word, "=")
			if strings.HasPrefix(state, "on") && !slices.Contains(strings.Fields(row.Former), flag) {
				add(templates.ActPermission, row.Target, flag)
			}
		}
	case account.UpdateSettings.Action:
		var former map[string]json.RawMessage
		_ = json.Unmarshal([]byte(row.Former), &former) // rows of the version before have none
		for _, name := range slices.Sorted(maps.Keys(former)) {
			add(templates.ActSetting, name, string(former[name]))
		}
	}
	return list
}

// undoable leaves out accounts that are suspended or gone, addresses that are not verified or were chosen later,
// permissions that their holders have lost, and what is there twice.
func (a *Administration) undoable(ctx context.Context, list []RecentAct) ([]RecentAct, error) {
	there, names := map[string]account.User{}, []string(nil)
	for _, act := range list {
		names = append(names, act.Name)
	}
	slices.Sort(names)
	users, err := a.Store().UsersByHandle(ctx, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		there[u.Handle] = u
	}
	seen, failed := map[string]bool{}, error(nil)
	list = slices.DeleteFunc(list, func(act RecentAct) bool {
		u, twice := there[act.Name], seen[act.ID]
		seen[act.ID] = true
		switch act.Kind {
		case templates.ActAccount, templates.ActLift:
			return twice || u.Sub == "" || u.Suspended()
		case templates.ActReset:
			if twice || u.Sub == "" || u.Suspended() {
				return true
			}
			used, err := a.AuditLog(ctx, account.AuditQuery{Person: act.Name, Kind: account.ResetPassword.Action,
				From: act.At, Limit: 1})
			failed = cmp.Or(failed, err)
			return len(used) == 0
		case templates.ActAddress:
			return twice || !u.EmailVerified || u.EmailChangedAt.After(act.At)
		case templates.ActPermission:
			return twice || !u.Has(act.Detail)
		}
		return false
	})
	return list, failed
}

// Undoing does an act against users, and undoes these of their RecentActs, by id: accounts are suspended, addresses are
// no longer verified, permissions taken away. All of it is done or nothing. errActsNamed.
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
	list, err := a.RecentActs(ctx, users...)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(r RecentAct) bool { return r.ID == "" || !slices.Contains(ids, r.ID) })
	if len(list) != len(ids) {
		return errActsNamed
	}
	if err := act(a); err != nil {
		return err
	}
	for _, r := range list {
		of, err := a.User(ctx, r.Name)
		switch {
		case err != nil:
		case r.Kind == templates.ActAccount, r.Kind == templates.ActLift, r.Kind == templates.ActReset:
			err = a.Suspend(ctx, by, of, "", false)
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
		rows = append(rows, templates.ActRow{ID: r.ID, Kind: r.Kind, Name: r.Name, Detail: r.Detail, At: r.At})
	}
	return rows
}
