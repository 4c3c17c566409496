package main

import (
	"context"
	"errors"
	"fmt"
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
		d.workers = append(d.workers, &worker{target: t, http: newClient()})
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
		w.http.CloseIdleConnections()
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
	latency []time.Duration
}

// slice measures a phase for a while, and adds it to the sample.
func (d *driver) slice(ctx context.Context, ph phase, length time.Duration, into *sample) error {
	if ph.apiOnly && d.api == "" {
		return nil
	}
	defer d.hangUp()
	defer d.trim()
	var err error
	if _, known := d.rate[ph.name]; !known {
		// Not counted: connections, caches and pools fill, and the rate becomes known.
		d.rate[ph.name] = 200
		err = d.run(ctx, ph, length/5, &sample{})
	}
	if err == nil {
		err = d.run(ctx, ph, length, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.name, ph.name, err)
	}
	return nil
}

// run prepares, and lets the clock run.
func (d *driver) run(ctx context.Context, ph phase, length time.Duration, into *sample) error {
	if ph.prepare != nil {
		n := int(1.6*d.rate[ph.name]*length.Seconds())/len(d.workers) + 4
		if err := d.each(func(w *worker) error { return ph.prepare(w, ctx, n) }); err != nil {
			return fmt.Errorf("before it: %w", err)
		}
	}
	used, err := processorTime(d.cmd.Process.Pid)
	if err != nil {
		return err
	}
	began := time.Now()
	var over atomic.Bool
	failed := d.each(func(w *worker) error {
		w.latency = w.latency[:0]
		for now := time.Now(); !over.Load() && now.Sub(began) < length; {
			if err := ph.operate(w, ctx); err != nil {
				over.Store(true)
				if errors.Is(err, errUsedUp) {
					return nil
				}
				return err
			}
			then := time.Now()
			w.latency = append(w.latency, then.Sub(now))
			now = then
		}
		return nil
	})
	wall := time.Since(began)
	after, err := processorTime(d.cmd.Process.Pid)
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	ops := 0
	for _, w := range d.workers {
		ops += len(w.latency)
		into.latency = append(into.latency, w.latency...)
	}
	d.rate[ph.name] = float64(ops) / wall.Seconds()
	into.ops, into.wall, into.used = into.ops+ops, into.wall+wall, into.used+after-used
	return nil
}

// quantile is the duration under which a part of them lies, in milliseconds; they are sorted.
func quantile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]) / 1e6
}
