package activityschema_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// through validates data by way of a reader and a window of another size.
func through(t testing.TB, r io.Reader, size int) []activityschema.Problem {
	t.Helper()
	found, err := activityschema.ValidateThrough(t.Context(), r, size)
	if err != nil {
		t.Fatalf("a window of %d bytes: %v", size, err)
	}
	return found
}

// edgeDocuments have something of each kind that is longer than a small window,
// or that must not be torn apart by its edge.
func edgeDocuments(t testing.TB) map[string][]byte {
	documents := map[string][]byte{}
	for _, dir := range []string{"valid", "invalid"} {
		for name, data := range corpus(t, dir, min(leastValid, leastInvalid)) {
			if len(data) < 64<<10 {
				documents[name] = data
			}
		}
	}
	digits := strings.Repeat("1234567890", 40)
	for name, custom := range map[string]string{
		"long text":          `"x": "` + strings.Repeat("plain ", 60) + `"`,
		"long wide text":     `"x": "` + strings.Repeat("äö€🚲", 40) + `"`,
		"long escaped text":  `"x": "` + strings.Repeat(`\n\u00e4\ud83d\udeb4\ud800`, 25) + `"`,
		"long name":          `"` + strings.Repeat("name", 80) + `": 1, "` + strings.Repeat("name", 79) + `": 1`,
		"long name twice":    `"` + strings.Repeat("naïve", 80) + `": 1, "` + strings.Repeat(`na\u00efve`, 80) + `": 1`,
		"long numbers":       `"x": [` + digits + `e-300, 0.` + digits + `, -0.` + strings.Repeat("0", 400) + `, 1e-` + strings.Repeat("0", 300) + `1]`,
		"number too large":   `"x": ` + digits,
		"number in halves":   `"x": 1.5e` + strings.Repeat("0", 200) + `309`,
		"white space":        strings.Repeat(" \t\r\n        ", 30) + `"x"` + strings.Repeat(" ", 200) + ":" + strings.Repeat("\n", 200) + "1" + strings.Repeat(" ", 150),
		"control character":  `"x": "` + strings.Repeat("plain ", 60) + "\x01\"",
		"end in the text":    `"x": "` + strings.Repeat("plain ", 60),
		"not UTF-8":          `"x": "` + strings.Repeat("plain€", 60) + "\xe2\x82\"",
		"bad escape":         `"x": "` + strings.Repeat(`\n`, 120) + `\u12x4"`,
		"columns":            `"x": [` + strings.Repeat("1.25, -7 ,null,12345678901234567890,0.1234567890123456789,", 20) + `01]`,
		"end in the array":   `"x": [` + strings.Repeat("1.25,null,", 30),
		"end in the literal": `"x": [` + strings.Repeat("1.25,null,", 30) + "nul",
	} {
		documents[name] = bytes.Replace(document(t, "detail-minimal.json"), []byte(`"custom": {}`), []byte(`"custom": {`+custom+`}`), 1)
	}
	long := strings.Repeat("7", 300)
	columns := string(document(t, "detail-minimal.json"))
	for name, column := range map[string]string{
		"samples":         strings.Repeat("0,-1,12345678,1234567890123456,12345678901234567,1.0,1e2,", 8) + "3",
		"wrong samples":   strings.Repeat("0, -1 ,null,1.5,\n12345678.5,\"x\",", 8) + "3",
		"long samples":    long + "," + long + ".000," + long + ".5," + long + "e-1,0." + long,
		"broken sample":   strings.Repeat("0,-1,", 60) + "1.",
		"leading zero":    strings.Repeat("0,-1,", 60) + "-01",
		"missing comma":   strings.Repeat("0,-1,", 60) + "0 1",
		"trailing comma":  strings.Repeat("0,-1,", 60),
		"two commas":      strings.Repeat("0,-1,", 60) + ",1",
		"comma first":     ",1",
		"minus alone":     strings.Repeat("0,-1,", 60) + "-,1",
		"point alone":     strings.Repeat("0,-1,", 60) + "1.,1",
		"exponent alone":  strings.Repeat("0,-1,", 60) + "1e,1",
		"exponent signed": strings.Repeat("0,-1,", 60) + "1e+,1",
	} {
		start := strings.Index(columns, `"t": [`) + len(`"t": [`)
		end := start + strings.IndexByte(columns[start:], ']')
		documents[name] = []byte(columns[:start] + column + columns[end:])
	}
	return documents
}

// The answer is that to the whole document, wherever the window ends and
// however few bytes a read returns.
func TestWindowNeverShowsInTheAnswer(t *testing.T) {
	for name, data := range edgeDocuments(t) {
		want := problems(t, data)
		for size := activityschema.LeastWindow; size < 2*activityschema.LeastWindow; size++ {
			if diff := cmp.Diff(want, through(t, bytes.NewReader(data), size)); diff != "" {
				t.Fatalf("%s, a window of %d bytes (-whole +window):\n%s", name, size, diff)
			}
		}
		for reader, r := range map[string]io.Reader{
			"one byte":           iotest.OneByteReader(bytes.NewReader(data)),
			"half":               iotest.HalfReader(bytes.NewReader(data)),
			"data with its end":  iotest.DataErrReader(bytes.NewReader(data)),
			"nothing in between": &haltingReader{r: bytes.NewReader(data)},
		} {
			if diff := cmp.Diff(want, through(t, r, 1000)); diff != "" {
				t.Fatalf("%s, read by %s (-whole +read):\n%s", name, reader, diff)
			}
		}
	}
}

// haltingReader returns nothing at every other call.
type haltingReader struct {
	r     io.Reader
	ready bool
}

func (h *haltingReader) Read(p []byte) (int, error) {
	if h.ready = !h.ready; !h.ready {
		return 0, nil
	}
	return h.r.Read(p[:min(len(p), 3)])
}

// FuzzWindow: the answer does not depend on the sizes of the reads and of the
// window, both told by seed.
func FuzzWindow(f *testing.F) {
	for _, data := range edgeDocuments(f) {
		f.Add(data, uint64(len(data)))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		want, err := activityschema.Validate(t.Context(), bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(seed, 5))
		size := activityschema.LeastWindow + random.IntN(400)
		if diff := cmp.Diff(want, through(t, chunkReader{bytes.NewReader(data), random}, size)); diff != "" {
			t.Fatalf("a window of %d bytes (-whole +pieces):\n%s", size, diff)
		}
	})
}

// chunkReader returns a few bytes at a time.
type chunkReader struct {
	r io.Reader
	*rand.Rand
}

func (c chunkReader) Read(p []byte) (int, error) {
	return c.r.Read(p[:min(len(p), 1+c.IntN(1+c.IntN(200)))])
}

// A reader that breaks its contract is an error, no panic and no endless loop.
func TestBrokenReaderIsNeverTrusted(t *testing.T) {
	data := document(t, "detail-full.json")
	for name, read := range map[string]func(p []byte) (int, error){
		"too many":    func(p []byte) (int, error) { return len(p) + 1, nil },
		"negative":    func([]byte) (int, error) { return -1, nil },
		"nothing":     func([]byte) (int, error) { return 0, nil },
		"wrapped end": func(p []byte) (int, error) { return copy(p, data), fmt.Errorf("the line dropped: %w", io.EOF) },
	} {
		found, err := activityschema.Validate(t.Context(), readerFunc(read))
		if err == nil || found != nil {
			t.Errorf("%s: %v, %v; want an error", name, found, err)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
