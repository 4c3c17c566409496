package main

import (
	"math/rand/v2"
	"slices"
	"strconv"
)

func generateCode(r *rand.Rand) []step {
	b := &builder{r: r}
	code := b.add(0, "authorize", -1, b.pick("offline", "online"))
	b.phase++
	var tokens []int
	for lane := range 2 + r.IntN(3) {
		if r.IntN(3) == 0 {
			b.add(lane, "exchange", code, b.pick("verifier", "redirect", "client"))
		}
		t := b.add(lane, "exchange", code, "")
		tokens = append(tokens, t)
		if r.IntN(2) == 0 {
			b.add(lane, b.pick("userinfo", "introspect"), t, "")
		}
	}
	if r.IntN(4) == 0 {
		b.add(5, "removeapp", -1, "")
	}
	b.phase++
	b.each(tokens, "userinfo", "introspect", "rotate")
	if r.IntN(2) == 0 {
		b.phase++
		b.add(0, "exchange", code, b.pick("", "", "verifier"))
		b.phase++
		b.each(tokens, "userinfo", "introspect")
	}
	return b.steps
}

func generateRefresh(r *rand.Rand) []step {
	b := &builder{r: r}
	code := b.add(0, "authorize", -1, "offline")
	t := b.add(0, "exchange", code, "")
	tokens := []int{t}
	b.phase++
	for lane := range 2 + r.IntN(3) {
		at := one(r, tokens[:1])
		for range 1 + r.IntN(3) {
			switch n := r.IntN(12); {
			case n < 7:
				at = b.add(lane, "rotate", at, "")
				tokens = append(tokens, at)
			case n == 7:
				b.add(lane, "rotate", at, "client")
			case n == 8:
				b.add(lane, "revoke", at, "")
			case n == 9 && r.IntN(3) == 0:
				b.add(lane, "removeapp", -1, "")
			default:
				b.add(lane, b.pick("userinfo", "introspect"), at, "")
			}
		}
	}
	b.phase++
	b.each(tokens, "userinfo", "introspect")
	if r.IntN(2) == 0 {
		b.phase++
		b.add(0, "rotate", one(r, tokens), "")
		b.phase++
		b.each(tokens, "userinfo", "introspect")
	}
	return b.steps
}

// signIns adds sign-ins of three lanes, and requests after which the act of a fourth meets them.
func (b *builder) signIns() (sessions []int) {
	for lane := range 3 {
		for range 1 + b.r.IntN(2) {
			sessions = append(sessions, b.add(lane, "signin", -1, ""))
		}
	}
	for range b.r.IntN(3) {
		b.add(3, "me", -1, "")
	}
	return sessions
}

// generateSuspension makes sign-ins while the account is suspended, and perhaps no longer.
func generateSuspension(b *builder) []step {
	sessions := b.signIns()
	b.add(3, "suspend", -1, "")
	b.phase++
	b.each(sessions, "bit")
	if b.r.IntN(2) == 0 {
		b.phase++
		b.add(0, "unsuspend", -1, "")
		b.phase++
		b.each(sessions, "me", "bit")
	}
	return b.steps
}

// generateFirstFactor makes sign-ins by the password alone while an authenticator app is added.
func generateFirstFactor(b *builder) []step {
	sessions := b.signIns()
	sessions = append(sessions, b.add(3, "addapp", -1, ""))
	b.phase++
	b.each(append(sessions, -1), "me", "bit")
	b.add(5, "signin", -1, "")
	return b.steps
}

func generateAccount(r *rand.Rand) []step {
	b := &builder{r: r}
	switch r.IntN(16) {
	case 0, 1:
		return generateSuspension(b)
	case 2:
		return generateFirstFactor(b)
	}
	l := beginLife(b)
	b.phase++
	for lane := range 2 + r.IntN(3) {
		for range 1 + r.IntN(2) {
			if !l.endByCode(lane) && !l.endByAct(lane) {
				l.use(lane)
			}
		}
	}
	return l.finish()
}

// life is an account in the making: what its steps have made so far.
type life struct {
	*builder
	sessions, tokens, unspent []int
	passwords                 []string
	reset, link               int // a code and a link of a mail that open or end everything; -2: none
	ends                      bool
}

