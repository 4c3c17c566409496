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
	// errInTheWay is what an Obstructed is.
	errInTheWay = web.NewProblem(409, "in_the_way", "Nothing was changed: this is not possible for the people below.")
	ErrNobody   = web.NewProblem(400, "nobody_selected", "Select at least one person.")
	ErrTooMany  = web.NewProblem(400, "too_many", "Select at most 500 people at once. Use a filter to shorten the "+
		"list.")

	errHasPassword = web.NewProblem(409, "has_password", "This person has already set up their sign-in.")
	errNoAddress   = web.NewProblem(409, "no_address", "There is no email address to send to.")
)

// Change is one act on accounts, on one or many: see Suspending, EndingAt, Flagging and Inviting.
type Change struct {
	act      account.Act
	event    string                                        // of the log
	wrong    error                                         // with the act itself
	obstacle func(by account.Caller, u account.User) error // why the act cannot be done to a user, or nil
	same     func(account.User) bool                       // the user already is as the act makes them
	promotes func(account.User) bool                       // the act makes the user an administrator; nil: none
	demotes  func(account.User) bool                       // the act may be against an administrator; nil: none
	row      func(account.User) (detail string, data []string)
	store    storing
	after    map[string][]string // of Flagging: the flags that are on, by sub
}

// storing does an act to users in a store, which may be one transaction with more: see Undoing.
type storing func(
	ctx context.Context, in account.Store, by account.Caller, users []account.User, rows map[string]account.Audit,
) error

// obstacle is a user to whom an act cannot be done, and the reason.
type obstacle struct {
	User   account.User
	Reason error // a *web.Problem
}

// Plan is what an act on many accounts would do. It is done if there are no obstacles.
type Plan struct {
	Change    []account.User
	Same      []account.User // they are so already
	Obstacles []obstacle
	Fallen    []account.User // those of Change, but by, who may have done something as administrators to be undone
}

// Obstructed is the refusal of an act on many accounts, of which nothing was done. It is errInTheWay.
type Obstructed struct{ Plan Plan }

func (o *Obstructed) Error() string { return errInTheWay.Error() }
func (o *Obstructed) Unwrap() error { return errInTheWay }

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

// Plan returns what ChangeMany would do. The error is about the act itself.
func (c Change) Plan(by account.Caller, users []account.User) (p Plan, err error) {
	if c.wrong != nil {
		return p, c.wrong
	}
	for _, u := range users {
		switch err := c.obstacle(by, u); {
		case err != nil:
			p.Obstacles = append(p.Obstacles, obstacle{u, err})
		case c.same(u):
			p.Same = append(p.Same, u)
		default:
			p.Change = append(p.Change, u)
			if c.demotes != nil && c.demotes(u) && u.Sub != by.User.Sub {
				p.Fallen = append(p.Fallen, u)
			}
		}
	}
	return p, nil
}

// ChangeMany does an act to many users, to all or to none, by the rules of the same act on one. It returns what was
// done. The error is an *Obstructed if somebody stands in the way.
func (a *Administration) ChangeMany(
	ctx context.Context, by account.Caller, users []account.User, c Change,
) (Plan, error) {
	if err := a.Allow(by, c.act); err != nil {
		return Plan{}, err
	}
	p, err := c.Plan(by, users)
	switch {
	case err != nil:
		return p, err
	case len(p.Obstacles) > 0:
		return p, &Obstructed{p}
	case len(p.Change) == 0:
		return p, nil
	}
	err = a.change(ctx, by, c, p.Change...)
	if errors.Is(err, account.ErrLastAdmin) {
		for _, u := range p.Change {
			if u.Has(account.FlagAdmin) {
				p.Obstacles = append(p.Obstacles, obstacle{u, account.ErrLastAdmin})
			}
		}
		err = &Obstructed{p}
	}
	return p, err
}

// change does an act to users, to all or to none. The other administrators are told of those whom it makes one.
func (a *Administration) change(ctx context.Context, by account.Caller, c Change, users ...account.User) error {
	if err := a.Allow(by, c.act); err != nil {
		return err
	}
	for _, u := range users {
		if err := c.obstacle(by, u); err != nil {
			return err
		}
	}
	if c.wrong != nil {
		return c.wrong
	}
	rows := make(map[string]account.Audit, len(users))
	for _, u := range users {
		detail, data := c.row(u)
		row, err := a.Begin(ctx, by, c.act, u, detail, data...)
		if err == nil && c.promotes != nil && c.promotes(u) {
			var told []account.Mail
			told, err = a.NewAdministrator(ctx, by.Name, u)
			row = row.With(told...)
		}
		if err != nil {
			return err
		}
		rows[u.Sub] = row
	}
	return web.Noted(ctx, c.event, c.store(ctx, a.Store(), by, users, rows))
}

func ownAccount(by account.Caller, u account.User) error {
	if by.User.Sub == u.Sub {
		return account.ErrOwnAccount
	}
	return nil
}

