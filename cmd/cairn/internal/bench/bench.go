// Package bench measures servers: Cairn and peers, each a process of its own on this
// machine, driven by one set of requests whose answers are all checked.
//
// What counts is how many operations a server does per second of its own processor time
// (PerCPUSecond), and its ratio to a peer that was measured in the same run: each phase is
// cut into slices of a second, which the servers take in turn. Rates by the wall clock are
// those of a machine that the driver shares.
//
// The package knows nothing of how Cairn works inside: it installs and runs the program by
// its commands, so that it measures other versions too.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options are what a run measures.
type Options struct {
	Cairn      Cairn
	Self       string // this program, which has the floor
	Peers      []string
	Workers    int
	Seconds    float64 // of each phase and server
	Sessions   int
	Phases     []string // empty: all
	ProfileDir string   // empty: no profiles
	Progress   io.Writer
}

// sliceLength is how long a server is measured before it is another one's turn.
const sliceLength = time.Second

// Run measures. The first answer that is not right ends it: the error tells the server, the
// phase and what was wrong.
func Run(ctx context.Context, o Options) (result Result, err error) {
	chosen := phases
	if len(o.Phases) > 0 {
		chosen = slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return !slices.Contains(o.Phases, p.name) })
	}
	folder, err := os.MkdirTemp("", "cairn-bench-")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*driver
	for i, name := range append([]string{"cairn"}, o.Peers...) {
		own := filepath.Join(folder, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return result, err
		}
		var t *Target
		var p *process
		if i == 0 {
			t, p, err = o.Cairn.install(ctx, own, o.Sessions)
		} else {
			t, p, err = o.installPeer(ctx, name, own, all[0].Handles)
		}
		if err != nil {
			return result, fmt.Errorf("%s: %w", name, err)
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		d := newDriver(t, p.cmd.Process.Pid, o.Workers)
		d.server = p
		if err := d.begin(ctx); err != nil {
			return result, err
		}
		all = append(all, d)
		result.Servers = append(result.Servers, ServerResult{Name: t.Name})
	}
	result.Workers, result.Seconds, result.Sessions, result.CPUs = o.Workers, o.Seconds, o.Sessions, runtime.NumCPU()
	for _, ph := range chosen {
		samples, err := o.measure(ctx, all, ph)
		if err != nil {
			return result, err
		}
		for i, d := range all {
			if samples[i].ops == 0 {
				continue
			}
			r, err := d.phaseResult(ph.name, &samples[i])
			if err != nil {
				return result, err
			}
			result.Servers[i].Phases = append(result.Servers[i].Phases, r)
			fmt.Fprintf(o.Progress, "%-16s %-8s %9.0f per CPU second\n", r.Phase, d.Name, r.PerCPUSecond)
		}
	}
	return result, nil
}

// measure takes a phase of all servers, in turn.
func (o Options) measure(ctx context.Context, all []*driver, ph phase) ([]sample, error) {
	samples := make([]sample, len(all))
	length := time.Duration(o.Seconds * float64(time.Second))
	slice := min(length, sliceLength)
	if o.ProfileDir != "" {
		slice = length // one profile
	}
	for left := length; left > 0; left -= slice {
		for i, d := range all {
			profile := ""
			if i == 0 {
				profile = o.ProfileDir
			}
			if err := d.slice(ctx, ph, min(left, slice), &samples[i], profile); err != nil {
				return nil, err
			}
			d.server.trim()
		}
	}
	return samples, nil
}

// driver sends the requests to one server.
type driver struct {
	*Target
	pid     int
	server  *process
	workers []*worker
	rate    map[string]float64 // operations a second that a phase has had
}

func newDriver(t *Target, pid, workers int) *driver {
	d := &driver{Target: t, pid: pid, rate: map[string]float64{}}
	for range workers {
		d.workers = append(d.workers, &worker{Target: t, conn: connection{address: t.address, host: strings.TrimPrefix(t.Issuer, "http://")}})
	}
	for i, handle := range t.Handles {
		w := d.workers[i%workers]
		w.sessions = append(w.sessions, &session{handle: handle})
	}
	return d
}

