package roster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
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
	// Name is that of the person or the setting. Of templates.ActOther it has those of at most maxNamed people, and
	// the number of the rest: "ada, bob, +7".
	Name string `json:"name"`
	// Detail is the permission, a lost one as account.ParseFlags reads it, the former value of the setting in JSON, or
	// the action.
	Detail string    `json:"detail"`
	At     time.Time `json:"created_at"`
	// Unjoined is set for an address of somebody who has no password yet: it counts without being verified.
	Unjoined bool `json:"-"`

	by    string    // handle of whoever did it
	row   int64     // id of its audit row, 0: it has none
	power bool      // who got it may have been an administrator afterwards
	until time.Time // when a permission would have ended before the act, zero: there was none
	rank  int       // see byPower
}

const maxRecentActs, maxNamed = 500, 5

// byPower are the kinds that RecentActs keeps first, after those about administrators.
var byPower = []string{templates.ActReset, templates.ActAddress, templates.ActLift, templates.ActSetting,
	templates.ActPermission, templates.ActAccount, templates.ActCode, templates.ActLoss, templates.ActSuspension}

// unlisted are the acts of administrators that RecentActs has no line for, and why. Every other one has.
var unlisted = map[string]string{
	account.CreateWideInvite.Action: "who came by it is listed, and it ends with the power",
	account.AcceptJoin.Action:       "its link is listed while it works, and who came by it",
	account.ImportUsers.Action:      "each account has a row of its own",
	account.InviteUser.Action:       "its link is listed while it works",
	account.UnlockUser.Action:       "nothing is lost or gained",
	account.CloseNextSteps.Action:   "nothing is lost or gained",
	account.TestMail.Action:         "nothing is lost or gained",
}

// errActsNamed means that what is named can be no act of the list.
var errActsNamed = web.NewProblem(409, "invalid_acts",
	"The list has changed since you opened it. Nothing was changed. Check it again.")

// RecentActs lists what users did as administrators, newest first, never nil: accounts that they added, invited or let
// in again, or for which a code set a password after they made it or changed the address, addresses that they changed
// and permissions that they gave, suspensions and losses of permissions, as far as these are still there, codes and
// links that still work, settings, and a line for each other action. What those did whom they made administrators or
// took over is listed too, whatever these are now. Of too many those stay that give most power.
func (a *Administration) RecentActs(ctx context.Context, users ...account.User) ([]RecentAct, error) {
	list, err := a.allActs(ctx, users)
	if len(list) > maxRecentActs {
		slices.SortStableFunc(list, func(a, b RecentAct) int { return cmp.Compare(a.rank, b.rank) })
		list = list[:maxRecentActs]
		slices.SortStableFunc(list, newestFirst)
	}
	return list, err
}

func newestFirst(a, b RecentAct) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.row, a.row)) }

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
	slices.SortStableFunc(list, newestFirst)
	list = grouped(list)
	for i, act := range list {
		list[i].rank = slices.Index(byPower, act.Kind)
		ofAdmin := act.ID != "" && people[act.Name].Has(account.FlagAdmin)
		if act.Kind == templates.ActPermission && act.power || ofAdmin ||
			act.Kind == templates.ActLoss && flagOf(act) == account.FlagAdmin {
			list[i].rank = -1
		}
	}
	return list, err
}

// grouped makes one line, in place of the last, of all that somebody did of one action.
func grouped(list []RecentAct) (out []RecentAct) {
	out = []RecentAct{}
	lines, names, known := map[string]int{}, map[string][]string{}, map[string]bool{}
	for _, act := range list {
		if act.Kind == templates.ActOther {
			line := act.by + " " + act.Detail
			if of := line + " " + act.Name; act.Name != "" && !known[of] {
				names[line], known[of] = append(names[line], act.Name), true
			}
			if _, has := lines[line]; has {
				continue
			}
			lines[line] = len(out)
		}
		out = append(out, act)
	}
	for line, i := range lines {
		some := names[line]
		if more := len(some) - maxNamed; more > 0 {
			some = append(some[:maxNamed], "+"+strconv.Itoa(more))
		}
		out[i].Name = strings.Join(some, ", ")
	}
	return out
}

// ofAdministrators reports whether only administrators do an action.
func ofAdministrators(action string) bool {
	switch action {
	case account.CreateWideInvite.Action, account.ExportUsers.Action, account.ExportAudit.Action:
		return true
	}
	return slices.ContainsFunc(account.Acts, func(act account.Act) bool {
		return act.Action == action && act.Proof == account.ProofAdministrator
	})
}

