package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// MaxAtOnce is how many accounts one act changes at most, and how many people are added at once.
const MaxAtOnce = 500

// Problems of acts on many accounts.
var (
	// ErrInTheWay is what an Obstructed is.
	ErrInTheWay = web.NewProblem(409, "in_the_way", "Nothing was changed: this is not possible for the people below.")
	ErrNobody   = web.NewProblem(400, "nobody_selected", "Select at least one person.")
	ErrTooMany  = web.NewProblem(400, "too_many", "Select at most 500 people at once. Use a filter to shorten the "+
		"list.")

	errHasPassword = web.NewProblem(409, "has_password", "This person has already set up their sign-in.")
	errNoAddress   = web.NewProblem(409, "no_address", "There is no email address to send to.")
)

// ManyChange is one act on many accounts: SetFlags, SetEnd, Suspend or InviteUser.
type ManyChange struct {
	Act    account.Act
	Flags  account.FlagChange // of SetFlags
	Reason string             // of Suspend
	Tell   bool               // of Suspend: the reason is in the mail
	Ends   time.Time          // of SetEnd; zero: never
}

// Obstacle is a user to whom an act cannot be done, and the reason.
type Obstacle struct {
	User   account.User
	Reason error // a *web.Problem
}

// Plan is what an act on many accounts would do. It is done if there are no obstacles.
type Plan struct {
	Change    []account.User
	Same      []account.User // they are so already
	Obstacles []Obstacle
}

// Obstructed is the refusal of an act on many accounts, of which nothing was done. It is ErrInTheWay.
type Obstructed struct{ Plan Plan }

func (o *Obstructed) Error() string { return ErrInTheWay.Error() }
func (o *Obstructed) Unwrap() error { return ErrInTheWay }

// UsersOf finds users by their handles, in any order. Handles without a user are left out.
func (a *Administration) UsersOf(ctx context.Context, handles []string) ([]account.User, error) {
	var canonical []string
	for _, h := range handles {
		if c, err := account.CanonicalHandle(h); err == nil {
			canonical = append(canonical, c)
		}
	}
	slices.Sort(canonical)
	switch canonical = slices.Compact(canonical); {
	case len(canonical) == 0:
		return nil, ErrNobody
	case len(canonical) > MaxAtOnce:
		return nil, ErrTooMany
	}
	return a.Store().UsersByHandle(ctx, canonical)
}

// PlanMany returns what ChangeMany would do. ErrInvalidText, ErrMailOff and ErrUnknownFlag are about the act itself.
func (a *Administration) PlanMany(
	ctx context.Context, by account.Caller, users []account.User, c ManyChange,
) (Plan, error) {
	var p Plan
	settings, err := a.Settings(ctx)
	switch {
	case err != nil:
		return p, err
	case c.Act.Action == account.InviteUser.Action && !a.MailEnabled():
		return p, account.ErrMailOff
	case c.Act.Action == account.Suspend.Action:
		if _, err := account.CheckReason(c.Reason); err != nil {
			return p, err
		}
	case c.Act.Action == account.SetEnd.Action:
		if err := account.CheckEnd(c.Ends, a.Now()); err != nil {
			return p, err
		}
	case c.Act.Action == account.SetFlags.Action:
		if err := c.Flags.Check(a.Now()); err != nil {
			return p, err
		}
		for name, f := range c.Flags {
			if f.On && !slices.Contains(settings.Flags, name) {
				return p, account.ErrUnknownFlag
			}
		}
	}
	for _, u := range users {
		switch err := c.obstacle(by, u); {
		case err != nil:
			p.Obstacles = append(p.Obstacles, Obstacle{u, err})
		case c.same(u):
			p.Same = append(p.Same, u)
		default:
			p.Change = append(p.Change, u)
		}
	}
	return p, nil
}

