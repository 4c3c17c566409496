package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type registration interface {
	provider.Client | provider.API | provider.Allowance
}

// about is what all kinds of registrations have.
type about struct {
	id, name string
	managed  bool
	secrets  *[]provider.ClientSecret // or nil
}

// kind is a kind of registration: what its commands and apply need to know of it, and what the store does.
type kind[T registration] struct {
	noun, member string // member of its document identifies it
	removal      string // what else a removal removes
	none         error
	of           func(*T) about
	flag         func(member string) string // that sets it
	fields       func(*T) []field           // as a file for apply has them
	print        func(p *cli.Program, o cli.Output, v *T, secret string) error
	check        func(*T) error

	target                           string // before its id, in the audit log
	added, updated, renewed, removed account.Act
	all                              func(*store.Store, context.Context) ([]*T, error)
	create, update                   func(*store.Store, context.Context, *T, account.Audit) error
	remove                           func(*store.Store, context.Context, string, account.Audit) error
	// rotate adds a secret, beside which those before work until a time; with end, one that was to end earlier ends.
	rotate func(*store.Store, context.Context, string, provider.ClientSecret, time.Time, bool, account.Audit) error
}

// audit returns an entry of the audit log. No handle is written as its target, which an id may equal: people see the
// rows about themselves.
func (k kind[T]) audit(act account.Act, id string) account.Audit {
	return cli.Operator(act, k.target+id, "")
}

// in returns the registration of a list, or nil.
func (k kind[T]) in(all []*T, id string) *T {
	for _, v := range all {
		if k.of(v).id == id {
			return v
		}
	}
	return nil
}

// change writes a registration, which may be new, unless it was changed meanwhile: it asks before entries of lists go,
// and an answer takes its time.
func (k kind[T]) change(p *cli.Program, st *store.Store, yes bool, before, after *T, replaced []replacement) error {
	if err := k.check(after); err != nil {
		return err
	}
	if err := confirmReplacements(p, yes || before == nil, replaced...); err != nil {
		return err
	}
	id := k.of(after).id
	return st.Together(p.Ctx, "update "+k.noun, func(tx *store.Store) error {
		all, err := k.all(tx, p.Ctx)
		now := k.in(all, id)
		switch {
		case err != nil:
			return err
		case (now == nil) != (before == nil) || now != nil && len(provider.Changes(before, now)) > 0:
			const format = "the %s %s was changed meanwhile, and nothing was changed now: look at it again"
			return fmt.Errorf(format, k.noun, id)
		}
		return k.update(tx, p.Ctx, after, k.audit(k.updated, id))
	})
}

// renew gives a registration a new secret, beside which the ones before work for a while.
func (k kind[T]) renew(p *cli.Program, st *store.Store, id string, overlap cli.Period, end bool) (string, error) {
	if time.Duration(overlap) > provider.MaxSecretOverlap {
		return "", cli.UsageError("--overlap: at most 30d")
	}
	secret, s := provider.NewSecret(time.Now())
	return secret, k.rotate(st, p.Ctx, id, s, s.CreatedAt.Add(time.Duration(overlap)), end, k.audit(k.renewed, id))
}

// one is the flags and the argument of a command about one registration.
type one[T registration] interface {
	which() (cli.DatabaseFlags, string, kind[T])
}

// with opens the database and finds the registration.
func with[T registration](p *cli.Program, o one[T], do func(*store.Store, kind[T], *T) error) error {
	flags, id, k := o.which()
	return flags.WithStore(p, func(st *store.Store) error {
		all, err := k.all(st, p.Ctx)
		if v := k.in(all, id); err == nil && v != nil {
			err = do(st, k, v)
		} else if err == nil {
			err = k.none
		}
		if errors.Is(err, k.none) {
			return fmt.Errorf("there is no %s %q: cairn %s list shows them", k.noun, id, strings.ToLower(k.noun))
		}
		return inFlags(err, k.flag)
	})
}

type showCommand[One one[T], T registration] struct {
	One One `embed:""`
	cli.Output
}

// Run shows one registration without its secrets.
func (c *showCommand[One, T]) Run(p *cli.Program) error {
	return with(p, c.One, func(_ *store.Store, k kind[T], v *T) error { return k.print(p, c.Output, v, "") })
}

type removeCommand[One one[T], T registration] struct {
	One One `embed:""`
	cli.Output
	Yes bool `help:"Do not ask."`
}

// Run removes the registration after a confirmation.
func (c *removeCommand[One, T]) Run(p *cli.Program) error {
	return with(p, c.One, func(st *store.Store, k kind[T], v *T) error {
		its := k.of(v)
		text := its.id + " (" + its.name + ")"
		if err := cli.Confirm(p, c.Yes, "Remove the "+k.noun+" "+text+k.removal+"?"); err != nil {
			return err
		}
		if err := k.remove(st, p.Ctx, its.id, k.audit(k.removed, its.id)); err != nil {
			return err
		}
		return c.Print(p, its.id, map[string]any{k.member: its.id, "removed": true}, cli.Pairs{{"removed", text}})
	})
}

// registrations are all that are in the database.
type registrations struct {
	clients    []*provider.Client
	apis       []*provider.API
	allowances []*provider.Allowance
}

func readAll(ctx context.Context, st *store.Store) (r registrations, err error) {
	var errs [3]error
	r.clients, errs[0] = st.Clients(ctx)
	r.apis, errs[1] = st.APIs(ctx)
	r.allowances, errs[2] = allowanceKind.all(st, ctx)
	return r, cmp.Or(errs[:]...)
}
