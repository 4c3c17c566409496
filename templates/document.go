package templates

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Document is a public text that is the same for every client. Its gzip form is created once, on
// first use. It must not contain secrets or data from a request: the length of a compressed text
// reveals its content (BREACH).
type Document struct {
	// Values of headers. All responses share them: replace a slice, never modify it.
	contentType, cacheControl, etag []string

	plain  variant
	zipped func() variant
}

// variant is a document in one encoding, with its length.
type variant struct {
	body   []byte
	length []string
}

func newVariant(body []byte) variant { return variant{body, []string{strconv.Itoa(len(body))}} }

// NewDocument returns a document. etag includes the quotation marks. zipped is body in gzip; if it
// is nil, body is compressed on first use.
func NewDocument(contentType, cacheControl, etag string, body, zipped []byte) *Document {
	return &Document{
		contentType: []string{contentType}, cacheControl: []string{cacheControl}, etag: []string{etag},
		plain: newVariant(body),
		zipped: sync.OnceValue(func() variant {
			if zipped == nil {
				var b bytes.Buffer
				z := gzip.NewWriter(&b)
				_, _ = z.Write(body) // writing to a bytes.Buffer does not fail
				_ = z.Close()
				zipped = b.Bytes()
			}
			return newVariant(zipped)
		}),
	}
}

var (
	gzipCoding   = []string{"gzip"}
	varyEncoding = []string{"Accept-Encoding"}
)

// conditions are the headers that http.ServeContent examines. Most requests have none of them.
var conditions = []string{"If-None-Match", "If-Match", "If-Modified-Since", "If-Unmodified-Since", "Range"}

// ServeHTTP answers GET and HEAD.
func (d *Document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Cache-Control"], h["Etag"], h["Content-Type"] = d.cacheControl, d.etag, d.contentType
	if h["Vary"] == nil {
		h["Vary"] = varyEncoding
	} else {
		h.Add("Vary", "Accept-Encoding")
	}
	v := d.plain
	if acceptsGzip(r) {
		v = d.zipped()
		h["Content-Encoding"] = gzipCoding
	}
	for _, name := range conditions {
		if r.Header[name] != nil {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(v.body))
			return
		}
	}
	h["Content-Length"] = v.length
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	_, _ = w.Write(v.body)
}

// acceptsGzip reports whether Accept-Encoding names gzip with a non-zero weight (RFC 9110 section
// 12.5.3).
func acceptsGzip(r *http.Request) bool {
	accepted := r.Header["Accept-Encoding"]
	if len(accepted) == 1 && accepted[0] == "gzip" { // as Go's client sends it
		return true
	}
	for coding := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";q=")
		if strings.EqualFold(name, "gzip") {
			return strings.Trim(cmp.Or(weight, "1"), "0.") != ""
		}
	}
	return false
}