// obstacle returns why the act cannot be done to a user, or nil.
func (c ManyChange) obstacle(by account.Caller, u account.User) error {
	switch c.Act.Action {
	case account.Suspend.Action, account.SetEnd.Action:
		if by.User.Sub == u.Sub {
			return account.ErrOwnAccount
		}
	case account.InviteUser.Action:
		switch {
		case u.Suspended():
			return account.ErrSuspended.With("This account is suspended.")
		case u.PasswordHash != "":
			return errHasPassword
		case u.Email == "":
			return errNoAddress
		}
	}
	return nil
}

// same reports whether the user already is as the act makes them.
func (c ManyChange) same(u account.User) bool {
	switch c.Act.Action {
	case account.Suspend.Action:
		return u.Suspended() && !u.Ended()
	case account.SetEnd.Action:
		return c.Ends.Equal(u.EndsAt) && !u.Ended()
	case account.SetFlags.Action:
		return !c.Flags.Alters(u)
	}
	return false
}

// ChangeMany does an act to many users, to all or to none, by the rules of the same act on one. It returns what was
// done. The error is an *Obstructed if somebody stands in the way.
func (a *Administration) ChangeMany(
	ctx context.Context, by account.Caller, users []account.User, c ManyChange,
) (Plan, error) {
	if err := a.Allow(by, c.Act); err != nil {
		return Plan{}, err
	}
	p, err := a.PlanMany(ctx, by, users, c)
	switch {
	case err != nil:
		return p, err
	case len(p.Obstacles) > 0:
		return p, &Obstructed{p}
	case len(p.Change) == 0:
		return p, nil
	}
	switch c.Act.Action {
	case account.Suspend.Action:
		err = a.suspend(ctx, by, p.Change, c.Reason, c.Tell)
	case account.SetEnd.Action:
		err = a.setEnd(ctx, by, p.Change, c.Ends)
	case account.SetFlags.Action:
		_, err = a.setFlags(ctx, by, p.Change, c.Flags)
	case account.InviteUser.Action:
		err = a.invite(ctx, by, p.Change)
	default:
		err = account.ErrUnknownAct
	}
	if errors.Is(err, account.ErrLastAdmin) {
		for _, u := range p.Change {
			if u.Has(account.FlagAdmin) {
				p.Obstacles = append(p.Obstacles, Obstacle{u, account.ErrLastAdmin})
			}
		}
		err = &Obstructed{p}
	}
	return p, err
}

// rows begins an act on the account of each user and returns their audit rows by sub. of returns the detail and the
// pairs for the mails.
func (a *Administration) rows(
	ctx context.Context, by account.Caller, act account.Act, users []account.User,
	of func(account.User) (detail string, data []string),
) (map[string]account.Audit, error) {
	rows := make(map[string]account.Audit, len(users))
	for _, u := range users {
		detail, data := of(u)
		row, err := a.Begin(ctx, by, act, u, detail, data...)
		if err != nil {
			return nil, err
		}
		rows[u.Sub] = row
	}
	return rows, nil
}

func (a *Administration) suspend(
	ctx context.Context, by account.Caller, users []account.User, reason string, tell bool,
) error {
	if err := a.Allow(by, account.Suspend); err != nil {
		return err
	}
	for _, u := range users {
		if err := (ManyChange{Act: account.Suspend}).obstacle(by, u); err != nil {
			return err
		}
	}
	reason, err := account.CheckReason(reason)
	if err != nil {
		return err
	}
	told := ""
	if tell {
		told = reason
	}
	rows, err := a.rows(ctx, by, account.Suspend, users, func(account.User) (string, []string) {
		return reason, []string{"reason", told}
	})
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_suspended", a.Store().SuspendAll(ctx, reason, a.Now(), rows))
}

