package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// model says which answers are right. States are comparable values.
type model struct {
	begin any
	// next returns the states after a step that had this outcome, none if no such answer was right.
	next func(state any, s step, o outcome) []any
}

// check returns nothing if some order of the operations, each between its call and its answer,
// explains every answer. An operation with an unknown outcome may take effect at any time after
// its call, or never.
func (m model) check(h *history) []string {
	var all []porcupine.Operation
	last := int64(0)
	for _, op := range h.operations {
		last = max(last, int64(op.answer))
	}
	for i, op := range h.operations {
		add := func(in step, out outcome) {
			end := int64(op.answer)
			if op.outcome == unknown {
				end = last + 1
			}
			all = append(all, porcupine.Operation{ClientId: i, Input: in, Output: out, Call: int64(op.call),
				Return: end})
		}
		// What these need is looked up before the transaction in which they take effect, and a session
		// may end between: no request after that end is accepted, but one during it may be.
		if op.outcome == accepted && slices.Contains([]string{"end", "endothers", "removeapp", "confirm",
			"password", "email", "leave", "addapp"}, op.Do) {
			add(step{Do: "me", On: op.On, ID: op.ID}, accepted)
			op.proven = true
			if op.Do == "leave" { // so with the password
				add(step{Do: "knows", On: op.On, With: op.With, ID: op.ID}, accepted)
			}
		}
		add(op.step, op.outcome)
	}
	full := porcupine.NondeterministicModel{
		Init: func() []any { return []any{m.begin} },
		Step: func(state, in, out any) []any {
			s, o := in.(step), out.(outcome)
			if o != unknown {
				return m.next(state, s, o)
			}
			return append([]any{state}, append(m.next(state, s, accepted), m.next(state, s, refused)...)...)
		},
	}
	switch porcupine.CheckOperationsTimeout(full.ToModel(), all, 20*time.Second) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return []string{"the check did not end"}
	}
	return []string{"no order of these requests explains the answers"}
}

// judge performs a script and returns what is wrong with the history.
func judge(ctx context.Context, w *world, k *kind, s script) (*history, []string, error) {
	h, wrong, err := perform(ctx, w, k, s)
	if err != nil {
		return nil, nil, err
	}
	return h, append(k.model(&h.script).check(h), wrong...), nil
}

// shrink removes steps as long as the rest still fails within a few tries.
func shrink(ctx context.Context, w *world, k *kind, h *history, why []string, tries int) (*history, []string) {
	fails := func(steps []step) bool {
		s := h.script
		s.Steps = steps
		for range tries {
			got, wrong, err := judge(ctx, w, k, s)
			if err == nil && len(wrong) > 0 {
				h, why = got, wrong
				return true
			}
			if ctx.Err() != nil {
				return false
			}
		}
		return false
	}
	for size := len(h.Steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(h.Steps); {
			if !fails(slices.Delete(slices.Clone(h.Steps), from, min(from+size, len(h.Steps)))) {
				from += size
			}
		}
	}
	return h, why
}

// bits of a state, by the id of a step. The step before the script has the last one.
func bit(id int) uint64 {
	if id < 0 {
		return 1 << 63
	}
	if id > 62 {
		panic(fmt.Sprintf("a script with step %d", id))
	}
	return 1 << id
}
