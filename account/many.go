package account

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web"
)

// MaxAtOnce is how many accounts one act changes at most, and how many people are added at once.
const MaxAtOnce = 500

// Problems of acts on many accounts.
var (
	// ErrInTheWay is what an Obstructed is.
	ErrInTheWay = web.NewProblem(409, "in_the_way", "Nothing was changed: the people listed below stand in the way.")
	ErrNobody   = web.NewProblem(400, "nobody_selected", "Nobody is selected.")
	ErrTooMany  = web.NewProblem(400, "too_many", "At most 500 people at once: a filter makes the list shorter.")

	errHasPassword = web.NewProblem(409, "has_password", "This person has already chosen how to sign in.")
	errNoAddress   = web.NewProblem(409, "no_address", "There is no email address to write to.")
)

// ManyChange is one act on many accounts: SetFlags, SetEnd, Suspend or InviteUser.
type ManyChange struct {
	Act    Act
	Flags  FlagChange // of SetFlags
	Reason string     // of Suspend
	Tell   bool       // of Suspend: the reason is in the mail
	Ends   time.Time  // of SetEnd; zero: never
}

// Obstacle is a user to whom an act cannot be done, and the reason.
type Obstacle struct {
	User   User
	Reason error // a *web.Problem
}

// Plan is what an act on many accounts would do. It is done if there are no obstacles.
type Plan struct {
	Change    []User
	Same      []User // they are so already
	Obstacles []Obstacle
}

// Obstructed is the refusal of an act on many accounts, of which nothing was done. It is ErrInTheWay.
type Obstructed struct{ Plan Plan }

func (o *Obstructed) Error() string { return ErrInTheWay.Error() }
func (o *Obstructed) Unwrap() error { return ErrInTheWay }