func (a *Administration) setEnd(ctx context.Context, by account.Caller, users []account.User, ends time.Time) error {
	if err := a.Allow(by, account.SetEnd); err != nil {
		return err
	}
	change := ManyChange{Act: account.SetEnd, Ends: ends}
	for _, u := range users {
		if err := change.obstacle(by, u); err != nil {
			return err
		}
	}
	if err := account.CheckEnd(ends, a.Now()); err != nil {
		return err
	}
	detail, until := "never", "0"
	if !ends.IsZero() {
		detail, until = ends.UTC().Format(time.RFC3339), strconv.FormatInt(ends.Unix(), 10)
	}
	rows, err := a.rows(ctx, by, account.SetEnd, users, func(account.User) (string, []string) {
		return detail, []string{"ends", until}
	})
	if err == nil {
		err = a.tellOfAdministrators(ctx, by, users, rows, func(u account.User) bool {
			return u.Ended() && u.Has(account.FlagAdmin)
		})
	}
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_end", a.Store().SetEndOfAll(ctx, ends, a.Now(), rows))
}

func (a *Administration) setFlags(
	ctx context.Context, by account.Caller, users []account.User, flags account.FlagChange,
) (map[string][]string, error) {
	if err := a.Allow(by, account.SetFlags); err != nil {
		return nil, err
	}
	settings, err := a.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if err := flags.Check(a.Now()); err != nil {
		return nil, err
	}
	names, words := slices.Sorted(maps.Keys(flags)), []string(nil)
	for _, name := range names {
		f := flags[name]
		for _, u := range users {
			if !slices.Contains(settings.Flags, name) && (f.On || !u.Has(name)) {
				return nil, account.ErrUnknownFlag
			}
		}
		word := word(f, name)
		if f.On && f.SetEnd && !f.EndsAt.IsZero() {
			word += "@" + f.EndsAt.UTC().Format(time.RFC3339)
		}
		words = append(words, word)
	}
	rows, err := a.rows(ctx, by, account.SetFlags, users, func(u account.User) (string, []string) {
		var changed, ends []string
		for _, name := range names {
			f := flags[name]
			if f.On != u.Has(name) {
				changed = append(changed, word(f, name))
			}
			if f.On && f.SetEnd && !f.EndsAt.Equal(u.FlagEnds[name]) {
				ends = append(ends, fmt.Sprintf("%s:%d", name, max(0, f.EndsAt.Unix())))
			}
		}
		return strings.Join(words, " "), []string{"flags", strings.Join(changed, " "), "ends", strings.Join(ends, " ")}
	})
	if err == nil && flags[account.FlagAdmin].On {
		err = a.tellOfAdministrators(ctx, by, users, rows, func(u account.User) bool {
			return !u.Has(account.FlagAdmin)
		})
	}
	if err != nil || len(names) == 0 {
		return nil, err
	}
	for _, u := range users {
		rows[u.Sub] = rows[u.Sub].Keeping(account.Keep{Sessions: !settings.SignOutOnFlagLoss})
	}
	after, err := a.Store().SetFlagsOfAll(ctx, flags, a.Now(), rows)
	return after, web.Noted(ctx, "user_flags", err)
}

// tellOfAdministrators adds the mails about those users who become administrators to their rows.
func (a *Administration) tellOfAdministrators(
	ctx context.Context, by account.Caller, users []account.User, rows map[string]account.Audit,
	becomes func(account.User) bool,
) error {
	for _, u := range users {
		if !becomes(u) {
			continue
		}
		told, err := a.NewAdministrator(ctx, by.Name, u)
		if err != nil {
			return err
		}
		rows[u.Sub] = rows[u.Sub].With(told...)
	}
	return nil
}

// word is the state of a flag in an audit row.
func word(f account.FlagState, name string) string {
	if f.On {
		return name + "=on"
	}
	return name + "=off"
}

// invite mails each user the link to choose a password, as to those who are added.
func (a *Administration) invite(ctx context.Context, by account.Caller, users []account.User) error {
	rows, err := a.rows(ctx, by, account.InviteUser, users, func(account.User) (string, []string) { return "", nil })
	if err != nil {
		return err
	}
	var all []account.Audit
	for _, u := range users {
		all = append(all, rows[u.Sub].With(a.welcome(ctx, by, u)))
	}
	return web.Noted(ctx, "users_invited", a.Store().RecordAll(ctx, all))
}
