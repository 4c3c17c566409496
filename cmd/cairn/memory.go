package main

import (
	"context"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

const (
	// besideHeap is the part of a memory limit, in bytes, that is left to SQLite and the program's pages.
	besideHeap = 48 << 20
	// heapGrowth is by how many percent the heap grows until it is collected. An idle service has 4 MB
	// in use: with the runtime's default, collections are a tenth of the work of a short request.
	heapGrowth = 150
)

// tuneMemory sets when the heap is collected, and keeps it within the memory limit of the process.
// The operator can set GOGC and GOMEMLIMIT, variables of the Go runtime, instead. What a profile of the heap needs,
// half a megabyte, is kept only if somebody can ask for one.
func tuneMemory(profiled bool) {
	if !profiled {
		runtime.MemProfileRate = 0
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if limit := memoryLimit(os.ReadFile); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(limit-besideHeap, limit/2))
	}
}

// idleCheck is the time without a collection after which the service counts as idle, and idleGarbage what it has
// allocated meanwhile, in bytes, that is worth one.
const (
	idleCheck   = 5 * time.Second
	idleGarbage = 1 << 20
)

// freeWhenIdle returns free memory to the system when the service becomes idle, for example after a
// rush of sign-ins, until the context ends. Without it the runtime keeps the memory of hashes for minutes.
func freeWhenIdle(ctx context.Context) {
	read := func() (collections, allocated uint64) {
		now := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(now)
		return now[0].Value.Uint64(), now[1].Value.Uint64()
	}
	t := time.NewTicker(idleCheck)
	defer t.Stop()
	for before, freed := uint64(0), uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, allocated := read()
		if now == before && allocated-freed > idleGarbage {
			debug.FreeOSMemory()
			now, freed = read()
		}
		before = now
	}
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