// UsersOf finds users by their handles, in any order. Handles without a user are left out.
func (a *Administration) UsersOf(ctx context.Context, handles []string) ([]User, error) {
	var canonical []string
	for _, h := range handles {
		if c, err := CanonicalHandle(h); err == nil {
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
	return a.store.UsersByHandle(ctx, canonical)
}

// PlanMany returns what ChangeMany would do. ErrInvalidText, ErrMailOff and ErrUnknownFlag are about the act itself.
func (a *Administration) PlanMany(ctx context.Context, by Caller, users []User, c ManyChange) (Plan, error) {
	var p Plan
	settings, err := a.Settings(ctx)
	switch {
	case err != nil:
		return p, err
	case c.Act.Action == InviteUser.Action && !a.mail:
		return p, ErrMailOff
	case c.Act.Action == Suspend.Action:
		if _, err := CheckReason(c.Reason); err != nil {
			return p, err
		}
	case c.Act.Action == SetEnd.Action:
		if err := checkEnd(c.Ends, a.Now()); err != nil {
			return p, err
		}
	case c.Act.Action == SetFlags.Action:
		if err := c.Flags.Check(a.Now()); err != nil {
			return p, err
		}
		for name, f := range c.Flags {
			if f.On && !slices.Contains(settings.Flags, name) {
				return p, ErrUnknownFlag
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
func (c ManyChange) obstacle(by Caller, u User) error {
	switch c.Act.Action {
	case Suspend.Action, SetEnd.Action:
		if by.User.Sub == u.Sub {
			return ErrOwnAccount
		}
	case InviteUser.Action:
		switch {
		case u.Suspended():
			return ErrSuspended.With("This account is suspended.")
		case u.PasswordHash != "":
			return errHasPassword
		case u.Email == "":
			return errNoAddress
		}
	}
	return nil
}

// same reports whether the user already is as the act makes them.
func (c ManyChange) same(u User) bool {
	switch c.Act.Action {
	case Suspend.Action:
		return u.Suspended() && !u.Ended()
	case SetEnd.Action:
		return c.Ends.Equal(u.EndsAt) && !u.Ended()
	case SetFlags.Action:
		return !c.Flags.Alters(u)
	}
	return false
}

// ChangeMany does an act to many users, to all or to none, by the rules of the same act on one. It returns what was
// done. The error is an *Obstructed if somebody stands in the way.
func (a *Administration) ChangeMany(ctx context.Context, by Caller, users []User, c ManyChange) (Plan, error) {
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
	case Suspend.Action:
		err = a.suspend(ctx, by, p.Change, c.Reason, c.Tell)
	case SetEnd.Action:
		err = a.setEnd(ctx, by, p.Change, c.Ends)
	case SetFlags.Action:
		_, err = a.setFlags(ctx, by, p.Change, c.Flags)
	case InviteUser.Action:
		err = a.invite(ctx, by, p.Change)
	default:
		err = errUnknownAct
	}
	if errors.Is(err, ErrLastAdmin) {
		for _, u := range p.Change {
			if u.Has(FlagAdmin) {
				p.Obstacles = append(p.Obstacles, Obstacle{u, ErrLastAdmin})
			}
		}
		err = &Obstructed{p}
	}
	return p, err
}

// rows begins an act on the account of each user and returns their audit rows by sub. of returns the detail and the
// pairs for the mails.
func (a *Administration) rows(
	ctx context.Context, by Caller, act Act, users []User, of func(User) (detail string, data []string),
) (map[string]Audit, error) {
	rows := make(map[string]Audit, len(users))
	for _, u := range users {
		detail, data := of(u)
		row, err := a.begin(ctx, by, act, u, detail, data...)
		if err != nil {
			return nil, err
		}
		rows[u.Sub] = row
	}
	return rows, nil
}

func (a *Administration) suspend(ctx context.Context, by Caller, users []User, reason string, tell bool) error {
	if err := a.Allow(by, Suspend); err != nil {
		return err
	}
	for _, u := range users {
		if err := (ManyChange{Act: Suspend}).obstacle(by, u); err != nil {
			return err
		}
	}
	reason, err := CheckReason(reason)
	if err != nil {
		return err
	}
	told := ""
	if tell {
		told = reason
	}
	rows, err := a.rows(ctx, by, Suspend, users, func(User) (string, []string) { return reason, []string{"reason", told} })
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_suspended", a.store.SuspendAll(ctx, reason, a.Now(), rows))
}

func (a *Administration) setEnd(ctx context.Context, by Caller, users []User, ends time.Time) error {
	if err := a.Allow(by, SetEnd); err != nil {
		return err
	}
	change := ManyChange{Act: SetEnd, Ends: ends}
	for _, u := range users {
		if err := change.obstacle(by, u); err != nil {
			return err
		}
	}
	if err := checkEnd(ends, a.Now()); err != nil {
		return err
	}
	detail, until := "never", "0"
	if !ends.IsZero() {
		detail, until = ends.UTC().Format(time.RFC3339), strconv.FormatInt(ends.Unix(), 10)
	}
	rows, err := a.rows(ctx, by, SetEnd, users, func(User) (string, []string) { return detail, []string{"ends", until} })
	if err != nil {
		return err
	}
	return web.Noted(ctx, "user_end", a.store.SetEndOfAll(ctx, ends, a.Now(), rows))
}

func (a *Administration) setFlags(
	ctx context.Context, by Caller, users []User, flags FlagChange,
) (map[string][]string, error) {
	if err := a.Allow(by, SetFlags); err != nil {
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
				return nil, ErrUnknownFlag
			}
		}
		word := f.word(name)
		if f.On && f.SetEnd && !f.EndsAt.IsZero() {
			word += "@" + f.EndsAt.UTC().Format(time.RFC3339)
		}
		words = append(words, word)
	}
	rows, err := a.rows(ctx, by, SetFlags, users, func(u User) (string, []string) {
		var changed, ends []string
		for _, name := range names {
			f := flags[name]
			if f.On != u.Has(name) {
				changed = append(changed, f.word(name))
			}
			if f.On && f.SetEnd && !f.EndsAt.Equal(u.FlagEnds[name]) {
				ends = append(ends, fmt.Sprintf("%s:%d", name, max(0, f.EndsAt.Unix())))
			}
		}
		return strings.Join(words, " "), []string{"flags", strings.Join(changed, " "), "ends", strings.Join(ends, " ")}
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	for _, u := range users {
		rows[u.Sub] = rows[u.Sub].keeping(Keep{Sessions: !settings.SignOutOnFlagLoss})
	}
	after, err := a.store.SetFlagsOfAll(ctx, flags, a.Now(), rows)
	return after, web.Noted(ctx, "user_flags", err)
}

// word is the state of a flag in an audit row.
func (f FlagState) word(name string) string {
	if f.On {
		return name + "=on"
	}
	return name + "=off"
}

// invite mails each user the link to choose a password, as to those who are added.
func (a *Administration) invite(ctx context.Context, by Caller, users []User) error {
	rows, err := a.rows(ctx, by, InviteUser, users, func(User) (string, []string) { return "", nil })
	if err != nil {
		return err
	}
	var all []Audit
	for _, u := range users {
		all = append(all, rows[u.Sub].with(a.welcome(ctx, by, u)))
	}
	return web.Noted(ctx, "users_invited", a.store.RecordAll(ctx, all))
}
