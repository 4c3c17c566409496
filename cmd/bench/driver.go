package main

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// driver sends the requests to one server.
type driver struct {
	*target
	workers []*worker
	rate    map[string]float64 // operations a second that a phase has had
}

func newDriver(t *target, workers int) *driver {
	d := &driver{target: t, rate: map[string]float64{}}
	for range workers {
		conn := connection{address: t.address, host: strings.TrimPrefix(t.issuer, "http://")}
		d.workers = append(d.workers, &worker{target: t, conn: conn})
	}
	for i, handle := range t.handles {
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
		return fmt.Errorf("%s: %w", d.name, err)
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

// slice measures a phase for a while, and adds it to the sample. profiles is a folder or empty.
func (d *driver) slice(ctx context.Context, ph phase, length time.Duration, into *sample, profiles string) error {
	if ph.apiOnly && d.api == "" {
		return nil
	}
	defer d.hangUp()
	defer d.trim()
	var err error
	if _, known := d.rate[ph.name]; !known {
		// Not counted: connections, caches and pools fill, and the rate becomes known.
		d.rate[ph.name] = 200
		err = d.run(ctx, ph, length/5, &sample{}, "")
	}
	if err == nil {
		err = d.run(ctx, ph, length, into, profiles)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.name, ph.name, err)
	}
	return nil
}

// run prepares, and lets the clock run.
func (d *driver) run(ctx context.Context, ph phase, length time.Duration, into *sample, profiles string) error {
	if ph.prepare != nil {
		n := int(1.6*d.rate[ph.name]*length.Seconds())/len(d.workers) + 4
		if err := d.each(func(w *worker) error { return ph.prepare(w, ctx, n) }); err != nil {
			return fmt.Errorf("before it: %w", err)
		}
	}
	var profiled func() error
	if profiles != "" {
		profiled = d.profile(ctx, profiles, ph.name, max(1, int(length/time.Second)))
	}
	used, err := processorTime(d.cmd.Process.Pid)
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
	after, err := processorTime(d.cmd.Process.Pid)
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
