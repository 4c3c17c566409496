package main

import (
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// smallHeap is the size in bytes to which the heap may grow before it is collected. An idle
	// service has 4 MB in use: with the runtime's default, each further 4 MB, which are a thousand
	// requests, would trigger a collection, a sixth of the work of a short request.
	smallHeap = 20 << 20
	// besideHeap is the part of a memory limit, in bytes, that is left to SQLite and the program's pages.
	besideHeap = 48 << 20
	// heapPause is the time without a collection after which the service counts as idle.
	heapPause = 3 * time.Second
)

// tuneMemory sets when the heap is collected, and returns memory to the system when the service is
// idle. The operator can set GOGC and GOMEMLIMIT, variables of the Go runtime, instead.
func tuneMemory() {
	k := &heapKeeper{grows: os.Getenv("GOGC") == ""}
	k.pause = time.AfterFunc(heapPause, k.paused)
	k.collected()
	if limit := memoryLimit(os.ReadFile); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-besideHeap, limit/2))
	}
}

// heapKeeper adjusts GOGC after each collection, and detects an idle service by their absence.
type heapKeeper struct {
	grows bool // sets GOGC
	pause *time.Timer

	mu          sync.Mutex
	percent     int  // GOGC, once set
	pausing     bool // pause runs
	collections int
	before      int  // collections when pause was started
	own         bool // releaseMemory causes the next collection
}

// collected sets GOGC by the size of the live heap. It runs after each collection: it allocates an
// object whose cleanup calls it again.
func (k *heapKeeper) collected() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	k.mu.Lock()
	defer k.mu.Unlock()
	if wanted := growth(live[0].Value.Uint64()); k.grows && wanted != k.percent {
		k.percent = wanted
		debug.SetGCPercent(wanted)
	}
	k.collections++
	if k.own {
		k.own = false
	} else if !k.pausing {
		k.pausing, k.before = true, k.collections
		k.pause.Reset(heapPause)
	}
	runtime.AddCleanup(&struct{ p *byte }{}, (*heapKeeper).collected, k)
}

// paused runs after heapPause. It drops the program's unused pages, and if there was no collection
// meanwhile, it also returns free heap to the system.
func (k *heapKeeper) paused() {
	k.mu.Lock()
	idle := k.collections == k.before
	k.pausing, k.own, k.before = !idle, idle, k.collections
	if !idle {
		k.pause.Reset(heapPause)
	}
	k.mu.Unlock()
	if idle {
		releaseMemory()
	} else {
		releaseProgramPages()
	}
}

// growth returns the GOGC at which a heap with so many live bytes grows to smallHeap, or the
// runtime's default from half of smallHeap on. It rounds to steps, because setting GOGC briefly
// stops the program.
func growth(live uint64) int {
	live = max(live, 2<<20)
	if live >= smallHeap/2 {
		return 100
	}
	return int((smallHeap-live)*100/live) / 25 * 25
}

// memoryLimit returns the lowest memory limit of the process's control groups, version 1 or 2, in
// bytes, or 0 if there is no limit.
func memoryLimit(read func(string) ([]byte, error)) (least int64) {
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path, and 0::path of version 2.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, _ := read(path.Join(root, group, file))
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			// Without a limit, version 1 has a number larger than any machine's memory, version 2
			// has max.
			if err == nil && n > 0 && n < 1<<50 && (least == 0 || n < least) {
				least = n
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
