package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// Result is a run, as -o json prints it and --vs reads it.
type Result struct {
	Version  string         `json:"version"`
	Database string         `json:"database"`
	Workers  int            `json:"workers"`
	Seconds  float64        `json:"seconds"` // of each phase and server
	Sessions int            `json:"sessions"`
	CPUs     int            `json:"cpus"`
	Servers  []ServerResult `json:"servers"` // the first is Cairn
}

// ServerResult is what one server did.
type ServerResult struct {
	Name   string        `json:"name"`
	Phases []PhaseResult `json:"phases"`
}

// PhaseResult is one phase of one server.
type PhaseResult struct {
	Phase        string  `json:"phase"`
	Operations   int     `json:"operations"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"` // of the server
	PerSecond    float64 `json:"per_second"`
	PerCPUSecond float64 `json:"per_cpu_second"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	Memory       Memory  `json:"memory_kib"` // of the server, after it
}

// Memory is in KiB.
type Memory struct {
	RSS       int `json:"rss"`
	Anonymous int `json:"anonymous"` // not of files: what the process itself has made
	Peak      int `json:"peak"`
}

func (d *driver) phaseResult(name string, s *sample) (r PhaseResult, err error) {
	r = PhaseResult{Phase: name, Operations: s.ops, Seconds: s.wall.Seconds(), CPUSeconds: s.used.Seconds(), P50: s.latency.quantile(0.5), P99: s.latency.quantile(0.99)}
	r.PerSecond, r.PerCPUSecond = ratio(float64(r.Operations), r.Seconds), ratio(float64(r.Operations), r.CPUSeconds)
	r.Memory, err = memoryOf(d.pid)
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
func (s ServerResult) phase(name string) (p PhaseResult) {
	for _, p := range s.Phases {
		if p.Phase == name {
			return p
		}
	}
	return p
}

// floor is what a bare provider did in the same run; nil: it did not run.
func (r Result) floor() *ServerResult {
	for i, s := range r.Servers {
		if s.Name == floorName {
			return &r.Servers[i]
		}
	}
	return nil
}

// Read reads what an earlier run has written.
func Read(file string) (*Result, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Result
	if err := json.Unmarshal(b, &r); err != nil || len(r.Servers) == 0 {
		return nil, errors.Join(fmt.Errorf("%s is not what cairn bench load -o json has printed", file), err)
	}
	return &r, nil
}

// Print writes the table: Cairn's figures, and beside each phase those of the peers with the
// ratio to them, and to an earlier run, which may be nil.
func (r Result) Print(w io.Writer, earlier *Result) error {
	fmt.Fprintf(w, "%s on %s, %d workers, %d sessions, %g s a phase, %d processors. Operations per second of the server's processor time (/CPU s) count.\n\n", r.Version, r.Database, r.Workers, r.Sessions, r.Seconds, r.CPUs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := "phase\toperations\t/s\t/CPU s\tp50 ms\tp99 ms\tRSS kB\tanonymous kB\t"
	for _, peer := range r.Servers[1:] {
		line += fmt.Sprintf("%s /CPU s\tp99 ms\tRSS kB\t/ %s\t", peer.Name, peer.Name)
	}
	var was ServerResult
	var floor, floorWas *ServerResult
	if earlier != nil {
		was = earlier.Servers[0]
		line += "/ earlier\t"
		if floor, floorWas = r.floor(), earlier.floor(); floor != nil && floorWas != nil {
			line += "by floor\t" // as the machine has other work at other times
		}
	}
	fmt.Fprintln(t, line)
	for _, p := range r.Servers[0].Phases {
		fmt.Fprintf(t, "%s\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%d\t%d\t", p.Phase, p.Operations, p.PerSecond, p.PerCPUSecond, p.P50, p.P99, p.Memory.RSS, p.Memory.Anonymous)
		for _, peer := range r.Servers[1:] {
			if q := peer.phase(p.Phase); q.Operations == 0 {
				fmt.Fprint(t, "-\t-\t-\t-\t")
			} else {
				fmt.Fprintf(t, "%.0f\t%.2f\t%d\t%.2f\t", q.PerCPUSecond, q.P99, q.Memory.RSS, ratio(p.PerCPUSecond, q.PerCPUSecond))
			}
		}
		if earlier != nil {
			plain := ratio(p.PerCPUSecond, was.phase(p.Phase).PerCPUSecond)
			fmt.Fprintf(t, "%.2f\t", plain)
			if floor != nil && floorWas != nil {
				fmt.Fprintf(t, "%.2f\t", ratio(plain, ratio(floor.phase(p.Phase).PerCPUSecond, floorWas.phase(p.Phase).PerCPUSecond)))
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