// beginLife makes sessions, codes and tokens.
func beginLife(b *builder) *life {
	l := &life{builder: b, sessions: []int{-1}, passwords: []string{"-1"}, reset: -2, link: -2}
	for lane := range 1 + b.r.IntN(2) {
		l.sessions = append(l.sessions, b.add(lane, "signin", -1, ""))
	}
	if b.r.IntN(3) == 0 {
		l.reset = b.add(3, "resetcode", -1, "")
	}
	b.phase++
	for lane, s := range l.sessions {
		if b.r.IntN(4) == 0 {
			continue
		}
		c := b.add(lane, "authorize", s, b.pick("offline", "online"))
		if b.r.IntN(4) > 0 {
			l.tokens = append(l.tokens, b.add(lane, "exchange", c, ""))
		} else {
			l.unspent = append(l.unspent, c)
		}
	}
	if b.r.IntN(2) == 0 {
		l.link = b.add(4, "link", l.sessions[1], "")
	}
	return l
}

// endByCode may add a step that ends everything by what was mailed or given.
func (l *life) endByCode(lane int) bool {
	switch {
	case l.link >= 0 && l.r.IntN(4) == 0:
		n := l.add(lane, "notme", l.link, "")
		if l.link = -2; l.r.IntN(2) == 0 { // which ends everything once more
			l.passwords = append(l.passwords, strconv.Itoa(l.add(lane, "reset", n, "")))
		}
	case l.reset >= 0 && l.r.IntN(5) == 0:
		l.passwords = append(l.passwords, strconv.Itoa(l.add(lane, "reset", l.reset, "")))
	default:
		return false
	}
	return true
}

// endByAct may add an act that ends something, of the person or an administrator.
func (l *life) endByAct(lane int) bool {
	s := one(l.r, l.sessions)
	switch n := l.r.IntN(26); {
	case n == 22:
		l.add(lane, "endone", -1, strconv.Itoa(s))
	case n == 23:
		l.add(lane, l.pick("resetfactors", "email"), s, "")
	case n >= 24 && l.reset < 0 && l.link < 0 && !l.ends: // codes end a little later too
		l.add(lane, "ends", -1, "")
		l.add(lane, l.pick("unsuspend", "me"), -1, "")
		l.ends = true
	case n == 0:
		l.add(lane, "logout", s, "")
	case n == 1:
		l.add(lane, "end", s, strconv.Itoa(one(l.r, l.sessions)))
	case n < 4:
		l.sessions = append(l.sessions, l.add(lane, "endothers", s, ""))
	case n < 6:
		p := l.add(lane, "password", s, "-1")
		l.passwords, l.sessions = append(l.passwords, strconv.Itoa(p)), append(l.sessions, p)
	case n < 8:
		l.add(lane, "suspend", -1, "")
		if l.r.IntN(2) == 0 {
			l.add(lane, "unsuspend", -1, "")
		}
	case n == 8:
		if do := l.pick("delete", "endall", "flag", "leave"); do == "leave" {
			l.add(lane, do, s, "-1")
		} else {
			l.add(lane, do, -1, "")
		}
	default:
		return false
	}
	return true
}

// use adds steps that need the account.
func (l *life) use(lane int) {
	s := one(l.r, l.sessions)
	switch n := l.r.IntN(14); {
	case n < 4:
		l.sessions = append(l.sessions, l.add(lane, "confirm", s, "-1"))
	case n < 6:
		l.sessions = append(l.sessions, l.add(lane, "signin", -1, "-1"))
	case n < 9:
		c := l.add(lane, "authorize", s, l.pick("offline", "online"))
		l.tokens = append(l.tokens, l.add(lane, "exchange", c, ""))
	case n < 11 && len(l.tokens) > 0:
		l.tokens = append(l.tokens, l.add(lane, "rotate", one(l.r, l.tokens), ""))
	default:
		l.add(lane, l.pick("me", "bit"), s, "")
	}
}

// finish looks at all that was made, and tries what has to be refused and to change nothing.
func (l *life) finish() []step {
	l.phase++
	if l.r.IntN(2) == 0 {
		l.add(0, l.pick("password", "leave", "confirm"), one(l.r, l.sessions), wrongPassword)
		if l.reset >= 0 {
			l.add(1, "reset", l.reset, "")
			l.passwords = nil // it may have been the first use
		}
		l.phase++
	}
	l.each(l.sessions, "me", "me", "bit")
	l.each(l.tokens, "userinfo", "introspect")
	if len(l.passwords) > 0 && l.r.IntN(2) == 0 {
		l.add(5, "signin", -1, one(l.r, l.passwords))
	}
	l.each(l.unspent, "exchange")
	if l.r.IntN(5) == 0 {
		l.phase++
		l.add(0, "pause", -1, "")
		l.phase++
		l.each(slices.Concat(l.sessions, l.tokens), "local")
	}
	return l.steps
}

// wrongPassword is that of no step.
const wrongPassword = "99"
