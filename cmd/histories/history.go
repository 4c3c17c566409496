package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// step is one request of a script. The steps of a phase are carried out at once, those of a lane one after the other.
type step struct {
	Phase int    `json:"phase"`
	Lane  int    `json:"lane"`
	At    int    `json:"at"` // the instance that is asked
	Do    string `json:"do"`
	// On is the step that made what this one uses. Less than 0: it was there before the script.
	On   int    `json:"on"`
	With string `json:"with,omitempty"`
	ID   int    `json:"id"` // stays the same when other steps are removed
	// proven is set by check: that the session counts is asserted by another operation.
	proven bool
}

// script is what one history is made from.
type script struct {
	Kind     string   `json:"kind"`
	Seed     uint64   `json:"seed"`
	Database string   `json:"database"`
	Fault    string   `json:"fault"`
	Steps    []step   `json:"steps"`
	Lines    []string `json:"lines,omitempty"` // the history for a person to read
}

// outcome is what a client knows of its request.
type outcome int

const (
	unknown outcome = iota // it may or may not have been carried out
	accepted
	refused
	skipped // it was not sent: the step that makes what it needs has made nothing
)

func (o outcome) String() string {
	return [...]string{"unknown", "accepted", "refused", "skipped"}[o]
}

// operation is one step with its answer.
type operation struct {
	step
	outcome      outcome
	note         string // status and error
	call, answer time.Duration
}

// history is the operations of one script, in the order of their calls.
type history struct {
	script
	operations []operation
	began      time.Time
}

// kind is a kind of objects: how scripts for one of them are made, how their steps are carried
// out and which answers are right.
type kind struct {
	name     string
	generate func(r *rand.Rand) []step
	// begin makes the object. Its error means that there is no history, as under a fault.
	begin func(ctx context.Context, w *world, s *script) (object, error)
	model func(s *script) model
	often int // how much more often than others
}

// object is what the steps of one history act on.
type object interface {
	do(ctx context.Context, s step) (outcome, string)
	// seen is the object as an administrator sees it, without what reads change; empty: it cannot be told.
	seen(ctx context.Context) string
	// end releases the object and returns what is wrong of it that is not an answer to a step.
	end(ctx context.Context, h *history) []string
}

// longest is how long a history may take. A slower one, as under a fault, is not judged: codes expire.
const longest = 25 * time.Second

// perform carries out a script.
func perform(ctx context.Context, w *world, k *kind, s script) (*history, []string, error) {
	o, err := k.begin(ctx, w, &s)
	if err != nil {
		return nil, nil, err
	}
	h := &history{script: s, began: time.Now()}
	var wrong []string
	for phase := 0; slices.ContainsFunc(s.Steps, func(st step) bool { return st.Phase >= phase }); phase++ {
		before, done := "", len(h.operations)
		if h.certain() {
			before = o.seen(ctx)
		}
		h.carryOut(ctx, o, phase)
		wrong = append(wrong, h.touched(ctx, o, before, done)...)
	}
	slices.SortFunc(h.operations, func(a, b operation) int { return int(a.call - b.call) })
	wrong = append(wrong, o.end(ctx, h)...)
	switch {
	case time.Since(h.began) > longest:
		return nil, nil, fmt.Errorf("the history took more than %s", longest)
	case !slices.ContainsFunc(h.operations, func(op operation) bool { return op.outcome != unknown }):
		return nil, nil, errors.New("no request was answered")
	}
	return h, wrong, ctx.Err()
}

// carryOut performs the steps of a phase.
func (h *history) carryOut(ctx context.Context, o object, phase int) {
	var mu sync.Mutex
	var lanes sync.WaitGroup
	defer lanes.Wait()
	for lane := range 8 {
		var mine []step
		for _, st := range h.Steps {
			if st.Phase == phase && st.Lane == lane {
				mine = append(mine, st)
			}
		}
		if len(mine) == 0 {
			continue
		}
		lanes.Go(func() {
			for _, st := range mine {
				op := operation{step: st, call: time.Since(h.began)}
				op.outcome, op.note = o.do(ctx, st)
				op.answer = time.Since(h.began)
				switch op.outcome {
				case skipped:
					continue
				case unknown:
					time.Sleep(150 * time.Millisecond) // or a stopped instance is asked in vain all the time
				}
				mu.Lock()
				h.operations = append(h.operations, op)
				mu.Unlock()
			}
		})
	}
}

// certain reports whether nothing may yet take effect: no answer is missing, and no account ends by itself.
func (h *history) certain() bool {
	return !slices.ContainsFunc(h.operations, func(op operation) bool {
		return op.outcome == unknown || op.Do == "ends"
	})
}

// endsGrant are requests whose refusal may end a grant: a second use of what is good once.
var endsGrant = []string{"exchange", "rotate", "less", "allow"}

// touched compares what was seen before a phase with what is there now, if all that was refused in it.
func (h *history) touched(ctx context.Context, o object, before string, done int) []string {
	changing := slices.DeleteFunc(slices.Clone(h.operations[done:]), func(op operation) bool { return reads[op.Do] })
	if before == "" || len(changing) == 0 || !h.certain() || slices.ContainsFunc(changing, func(op operation) bool {
		return op.outcome != refused || slices.Contains(endsGrant, op.Do)
	}) {
		return nil
	}
	if after := o.seen(ctx); after != "" && after != before {
		return []string{"no order of these requests explains that refused ones have changed " + before + " to " + after}
	}
	return nil
}

// lines is the history for a person to read.
func (h *history) lines() (out []string) {
	for _, op := range h.operations {
		line := fmt.Sprintf("%9s - %9s  lane %d, instance %d: %2d %s", op.call.Round(100*time.Microsecond),
			op.answer.Round(100*time.Microsecond), op.Lane, op.At, op.ID, op.Do)
		if op.With != "" {
			line += " " + op.With
		}
		if op.On >= 0 {
			line += fmt.Sprintf(" of %d", op.On)
		}
		out = append(out, line+": "+op.outcome.String()+" ("+op.note+")")
	}
	return out
}

// save writes the script with its history to a new file in a folder.
func (h *history) save(dir string, why []string) (string, error) {
	h.Lines = append(slices.Clone(why), h.lines()...)
	name := filepath.Join(dir, fmt.Sprintf("%s-%d-%d.json", h.Kind, h.Seed, time.Now().UnixNano()))
	b, err := json.MarshalIndent(h.script, "", " ")
	return name, errors.Join(err, os.WriteFile(name, append(b, '\n'), 0o600))
}

// print writes the history for a person.
func (h *history) print(w io.Writer, why []string) {
	_, _ = fmt.Fprintf(w, "VIOLATION %s, seed %d, %s, fault %q:\n  %s\n", h.Kind, h.Seed, h.Database, h.Fault,
		strings.Join(append(slices.Clone(why), h.lines()...), "\n  "))
}

// builder makes scripts.
type builder struct {
	r     *rand.Rand
	steps []step
	phase int
}

// add adds a step of a lane and returns its id.
func (b *builder) add(lane int, do string, on int, with string) int {
	id := len(b.steps)
	b.steps = append(b.steps, step{Phase: b.phase, Lane: lane, At: b.r.IntN(3), Do: do, On: on, With: with, ID: id})
	return id
}

// each adds a step for each of others, of several lanes.
func (b *builder) each(others []int, do ...string) {
	for i, on := range others {
		b.add(i%4, b.pick(do...), on, "")
	}
}

func (b *builder) pick(of ...string) string { return of[b.r.IntN(len(of))] }

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
