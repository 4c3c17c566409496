package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// beginConsent begins with an application that asks, and was allowed nothing.
func beginConsent(ctx context.Context, w *world, s *script) (object, error) {
	o, err := beginAccount("asking", false)(ctx, w, s)
	if err != nil {
		return nil, err
	}
	r := w.api(ctx, w.any(), "DELETE", "/api/me/apps/asking", o.(*account).p.held, nil) // of a history before
	if r.Status != http.StatusNoContent && r.Status != http.StatusNotFound {
		o.(*account).release()
		return nil, failed("remove the application", r)
	}
	return o, nil
}

type consentState struct {
	granted            string // scopes, sorted; "-": none, "" is openid alone
	left               string // optional ones that were left out, sorted
	made, spent, ended uint64
}

func consentModel(s *script) model {
	roots := rootsOf(s)
	return model{begin: consentState{granted: "-"}, next: func(state any, s step, o outcome) []any {
		st, yes := state.(consentState), o == accepted
		root := bit(s.ID)
		if s.On >= 0 {
			root = bit(roots[s.On])
		}
		switch s.Do {
		case "less":
			return st.less(s.With, root, yes)
		case "allow":
			return st.allow(s.With, root, yes)
		case "ask":
			st.made |= root
			if yes {
				return only(within(without(s.With, st.left), st.granted), st)
			}
			return only(!within(s.With, st.granted), state)
		case "remove":
			had := st.granted != "-" || st.made&^st.ended != 0
			if !yes {
				return only(!had, st)
			}
			st.granted, st.left, st.ended = "-", "", st.ended|st.made
			return only(had, st)
		case "exchange":
			good := st.ended&root == 0 && st.spent&root == 0
			if yes {
				st.spent |= root
				return only(good, st)
			}
			after := st
			after.ended |= root
			return only(!good, after)
		case "userinfo":
			return only((st.ended&root == 0) == yes, st)
		}
		panic("no step " + s.Do)
	}}
}

// less: "email profile but email" leaves out what follows; what was granted of that ends with all that has it.
func (st consentState) less(with string, root uint64, yes bool) []any {
	asked, left, _ := strings.Cut(with, " but ")
	kept := st
	kept.granted = without(union(st.granted, asked), left)
	kept.left = without(union(st.left, left), without(asked, left))
	ended := kept
	ended.ended |= st.made
	if !yes {
		return []any{st, kept, ended}
	}
	kept.made, ended.made = st.made|root, st.made|root
	if without(st.granted, left) != st.granted {
		return []any{ended}
	}
	return []any{ended, kept} // it may have been granted between, for a code that then came without it
}

// allow: of what was left out before, any part may not have been on the page, and stays left out.
func (st consentState) allow(asked string, root uint64, yes bool) (after []any) {
	add := func(granted, stays string) {
		next := st
		next.granted = without(granted, stays)
		next.left = without(st.left, without(asked, stays))
		if yes {
			next.made |= root
		}
		after = append(after, next)
	}
	was := strings.Fields(without(asked, without(asked, st.left)))
	for some := range 1 << len(was) {
		stays := ""
		for i, scope := range was {
			if some&(1<<i) != 0 {
				stays = union(stays, scope)
			}
		}
		add(union(st.granted, asked), stays)
	}
	if !yes { // asked again: removed before they answered, or after that and before the code
		after = append(after, st)
	}
	if !yes || !within(asked, st.granted) {
		add(asked, "") // the former may have been removed while the person decided
	}
	return after
}

// within reports whether scopes are among those that were granted.
func within(scopes, granted string) bool { return granted != "-" && without(scopes, granted) == "" }

// without are the scopes but for some.
func without(scopes, some string) string {
	but := strings.Fields(some)
	return strings.Join(slices.DeleteFunc(strings.Fields(scopes),
		func(s string) bool { return slices.Contains(but, s) }), " ")
}

// union are the scopes of both, sorted.
func union(a, b string) string {
	all := slices.Concat(strings.Fields(strings.TrimPrefix(a, "-")), strings.Fields(b))
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

func generateConsent(r *rand.Rand) []step {
	b := &builder{r: r}
	scopes := []string{"email", "profile", "email profile"}
	type code struct {
		id     int
		scopes string
	}
	var codes []code
	add := func(lane int, do string) {
		with := one(r, scopes)
		if do == "allow" && r.IntN(4) == 0 {
			left := one(r, scopes)
			codes = append(codes, code{b.add(lane, "less", -1, scopes[2]+" but "+left), without(scopes[2], left)})
			return
		}
		codes = append(codes, code{b.add(lane, do, -1, with), with})
	}
	add(0, "allow")
	b.phase++
	var tokens []int
	for lane := range 2 + r.IntN(2) {
		for range 1 + r.IntN(2) {
			switch n := r.IntN(8); {
			case n < 2:
				add(lane, "allow")
			case n < 4:
				add(lane, "ask")
			case n < 6:
				b.add(lane, "remove", -1, "")
			default:
				c := one(r, codes[:1])
				tokens = append(tokens, b.add(lane, "exchange", c.id, c.scopes))
			}
		}
	}
	b.phase++
	add(0, "ask")
	for i, c := range codes[:len(codes)-1] {
		if r.IntN(2) == 0 {
			tokens = append(tokens, b.add(1+i%3, "exchange", c.id, c.scopes))
		}
	}
	b.phase++
	b.each(tokens, "userinfo")
	return b.steps
}
