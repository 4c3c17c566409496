package templates

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Program is what the page of AccountPublish runs in the browser: cmd/publish-wasm. The zero Program is of a build
// that does not have it.
type Program struct {
	WASM []byte // compressed by gzip
	Exec []byte // wasm_exec.js of the Go version that built WASM
}

// programTime is how long the transfer of the program may take, which is longer than that of a page.
const programTime = 10 * time.Minute

// trailer returns the last eight bytes of the compressed program: the checksum and the length of what is in it (RFC
// 1952 section 2.3.1). They are its version: to read all of it for a hash would add it to the memory of every service.
func (p Program) trailer() []byte { return p.WASM[max(0, len(p.WASM)-8):] }

// Size returns the length of the program when it is unpacked; 0 if there is none.
func (p Program) Size() int {
	if len(p.trailer()) < 8 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(p.trailer()[4:]))
}

// ServeHTTP sends the program as it is to every browser, and unpacks it on the way to others.
func (p Program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, etag := w.Header(), `"`+hex.EncodeToString(p.trailer())+`"`
	h.Set("Content-Type", "application/wasm")
	h.Set("Cache-Control", forGood)
	h.Set("Etag", etag)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	var body io.Reader = bytes.NewReader(p.WASM)
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(p.WASM)))
	} else if unpacked, err := gzip.NewReader(body); err == nil {
		body = unpacked
	}
	if r.Method == http.MethodHead {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(programTime)) // of the connection
	_, _ = io.Copy(w, body)
}
