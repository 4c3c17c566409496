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
	// smallHeap is what the heap may grow to before it is collected. Of an idle service 4 MB
	// are in use: with the runtime's own setting each further 4 MB, which are a thousand
	// requests, would be a collection, and a sixth of the work of a short request.
	smallHeap = 20 << 20
	// besideHeap is what is kept of a limit for what is not Go's: SQLite and the pages of the program.
	besideHeap = 48 << 20
	// heapPause is how long there is no collection before the service counts as idle.
	heapPause = 3 * time.Second
)

// tuneMemory sets when the heap is collected, and gives memory back when the service has
// nothing to do. GOGC and GOMEMLIMIT, variables of the Go runtime, let the operator decide instead.
func tuneMemory() {
	k := &heapKeeper{grows: os.Getenv("GOGC") == ""}
	k.pause = time.AfterFunc(heapPause, k.paused)
	k.collected()
	if limit := memoryLimit(os.ReadFile); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-besideHeap, limit/2))
	}
}

// heapKeeper looks at the heap after each collection, of which an idle service has none.
type heapKeeper struct {
	grows bool // sets GOGC
	pause *time.Timer

	mu          sync.Mutex
	percent     int  // GOGC, once set
	pausing     bool // pause runs
	collections int
	before      int  // collections when pause was started
	own         bool // the next collection is that of a release
}

// collected sets GOGC by what the last collection has left, and is called again after the
// next one, which is when the object that it makes is gone.
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

// paused takes the pages of the program that are not in use out of the process, and gives the
// heap of what came before back to the system when there was no further collection.
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

// growth is GOGC for a heap of which so much is in use: up to smallHeap, but as the runtime
// does from half of that on. In steps, because to set it stops the program for a moment.
func growth(live uint64) int {
	live = max(live, 2<<20)
	if live >= smallHeap/2 {
		return 100
	}
	return int((smallHeap-live)*100/live) / 25 * 25
}

// memoryLimit is what the control groups of the process may use of memory, the least of all
// above it, of version 1 or 2 of that interface; 0 where there is no limit.
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
			text, err := read(path.Join(root, group, file))
			// Version 1 writes no limit as a number that no machine has, version 2 as max.
			if n, err2 := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && err2 == nil && n > 0 && n < 1<<50 && (least == 0 || n < least) {
				least = n
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
