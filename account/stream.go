package account

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// streamTimeout is how long a client may take for a part of a document.
const streamTimeout = 30 * time.Second

// streamJSON writes doc, in which the member named is an empty list, and fills the list
// as it is read: pages calls add with entries, and without any at the end of a page. What
// fails before the first page is complete is answered as usual; later the connection
// ends within the document, so that nobody takes it for a whole one.
func (s *Service) streamJSON(w http.ResponseWriter, r *http.Request, doc any, member string, pages func(add func(entries ...any) error) error) {
	whole, err := json.Marshal(doc)
	if err != nil {
		s.Fail(w, r, fmt.Errorf("encode: %w", err))
		return
	}
	// Between quotation marks that are not escaped it is no text of somebody's.
	name, err := json.Marshal(member)
	head, tail, found := bytes.Cut(whole, append(name, ":[]"...))
	if err != nil || !found {
		s.Fail(w, r, fmt.Errorf("no list %q to stream", member))
		return
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%s:[", head, name)
	started, first := false, true
	send := func() error {
		if !started {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusOK)
			started = true
		}
		// The server's own limit is for an answer as a whole.
		_ = http.NewResponseController(w).SetWriteDeadline(s.clock().Add(streamTimeout))
		_, err := b.WriteTo(w)
		return err
	}
	err = pages(func(entries ...any) error {
		for _, e := range entries {
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			b.Write(text)
		}
		if len(entries) > 0 {
			return nil
		}
		return send()
	})
	if err == nil {
		fmt.Fprintf(&b, "]%s\n", tail)
		err = send()
	}
	switch {
	case err == nil:
	case started:
		panic(http.ErrAbortHandler)
	default:
		w.Header().Del("Content-Disposition")
		s.Fail(w, r, err)
	}
}
