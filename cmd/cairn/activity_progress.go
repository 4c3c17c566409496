package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// A progressBar shows how many documents are done. The nil bar shows nothing.
type progressBar struct {
	quit, gone chan struct{}
}

// progress starts the bar if somebody at a terminal is to read a text: in a log
// it would be noise.
func (c *validateCommand) progress(p *program, v *validation) *progressBar {
	f, ok := p.stderr.(*os.File)
	if !ok || c.Quiet || c.Format != "text" || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	b := &progressBar{quit: make(chan struct{}), gone: make(chan struct{})}
	go b.draw(f, v)
	return b
}

// draw redraws the bar until it is stopped, and then takes it away.
func (b *progressBar) draw(w io.Writer, v *validation) {
	defer close(b.gone)
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		fmt.Fprint(w, "\r"+barOf(v.done.Load(), v.total.Load()))
		select {
		case <-t.C:
		case <-b.quit:
			fmt.Fprint(w, "\r\x1b[K") // erase the line (ECMA-48, EL)
			return
		}
	}
}

// barOf draws a bar for narrow terminals, too.
func barOf(done, total int64) string {
	const width = 20
	filled := 0
	if total > 0 {
		filled = int(done * width / total)
	}
	return fmt.Sprintf("[%s%s] %d/%d documents", strings.Repeat("#", filled), strings.Repeat(".", width-filled), done, total)
}

// stop takes the bar away.
func (b *progressBar) stop() {
	if b == nil {
		return
	}
	close(b.quit)
	<-b.gone
}