// begin learns what the server has and signs all users in.
func (d *driver) begin(ctx context.Context) error {
	defer d.hangUp()
	err := d.workers[0].learn(ctx)
	if err == nil {
		err = d.each(func(w *worker) error { return w.signInAll(ctx) })
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	return nil
}

// hangUp closes the connections: a server may close one that the others' turns leave idle.
func (d *driver) hangUp() {
	for _, w := range d.workers {
		w.conn.close()
	}
}

// each runs the workers at once and returns the first error.
func (d *driver) each(do func(*worker) error) error {
	var all errgroup.Group
	for _, w := range d.workers {
		all.Go(func() error { return do(w) })
	}
	return all.Wait()
}

// sample is what slices of a phase have measured.
type sample struct {
	ops     int
	wall    time.Duration
	used    time.Duration // processor time of the server
	latency histogram
}

// slice measures a phase for a while, and adds it to the sample. profile is a folder or empty.
func (d *driver) slice(ctx context.Context, ph phase, length time.Duration, into *sample, profile string) error {
	if ph.formOnly && !d.form || ph.apiOnly && d.api == "" {
		return nil
	}
	defer d.hangUp()
	var err error
	if _, known := d.rate[ph.name]; !known {
		// Not counted: connections, caches and pools fill, and the rate becomes known.
		d.rate[ph.name] = 200
		err = d.run(ctx, ph, length/5, &sample{}, "")
	}
	if err == nil {
		err = d.run(ctx, ph, length, into, profile)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.Name, ph.name, err)
	}
	return nil
}

// run prepares, and lets the clock run.
func (d *driver) run(ctx context.Context, ph phase, length time.Duration, into *sample, profile string) error {
	if ph.prepare != nil {
		n := int(1.6*d.rate[ph.name]*length.Seconds())/len(d.workers) + 4
		if err := d.each(func(w *worker) error { return ph.prepare(w, ctx, n) }); err != nil {
			return fmt.Errorf("before it: %w", err)
		}
	}
	var profiled func() error
	if profile != "" {
		profiled = d.server.profile(ctx, profile, ph.name, max(1, int(length/time.Second)))
	}
	used, err := processorTime(d.pid)
	if err != nil {
		return err
	}
	began := time.Now()
	var over atomic.Bool
	failed := d.each(func(w *worker) error {
		w.latency = histogram{}
		for now := time.Now(); !over.Load() && now.Sub(began) < length; {
			if err := ph.operate(w, ctx); err != nil {
				over.Store(true)
				if errors.Is(err, errUsedUp) {
					return nil
				}
				return err
			}
			then := time.Now()
			w.latency.note(then.Sub(now))
			now = then
		}
		return nil
	})
	wall := time.Since(began)
	after, err := processorTime(d.pid)
	if profiled != nil {
		err = errors.Join(err, profiled())
	}
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	ops := 0
	for _, w := range d.workers {
		ops += w.latency.total
		into.latency.add(&w.latency)
	}
	d.rate[ph.name] = float64(ops) / wall.Seconds()
	into.ops, into.wall, into.used = into.ops+ops, into.wall+wall, into.used+after-used
	return nil
}

// histogram counts durations in steps of at most 3 %.
type histogram struct {
	counts [64 << histogramBits]uint32
	total  int
}

const histogramBits = 5

func (h *histogram) note(d time.Duration) {
	n := uint64(max(d, 1<<histogramBits))
	shift := bits.Len64(n) - 1 - histogramBits
	h.counts[shift<<histogramBits+int(n>>shift)-1<<histogramBits]++
	h.total++
}

func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile is the duration under which a part of them lies, in milliseconds.
func (h *histogram) quantile(part float64) float64 {
	left := int(part * float64(h.total))
	for i, n := range h.counts {
		if left -= int(n); left < 0 {
			shift := i >> histogramBits
			return float64((uint64(i&(1<<histogramBits-1))|1<<histogramBits)<<shift) / 1e6
		}
	}
	return 0
}
