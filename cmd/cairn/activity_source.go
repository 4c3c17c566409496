package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// wholeBytes is the size up to which a document is read once and kept while it
// is checked, as many at once as there are jobs. A larger one is validated as
// it streams by, and only a valid one is read again and kept, one at a time.
const wholeBytes = 4 << 20

// A source is where a document comes from.
type source struct {
	name   string // as the report shows it
	folder *folder
	file   string // path in the folder, with slashes; empty outside one
	once   bool   // standard input or a pipe: what was read is gone
	zipped bool
	raw    func() (io.ReadCloser, error)
}

// open opens the document, unpacked.
func (s *source) open() (io.ReadCloser, error) {
	f, err := s.raw()
	if err != nil {
		return nil, plainError(err)
	}
	if !s.zipped {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(zipError(err), f.Close())
	}
	return unzipped{z, f}, nil
}

// unzipped reads the content of a gzip file. Whoever reads it sets the limit:
// a small file may unpack to a large one.
type unzipped struct {
	z *gzip.Reader
	f io.Closer
}

func (u unzipped) Read(p []byte) (int, error) {
	n, err := u.z.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = zipError(err)
	}
	return n, err
}

func (u unzipped) Close() error { return u.f.Close() }

func zipError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not a complete gzip file, or something follows it")
	}
	return fmt.Errorf("not a gzip file, or a damaged one: %w", err)
}

// plainError leaves out the path, which is printed already.
func plainError(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	if linkErr, ok := errors.AsType[*os.LinkError](err); ok {
		return linkErr.Err
	}
	return err
}

// readAll reads r on top of buf, up to limit bytes in all. whole tells whether
// that was the end of r.
func readAll(r io.Reader, buf []byte, limit int64) (data []byte, whole bool, err error) {
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, true, nil
		}
		if err != nil {
			return buf, false, plainError(err)
		}
	}
	return buf, false, nil
}

// namedSource is a file of the command line.
func namedSource(name string, info fs.FileInfo) *source {
	return &source{
		name: name, once: !info.Mode().IsRegular(), zipped: strings.HasSuffix(name, ".gz"),
		raw: func() (io.ReadCloser, error) { return os.Open(name) },
	}
}

// standardInput is the source named -.
func standardInput(r io.Reader) *source {
	return &source{name: "-", once: true, raw: func() (io.ReadCloser, error) { return &sniffed{Reader: r}, nil }}
}

// sniffed reads what may be packed and has no name that tells: no JSON begins as gzip
// does (RFC 1952 section 2.3.1). It looks when it is read, for nobody may have typed yet.
type sniffed struct {
	io.Reader
	looked bool
}

func (s *sniffed) Read(p []byte) (int, error) {
	if !s.looked {
		s.looked = true
		packed := bufio.NewReader(s.Reader)
		s.Reader = packed
		begin, _ := packed.Peek(2) // an error comes again
		if bytes.Equal(begin, []byte{0x1f, 0x8b}) {
			z, err := gzip.NewReader(packed)
			if err != nil {
				return 0, zipError(err)
			}
			s.Reader = unzipped{z: z}
		}
	}
	return s.Reader.Read(p)
}

func (s *sniffed) Close() error { return nil }

// largest is the size up to which a document is read, in bytes.
const largest = activityschema.MaxBytes