// didBy returns what a user did, whether it is there or not, and whether the user is an administrator or was one then.
func (a *Administration) didBy(
	ctx context.Context, u account.User,
) (list []RecentAct, administers bool, err error) {
	since := a.Now().Add(-account.Recently)
	administers = u.Has(account.FlagAdmin)
	err = a.EachAudit(ctx, account.AuditQuery{Person: u.Handle, From: since}, func(row account.Audit) error {
		if row.Actor != u.Handle || !ofAdministrators(row.Action) {
			return nil
		}
		administers = true
		if row.Target != u.Handle || strings.HasPrefix(row.Action, "settings.") { // which have it from no user
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
		list = append(list, RecentAct{ID: kind + ":" + row.Target, Kind: kind, Name: row.Target, At: row.At.UTC(),
			by: row.Actor, row: row.ID, power: power})
		return &list[len(list)-1]
	}
	other := func() {
		act := add(templates.ActOther, false)
		act.ID, act.Detail = "", row.Action
	}
	switch row.Action {
	case account.AddUser.Action:
		add(templates.ActAccount, slices.Contains(strings.Fields(row.Detail), "flag="+account.FlagAdmin))
	case account.Unsuspend.Action:
		add(templates.ActLift, true)
	case account.SetEnd.Action:
		if row.Former != "" {
			add(templates.ActLift, true)
		} else {
			other()
		}
	case account.Suspend.Action:
		add(templates.ActSuspension, false)
	case account.IssueResetCode.Action:
		add(templates.ActReset, true)
	case account.AmendUser.Action:
		if strings.Contains(row.Detail, "email") {
			add(templates.ActAddress, true)
			add(templates.ActReset, true)
		}
		ofEmail := func(member string) bool { return strings.HasPrefix(member, "email") }
		if len(slices.DeleteFunc(strings.Fields(row.Detail), ofEmail)) > 0 {
			other()
		}
	case account.SetFlags.Action:
		former, ends, _ := account.ParseFlags(strings.Fields(row.Former), time.UTC)
		for _, word := range strings.Fields(row.Detail) {
			flag, state, _ := strings.Cut(word, "=")
			until, had := ends[flag], slices.Contains(former, flag)
			switch {
			case strings.HasPrefix(state, "on") && (!until.IsZero() || !had):
				act := add(templates.ActPermission, flag == account.FlagAdmin)
				act.ID, act.Detail, act.until = act.ID+":"+flag, flag, until
			case state == "off" && had:
				act := add(templates.ActLoss, false)
				act.ID, act.Detail, act.until = act.ID+":"+flag, account.FlagWord(flag, until), until
			}
			if strings.HasPrefix(state, "on@") && had { // perhaps an earlier end
				other()
			}
		}
	case account.UpdateSettings.Action:
		var former map[string]json.RawMessage
		_ = json.Unmarshal([]byte(row.Former), &former) // rows of the version before have none
		for _, name := range slices.Sorted(maps.Keys(former)) {
			act := add(templates.ActSetting, false)
			act.ID, act.Name, act.Detail = "", name, string(former[name])
		}
	default:
		if unlisted[row.Action] == "" {
			other()
		}
	}
	return list
}

// undoable leaves out accounts that are suspended or gone, addresses that do not count or were chosen later,
// permissions that their holders have lost or that end as before, suspensions that are lifted, that others have made
// since or that a passed end outlives, losses of permissions that are had again, were given just before, or are none
// any more, and what is there twice, but for the first.
func (a *Administration) undoable(
	ctx context.Context, list []RecentAct, there map[string]account.User,
) ([]RecentAct, error) {
	settings, failed := a.Settings(ctx)
	seen, given := map[string]bool{}, map[string]bool{} // given: the first of the acts on a permission gave it
	slices.SortStableFunc(list, func(a, b RecentAct) int { return newestFirst(b, a) })
	list = slices.DeleteFunc(list, func(act RecentAct) bool {
		u, key := there[act.Name], cmp.Or(act.ID, act.Kind+":"+act.Name)
		gone, of := seen[key], act.Name+" "+flagOf(act)
		switch act.Kind {
		case templates.ActOther:
			return false
		case templates.ActSuspension:
			since := u.SuspendedAt.Sub(act.At)
			gone = gone || !u.Suspended() || since > time.Second || !u.EndsAt.IsZero() && !u.EndsAt.After(a.Now())
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
			if _, known := given[of]; !known {
				given[of] = act.until.IsZero()
			}
			ends := u.FlagEnds[act.Detail]
			longer := act.until.IsZero() || ends.IsZero() || ends.After(act.until)
			gone = gone || !u.Has(act.Detail) || !longer
		case templates.ActLoss:
			if _, known := given[of]; !known {
				given[of] = false
			}
			flag := flagOf(act)
			gone = gone || given[of] || u.Sub == "" || u.Has(flag) || !slices.Contains(settings.Flags, flag) ||
				account.CheckEnd(act.until, a.Now()) != nil
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
// away or given back, suspensions lifted. All of it is done or nothing. errActsNamed.
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
		case r.Kind == templates.ActSuspension:
			err = a.Unsuspend(ctx, by, of)
		case r.Kind == templates.ActLoss:
			back := account.FlagState{On: true, SetEnd: !r.until.IsZero(), EndsAt: r.until}
			_, err = a.SetFlags(ctx, by, of, account.FlagChange{flagOf(r): back})
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
			By: r.by, Unjoined: r.Unjoined})
	}
	return rows
}

// flagOf returns the permission that an act gave or took.
func flagOf(act RecentAct) string {
	flag, _, _ := strings.Cut(act.Detail, "@")
	return flag
}
