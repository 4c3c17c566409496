package cli

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// writes keeps what each call has brought.
type writes struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, string(p))
	return len(p), w.err
}

func (w *writes) lines() (calls int, messages string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(strings.Join(w.calls, "")) {
		_, message, _ := strings.Cut(line, "msg=")
		messages += strings.TrimSpace(message) + " "
	}
	return len(w.calls), messages
}

func TestLogLinesWaitForATenthOfASecondAndNoWarningDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		log, flush := NewLog(&w, config.Checked{LogFormat: "text"})
		want := func(what string, calls int, messages string) {
			t.Helper()
			if n, got := w.lines(); n != calls || got != messages {
				t.Errorf("%s: %d writes of %q, want %d of %q", what, n, got, calls, messages)
			}
		}
		log.Info("a")
		log.Info("b")
		want("at once", 0, "")
		time.Sleep(logDelay)
		synctest.Wait()
		want("after the delay", 1, "a b ")
		log.Info("c")
		log.With("k", 1).WithGroup("g").Warn("d")
		want("a warning", 2, "a b c d k=1 ")
		log.Info("e")
		flush()
		want("the end", 3, "a b c d k=1 e ")
		flush()
		time.Sleep(time.Hour)
		want("nothing more", 3, "a b c d k=1 e ")
		log.Info("f")
		time.Sleep(logDelay)
		synctest.Wait()
		want("after a pause", 4, "a b c d k=1 e f ")
	})
}

func TestLogIsWholeAndBoundedWhileManyWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := writes{err: errors.New("full")} // what fails is not kept
		log, flush := NewLog(&w, config.Checked{LogFormat: "json"})
		text := strings.Repeat("x", 1000)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					log.Info(text)
				}
			})
		}
		all.Wait()
		flush()
		var got bytes.Buffer
		for _, call := range w.calls {
			if len(call) > logBuffer {
				t.Errorf("a write of %d bytes", len(call))
			}
			got.WriteString(call)
		}
		same(t, "whole lines", strings.Count(got.String(), `"msg":"`+text+"\"}\n"), 800)
	})
}

func TestLogLevelHolds(t *testing.T) {
	var w writes
	log, flush := NewLog(&w, config.Checked{LogLevel: slog.LevelError})
	log.Warn("a")
	flush()
	n, _ := w.lines()
	same(t, "a line below the level is written", n, 0)
}

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
