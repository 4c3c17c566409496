package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// simulate makes a history that a right service could have made: each step takes effect at one
// moment, and its call and its answer are around it.
func simulate(t *rapid.T, k *kind, spread time.Duration) *history {
	seed := rapid.Uint64().Draw(t, "seed")
	r := rand.New(rand.NewPCG(seed, 1))
	h := &history{script: newScript(k, seed, "sqlite", "")}
	m := k.model(&h.script)
	state := m.begin
	for i, s := range h.Steps {
		if s.On >= 0 && !answered(h, s.On) {
			continue // it needs what was not made
		}
		outcomes := []outcome{accepted, refused}
		r.Shuffle(2, func(i, j int) { outcomes[i], outcomes[j] = outcomes[j], outcomes[i] })
		at, done := time.Duration(i)*time.Millisecond, false
		for _, o := range outcomes {
			if next := m.next(state, s, o); len(next) > 0 {
				state, done = next[r.IntN(len(next))], true
				op := operation{step: s, outcome: o, call: at - rand.N(spread+1), answer: at + 1 + rand.N(spread+1)}
				if r.IntN(20) == 0 {
					op.outcome = unknown
				}
				h.operations = append(h.operations, op)
				break
			}
		}
		if !done {
			t.Fatalf("%s: no answer to %+v is right in %+v", k.name, s, state)
		}
	}
	return h
}

func answered(h *history, id int) bool {
	for _, op := range h.operations {
		if op.ID == id {
			return op.outcome == accepted
		}
	}
	return false
}

func TestNoAlarmForARightService(t *testing.T) {
	for _, name := range kindNames() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				k := kinds[name]
				h := simulate(t, k, time.Duration(rapid.IntRange(0, 5).Draw(t, "spread"))*time.Millisecond)
				if why := k.model(&h.script).check(h); len(why) > 0 {
					t.Fatalf("%v: %v", why, h.lines())
				}
			})
		})
	}
}

// What must never be accepted, in the shortest history of each.
func TestAlarms(t *testing.T) {
	type op struct {
		do   string
		on   int
		with string
		is   outcome
	}
	for name, tt := range map[string]struct {
		kind string
		ops  []op
	}{
		"code twice": {"code", []op{{"authorize", -1, "", accepted},
			{"exchange", 0, "", accepted}, {"exchange", 0, "", accepted}}},
		"code with another verifier": {"code", []op{{"authorize", -1, "", accepted},
			{"exchange", 0, "verifier", accepted}}},
		"tokens after a second use": {"code", []op{{"authorize", -1, "", accepted},
			{"exchange", 0, "", accepted}, {"exchange", 0, "", refused}, {"userinfo", 1, "", accepted}}},
		"good code refused": {"code", []op{{"authorize", -1, "", accepted}, {"exchange", 0, "", refused}}},
		"refresh token twice": {"refresh",
			[]op{{"authorize", -1, "offline", accepted}, {"exchange", 0, "", accepted}, {"rotate", 1, "", accepted},
				{"rotate", 1, "", accepted}}},
		"tokens after a reuse": {"refresh",
			[]op{{"authorize", -1, "offline", accepted}, {"exchange", 0, "", accepted}, {"rotate", 1, "", accepted},
				{"rotate", 1, "", refused}, {"rotate", 2, "", accepted}}},
		"token after revocation": {"refresh",
			[]op{{"authorize", -1, "offline", accepted}, {"exchange", 0, "", accepted}, {"revoke", 1, "", accepted},
				{"introspect", 1, "", accepted}}},
		"session after sign-out": {"account", []op{{"logout", -1, "", accepted}, {"me", -1, "", accepted}}},
		"bit after sign-out":     {"account", []op{{"logout", -1, "", accepted}, {"bit", -1, "", accepted}}},
		"sign-in of a suspended user": {"account",
			[]op{{"suspend", -1, "", accepted}, {"signin", -1, "-1", accepted}}},
		"session after unsuspend": {"account",
			[]op{{"suspend", -1, "", accepted}, {"unsuspend", -1, "", accepted}, {"me", -1, "", accepted}}},
		"session of an ended account": {"account",
			[]op{{"ends", -1, "", accepted}, {"unsuspend", -1, "", accepted}, {"me", -1, "", accepted}}},
		"former password": {"account",
			[]op{{"password", -1, "-1", accepted}, {"signin", -1, "-1", accepted}}},
		"code by an ended session": {"account",
			[]op{{"logout", -1, "", accepted}, {"authorize", -1, "online", accepted}}},
		"former reset code": {"account",
			[]op{{"resetcode", -1, "", accepted}, {"resetcode", -1, "", accepted}, {"reset", 0, "", accepted}}},
		"used after an unknown use": {"invite", []op{{"use", -1, "", unknown}, {"use", -1, "", accepted},
			{"use", -1, "", accepted}}},
		"used after revocation": {"invite", []op{{"revoke", -1, "", accepted}, {"use", -1, "", accepted}}},
		"left out twice, then asked": {"consent",
			[]op{{"less", -1, "email profile but email", accepted},
				{"less", -1, "email profile but profile", accepted}, {"exchange", 0, "profile", accepted}}},
		"wrong password ends sessions": {"account",
			[]op{{"password", -1, wrongPassword, refused}, {"me", -1, "", refused}}},
		"scope that was not granted": {"consent",
			[]op{{"allow", -1, "email", accepted}, {"ask", -1, "profile", accepted}}},
		"code of a removed app": {"consent",
			[]op{{"allow", -1, "email", accepted}, {"remove", -1, "", accepted}, {"exchange", 0, "email", accepted}}},
		"sign-in after not-me": {"account",
			[]op{{"signin", -1, "-1", accepted}, {"link", 0, "", accepted}, {"notme", 1, "", accepted},
				{"signin", -1, "-1", accepted}}},
		"API after sign-out": {"account",
			[]op{{"authorize", -1, "online", accepted}, {"exchange", 0, "", accepted}, {"logout", -1, "", accepted},
				{"local", 1, "", accepted}}},
	} {
		h := &history{script: script{Kind: tt.kind}}
		for i, o := range tt.ops {
			s := step{ID: i, Do: o.do, On: o.on, With: o.with}
			h.Steps = append(h.Steps, s)
			h.operations = append(h.operations, operation{step: s, outcome: o.is, call: time.Duration(2 * i),
				answer: time.Duration(2*i + 1)})
		}
		m := kinds[tt.kind].model(&h.script)
		if len(m.check(h)) == 0 {
			t.Errorf("%s: no alarm", name)
		}
		last := len(h.operations) - 1
		if h.operations = h.operations[:last]; len(m.check(h)) > 0 {
			t.Errorf("%s: an alarm before the last request", name)
		}
	}
}

func TestScriptsAreMadeAgainFromTheirSeed(t *testing.T) {
	for _, name := range kindNames() {
		a, b := newScript(kinds[name], 7, "sqlite", ""), newScript(kinds[name], 7, "sqlite", "")
		if len(a.Steps) == 0 || !slices.Equal(a.Steps, b.Steps) {
			t.Errorf("%s: %+v and %+v", name, a.Steps, b.Steps)
		}
	}
}
