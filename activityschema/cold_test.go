package activityschema_test

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// The engines have process-wide state that is built on first use. Only a new
// process is cold, so the test starts itself again: with the race detector on,
// a race there makes the child fail.
func TestFirstUseByManyIsNeverARace(t *testing.T) {
	const child = "ACTIVITYSCHEMA_COLD_START"
	if os.Getenv(child) != "" {
		validateAtOnce(t)
		return
	}
	for range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFirstUseByManyIsNeverARace$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestFirstUseByManyIsNeverARace")) {
			t.Fatalf("the cold process: %v\n%s", err, out)
		}
	}
}

// validateAtOnce has 16 goroutines validate four documents from one moment on.
func validateAtOnce(t *testing.T) {
	documents := [][]byte{
		document(t, "detail-full.json"),
		document(t, "index-full.json"),
		edited(t, "lap", func(o map[string]any) { o["index"] = -1 }),
		edited(t, "owner", func(o map[string]any) { o["id"] = "x" }),
	}
	want := [][]string{nil, nil, {"/laps/0/index minimum"}, {"/owner/id additionalProperties"}}
	start := make(chan struct{})
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			<-start
			for n := range len(engines) * len(documents) {
				i := (g + n) % len(documents)
				o := activityschema.Options{Engine: engines[n%len(engines)]}
				found, err := o.Validate(t.Context(), bytes.NewReader(documents[i]))
				if err != nil {
					t.Errorf("document %d: %v", i, err)
				}
				if diff := cmp.Diff(want[i], places(found)); diff != "" {
					t.Errorf("document %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
	close(start)
	all.Wait()
}