// Suspending locks users out at once. The audit log has the reason, and the mail to the user too if tell is set.
// ErrOwnAccount, ErrLastAdmin, ErrInvalidText.
func (a *Administration) Suspending(reason string, tell bool) Change {
	reason, err := account.CheckReason(reason)
	told := ""
	if tell {
		told = reason
	}
	return Change{
		act: account.Suspend, event: "user_suspended", wrong: err, obstacle: ownAccount,
		same:    func(u account.User) bool { return u.Suspended() && !u.Ended() },
		demotes: func(account.User) bool { return true }, // of power that may have ended, too
		row:     func(account.User) (string, []string) { return reason, []string{"reason", told} },
		store: func(
			ctx context.Context, in account.Store, _ account.Caller, _ []account.User, rows map[string]account.Audit,
		) error {
			return in.SuspendAll(ctx, reason, a.Now(), rows)
		},
	}
}

// EndingAt sets when accounts end by themselves; zero: never. An account that has ended can be used again; what the
// end ended does not come back. ErrEndPast, ErrOwnAccount, ErrLastAdmin.
func (a *Administration) EndingAt(ends time.Time) Change {
	detail, until := "never", "0"
	if !ends.IsZero() {
		detail, until = ends.UTC().Format(time.RFC3339), strconv.FormatInt(ends.Unix(), 10)
	}
	return Change{
		act: account.SetEnd, event: "user_end", wrong: account.CheckEnd(ends, a.Now()), obstacle: ownAccount,
		same:     func(u account.User) bool { return ends.Equal(u.EndsAt) },
		promotes: func(u account.User) bool { return u.Ended() && u.Has(account.FlagAdmin) },
		row:      func(account.User) (string, []string) { return detail, []string{"ends", until} },
		store: func(
			ctx context.Context, in account.Store, _ account.Caller, _ []account.User, rows map[string]account.Audit,
		) error {
			return in.SetEndOfAll(ctx, ends, a.Now(), rows)
		},
	}
}

// Flagging changes the named access flags and their ends. A flag that is no longer in the settings can still be turned
// off. ErrUnknownFlag, ErrLastAdmin, ErrEndPast.
func (a *Administration) Flagging(ctx context.Context, flags account.FlagChange) Change {
	settings, err := a.Settings(ctx)
	if err == nil {
		err = flags.Check(a.Now())
	}
	names, words, lost := slices.Sorted(maps.Keys(flags)), []string(nil), []string(nil)
	for _, name := range names {
		f := flags[name]
		if !slices.Contains(settings.Flags, name) {
			lost = append(lost, name)
			if f.On && err == nil {
				err = account.ErrUnknownFlag
			}
		}
		word := word(f, name)
		if f.SetEnd {
			word = account.FlagWord(word, f.EndsAt)
		}
		words = append(words, word)
	}
	after := map[string][]string{}
	return Change{
		act: account.SetFlags, event: "user_flags", wrong: err, after: after,
		obstacle: func(account.Caller, account.User) error { return nil },
		same:     func(u account.User) bool { return !flags.Alters(u) },
		promotes: func(u account.User) bool { return flags[account.FlagAdmin].On && !u.Has(account.FlagAdmin) },
		demotes: func(u account.User) bool {
			f, named := flags[account.FlagAdmin]
			return named && !f.On && u.Has(account.FlagAdmin)
		},
		row: func(u account.User) (string, []string) {
			var changed, ends []string
			for _, name := range names {
				f := flags[name]
				if f.On != u.Has(name) {
					changed = append(changed, word(f, name))
				}
				if f.SetEnd && !f.EndsAt.Equal(u.FlagEnds[name]) {
					ends = append(ends, fmt.Sprintf("%s:%d", name, max(0, f.EndsAt.Unix())))
				}
			}
			data := []string{"flags", strings.Join(changed, " "), "ends", strings.Join(ends, " ")}
			return strings.Join(words, " "), data
		},
		store: func(
			ctx context.Context, in account.Store, _ account.Caller, users []account.User,
			rows map[string]account.Audit,
		) error {
			for _, u := range users {
				if slices.ContainsFunc(lost, func(name string) bool { return !u.Has(name) }) {
					return account.ErrUnknownFlag
				}
				rows[u.Sub] = rows[u.Sub].Keeping(account.Keep{Sessions: !settings.SignOutOnFlagLoss})
			}
			on, err := in.SetFlagsOfAll(ctx, flags, a.Now(), rows)
			maps.Copy(after, on)
			return err
		},
	}
}

// word is the state of a flag in an audit row.
func word(f account.FlagState, name string) string {
	if f.On {
		return name + "=on"
	}
	return name + "=off"
}

// Inviting mails users the link to choose a password, as to those who are added.
func (a *Administration) Inviting() Change {
	c := Change{
		act: account.InviteUser, event: "users_invited",
		obstacle: func(_ account.Caller, u account.User) error {
			switch {
			case u.Suspended():
				return account.ErrSuspended.With("This account is suspended.")
			case u.PasswordHash != "":
				return errHasPassword
			case u.Email == "":
				return errNoAddress
			}
			return nil
		},
		same: func(account.User) bool { return false },
		row:  func(account.User) (string, []string) { return "", nil },
		store: func(
			ctx context.Context, in account.Store, by account.Caller, users []account.User,
			rows map[string]account.Audit,
		) error {
			var all []account.Audit
			for _, u := range users {
				all = append(all, rows[u.Sub].With(a.welcome(ctx, by, u)))
			}
			return in.RecordAll(ctx, all)
		},
	}
	if !a.MailEnabled() {
		c.wrong = account.ErrMailOff
	}
	return c
}
