package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/cairn-id/cairn/config"
)

// NewLog returns a logger that writes text to a terminal and JSON elsewhere, unless configured
// otherwise. Elsewhere lines are buffered for at most logDelay; a warning is written at once. flush
// writes the buffered lines.
func NewLog(w io.Writer, c config.Checked) (log *slog.Logger, flush func()) {
	opts := &slog.HandlerOptions{Level: c.LogLevel}
	f, isFile := w.(*os.File)
	isTerminal := isFile && term.IsTerminal(int(f.Fd()))
	lines := &lineBuffer{to: w}
	if !isTerminal {
		w = lines
	}
	var h slog.Handler = slog.NewJSONHandler(w, opts)
	if c.LogFormat == "text" || c.LogFormat == "" && isTerminal {
		h = slog.NewTextHandler(w, opts)
	}
	return slog.New(promptHandler{h, lines}), func() { _ = lines.flush() }
}

const (
	logDelay  = 100 * time.Millisecond
	logBuffer = 32 << 10
)

// promptHandler flushes the buffer when it logs a warning or an error.
type promptHandler struct {
	slog.Handler
	lines *lineBuffer
}

// Handle implements slog.Handler.
func (h promptHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		err = errors.Join(err, h.lines.flush())
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h promptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup implements slog.Handler.
func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.lines}
}

// lineBuffer writes the lines of many requests with one system call. A system call for each line would
// cost as much as the line.
type lineBuffer struct {
	to io.Writer

	mu    sync.Mutex
	lines []byte
	timer *time.Timer // runs while there are lines; nil before the first
}

// Write implements io.Writer.
func (b *lineBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if len(b.lines)+len(line) > logBuffer {
		err = b.write()
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(logDelay, func() { _ = b.flush() })
	} else if len(b.lines) == 0 {
		b.timer.Reset(logDelay)
	}
	b.lines = append(b.lines, line...)
	return len(line), err
}

func (b *lineBuffer) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write()
}

// write empties the buffer even if it fails: the log must not grow in memory. The caller holds mu.
func (b *lineBuffer) write() error {
	if len(b.lines) == 0 {
		return nil
	}
	_, err := b.to.Write(b.lines)
	b.lines = b.lines[:0]
	return err
}
