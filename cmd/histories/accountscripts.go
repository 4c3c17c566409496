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

// generateRest ends, by an act that surely has something to end, what another session has left, or all.
func generateRest(b *builder) []step {
	s := b.add(0, "signin", -1, "")
	b.phase++
	t := b.add(0, "exchange", b.add(0, "authorize", s, "offline"), "")
	b.phase++
	if b.r.IntN(2) == 0 {
		b.add(0, "logout", s, "")
		b.phase++
	}
	b.add(0, b.pick("endothers", "endall"), -1, surely)
	b.phase++
	b.each([]int{s, -1}, "me", "bit")
	b.add(2, b.pick("userinfo", "rotate"), t, "")
	return b.steps
}

func generateAccount(r *rand.Rand) []step {
	b := &builder{r: r}
	switch r.IntN(16) {
	case 0, 1:
		return generateSuspension(b)
	case 2:
		return generateRest(b)
	case 3:
		return generateFirstFactor(b)
	}
	sessions := []int{-1}
	for lane := range 1 + r.IntN(2) {
		sessions = append(sessions, b.add(lane, "signin", -1, ""))
	}
	reset, link, ends := -2, -2, false
	if r.IntN(3) == 0 {
		reset = b.add(3, "resetcode", -1, "")
	}
	b.phase++
	var tokens, unspent []int
	for lane, s := range sessions {
		if r.IntN(4) > 0 {
			c := b.add(lane, "authorize", s, b.pick("offline", "online"))
			if r.IntN(4) > 0 {
				tokens = append(tokens, b.add(lane, "exchange", c, ""))
			} else {
				unspent = append(unspent, c)
			}
		}
	}
	if r.IntN(2) == 0 {
		link = b.add(4, "link", sessions[1], "")
	}
	b.phase++
	passwords := []string{"-1"}
	for lane := range 2 + r.IntN(3) {
		for range 1 + r.IntN(2) {
			s := one(r, sessions)
			switch n := r.IntN(26); {
			case link >= 0 && r.IntN(4) == 0:
				n := b.add(lane, "notme", link, "")
				if link = -2; r.IntN(2) == 0 { // which ends everything once more
					passwords = append(passwords, strconv.Itoa(b.add(lane, "reset", n, "")))
				}
			case reset >= 0 && r.IntN(5) == 0:
				passwords = append(passwords, strconv.Itoa(b.add(lane, "reset", reset, "")))
			case n == 22:
				b.add(lane, "endone", -1, strconv.Itoa(s))
			case n == 23:
				b.add(lane, b.pick("resetfactors", "email"), s, "")
			case n >= 24 && reset < 0 && link < 0 && !ends: // codes end a little later too
				b.add(lane, "ends", -1, "")
				b.add(lane, b.pick("unsuspend", "me"), -1, "")
				ends = true
			case n == 0:
				b.add(lane, "logout", s, "")
			case n == 1:
				b.add(lane, "end", s, strconv.Itoa(one(r, sessions)))
			case n < 4:
				b.add(lane, "endothers", s, "")
			case n < 6:
				p := b.add(lane, "password", s, "-1")
				passwords, sessions = append(passwords, strconv.Itoa(p)), append(sessions, p)
			case n < 8:
				b.add(lane, "suspend", -1, "")
				if r.IntN(2) == 0 {
					b.add(lane, "unsuspend", -1, "")
				}
			case n == 8:
				if do := b.pick("delete", "endall", "flag", "leave"); do == "leave" {
					b.add(lane, do, s, "-1")
				} else {
					b.add(lane, do, -1, "")
				}
			case n < 13:
				sessions = append(sessions, b.add(lane, "confirm", s, "-1"))
			case n < 15:
				sessions = append(sessions, b.add(lane, "signin", -1, "-1"))
			case n < 18:
				c := b.add(lane, "authorize", s, b.pick("offline", "online"))
				tokens = append(tokens, b.add(lane, "exchange", c, ""))
			case n < 20 && len(tokens) > 0:
				tokens = append(tokens, b.add(lane, "rotate", one(r, tokens), ""))
			default:
				b.add(lane, b.pick("me", "bit"), s, "")
			}
		}
	}
	b.phase++
	b.each(sessions, "me", "me", "bit")
	b.each(tokens, "userinfo", "introspect")
	if r.IntN(2) == 0 {
		b.add(5, "signin", -1, one(r, passwords))
	}
	b.each(unspent, "exchange")
	if r.IntN(5) == 0 {
		b.phase++
		b.add(0, "pause", -1, "")
		b.phase++
		b.each(slices.Concat(sessions, tokens), "local")
	}
	return b.steps
}
