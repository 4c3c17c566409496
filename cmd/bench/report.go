package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// result is a run, as -o json prints it.
type result struct {
	Version  string         `json:"version"`
	Database string         `json:"database"`
	Workers  int            `json:"workers"`
	Seconds  float64        `json:"seconds"` // of each phase and server
	Sessions int            `json:"sessions"`
	CPUs     int            `json:"cpus"`
	Servers  []serverResult `json:"servers"` // the first is cairn, the others are peers
}

// serverResult is what one server did.
type serverResult struct {
	Name   string        `json:"name"`
	Phases []phaseResult `json:"phases"`
}

// phaseResult is one phase of one server.
type phaseResult struct {
	Phase        string  `json:"phase"`
	Operations   int     `json:"operations"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"` // of the server
	PerSecond    float64 `json:"per_second"`
	PerCPUSecond float64 `json:"per_cpu_second"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	Memory       memory  `json:"memory_kib"` // of the server, after it
}

// memory is in KiB.
type memory struct {
	RSS       int `json:"rss"`
	Anonymous int `json:"anonymous"` // not of files: what the process itself has made
	Peak      int `json:"peak"`
}

func (d *driver) phaseResult(name string, s *sample) (r phaseResult, err error) {
	slices.Sort(s.latency)
	r = phaseResult{
		Phase: name, Operations: s.ops, Seconds: s.wall.Seconds(), CPUSeconds: s.used.Seconds(),
		P50: quantile(s.latency, 0.5), P99: quantile(s.latency, 0.99),
	}
	r.PerSecond, r.PerCPUSecond = ratio(float64(r.Operations), r.Seconds), ratio(float64(r.Operations), r.CPUSeconds)
	r.Memory, err = memoryOf(d.cmd.Process.Pid)
	return r, err
}

// ratio is 0 where there is none.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// phase finds what a server did in a phase.
func (s serverResult) phase(name string) (p phaseResult) {
	for _, p := range s.Phases {
		if p.Phase == name {
			return p
		}
	}
	return p
}

// print writes the table: the figures of cairn, and beside each phase those of the peers with the ratio to them.
func (r result) print(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s, %d workers, %d sessions, %g s a phase, %d processors. "+
		"Operations per second of the server's processor time (/CPU s) count.\n\n",
		r.Version, r.Database, r.Workers, r.Sessions, r.Seconds, r.CPUs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "phase\toperations\t/s\t/CPU s\tp50 ms\tp99 ms\tRSS kB\tanonymous kB\t")
	for _, peer := range r.Servers[1:] {
		fmt.Fprintf(t, "%s /CPU s\tp99 ms\tRSS kB\t/ %s\t", peer.Name, peer.Name)
	}
	fmt.Fprintln(t)
	for _, p := range r.Servers[0].Phases {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%d\t%d\t", p.Phase, p.Operations, p.PerSecond, p.PerCPUSecond,
			p.P50, p.P99, p.Memory.RSS, p.Memory.Anonymous)
		for _, peer := range r.Servers[1:] {
			if q := peer.phase(p.Phase); q.Operations == 0 {
				fmt.Fprint(t, "-\t-\t-\t-\t")
			} else {
				fmt.Fprintf(t, "%.0f\t%.2f\t%d\t%.2f\t", q.PerCPUSecond, q.P99, q.Memory.RSS,
					ratio(p.PerCPUSecond, q.PerCPUSecond))
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
