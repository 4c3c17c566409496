package recordings

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/store/storetest/racetest"
)

// peakOf runs do and returns the most memory that the heap took during it, in
// bytes, as sampled every few milliseconds.
func peakOf(t testing.TB, do func()) uint64 {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	debug.FreeOSMemory()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	used := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64() + sample[1].Value.Uint64() + sample[2].Value.Uint64()
	}
	before, peak := used(), uint64(0)
	// What the tests before keep alive must not let more garbage wait for the collector.
	debug.SetGCPercent(int(min(100, 100*(16<<20)/max(before, 1))))
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, used())
			case <-done:
				return
			}
		}
	})
	do()
	close(done)
	watcher.Wait()
	return max(peak, before) - before
}

func TestMemoryIsIndependentOfTheNumberOfDocuments(t *testing.T) {
	racetest.Skip(t)
	folder, size := writeFolder(t, 150, 10_000)
	peak := peakOf(t, func() {
		if code, out, errs := validate(t, folder); code != cli.ExitDone || !strings.HasPrefix(out, "151 documents, 0 invalid") {
			t.Errorf("exit code %d, %s %s", code, out, errs)
		}
	})
	t.Logf("%d MB at most for %d MB of documents", peak>>20, size>>20)
	if most := uint64(runtime.GOMAXPROCS(0)) * (16 << 20); peak > most {
		t.Errorf("%d MB of memory, want at most %d", peak>>20, most>>20)
	}
}

// BenchmarkValidateFolder checks 20 files of 10,000 samples, or BENCH_FILES, in a process of
// its own: MB/s of documents, the peak of its memory (resident, with the
// program itself), and how many cores were busy.
func BenchmarkValidateFolder(b *testing.B) {
	files, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_FILES"), "20"))
	must(b, err)
	folder, size := writeFolder(b, files, 10_000)
	program, err := os.Executable()
	must(b, err)
	link := filepath.Join(b.TempDir(), "cairn") // the test binary is the command by that name
	must(b, os.Symlink(program, link))
	b.SetBytes(size)
	var peak, cores float64
	for b.Loop() {
		begin := time.Now()
		cmd := exec.CommandContext(b.Context(), link, "activity", "validate", folder)
		out, err := cmd.Output()
		if err != nil || !bytes.HasPrefix(out, fmt.Appendf(nil, "%d documents, 0 invalid", files+1)) {
			b.Fatalf("%v: %s", err, out)
		}
		peak = max(peak, residentMB(cmd.ProcessState))
		cores = max(cores,
			(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds()/time.Since(begin).Seconds())
	}
	b.ReportMetric(peak, "peak-MB")
	b.ReportMetric(cores, "cores")
}
