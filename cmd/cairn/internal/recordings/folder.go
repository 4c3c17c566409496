package recordings

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-id/cairn/activityschema"
)

// The published layout of an owner's folder. An index may name further files, its shards.
const (
	indexFile     = "index.json"
	detailsFolder = "activities"
)

// Ranks of the documents of a folder in a report.
const (
	rankIndex = iota
	rankShard
	rankDetail
)

// A source is where a document comes from.
type source struct {
	name   string // as the report shows it
	folder *folder
	file   string // path in the folder, with slashes; empty outside one
	raw    func() (io.ReadCloser, error)
}

// open opens the document and decompresses it. A compressed document has a name that ends in .gz, or
// begins with the magic number of gzip (RFC 1952 section 2.3.1), which no JSON does. The caller must
// limit what it reads: a small file may decompress to a large one.
func (s *source) open() (io.ReadCloser, error) {
	type reader struct {
		io.Reader
		io.Closer
	}
	f, err := s.raw()
	if err != nil {
		return nil, err
	}
	packed := bufio.NewReader(f)
	magic, _ := packed.Peek(2) // the next Read returns the error again
	if !strings.HasSuffix(s.name, ".gz") && !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return reader{packed, f}, nil
	}
	z, err := gzip.NewReader(packed)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return reader{z, f}, nil
}

// plainError returns why a file could not be read, without its path, which is printed already.
func plainError(err error) string {
	pathErr, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case isPath:
		return pathErr.Err.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "not a complete gzip file, or something follows it"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum),
		errors.As(err, new(flate.CorruptInputError)):
		return "not a gzip file, or a damaged one: " + err.Error()
	}
	return err.Error()
}

// sourcesOf returns the documents that one argument names, and the folder if the argument names one. A
// folder that cannot be read is one source, which fails to open.
func sourcesOf(arg string, stdin io.Reader, lint bool) ([]*result, *folder) {
	one := &result{source: &source{name: arg, raw: func() (io.ReadCloser, error) { return os.Open(arg) }}}
	if arg == "-" {
		one.source.raw = func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }
		return []*result{one}, nil
	}
	if info, err := os.Stat(arg); err != nil || !info.IsDir() {
		return []*result{one}, nil
	}
	f := &folder{name: arg, documents: map[string]bool{}, others: map[string]bool{}}
	if lint {
		f.library = activityschema.NewLibrary()
	}
	var err error
	if f.root, err = os.OpenRoot(arg); err == nil {
		err = f.walk()
	}
	if err == nil && len(f.documents) == 0 {
		err = fmt.Errorf("no documents in this folder: looked for %s and %s/*.json", indexFile, detailsFolder)
	}
	if err != nil {
		one.source.raw = func() (io.ReadCloser, error) { return nil, err }
		return []*result{one}, f
	}
	// The indexes come first because they may name shards.
	var indexes, details []*result
	for _, file := range slices.Sorted(maps.Keys(f.documents)) {
		if strings.Contains(file, "/") {
			details = append(details, &result{source: f.source(file), rank: rankDetail})
		} else {
			indexes = append(indexes, &result{source: f.source(file), rank: rankIndex})
		}
	}
	return append(indexes, details...), f
}

// A folder is a published folder. All of its files are opened through root, so that no symbolic link
// leads out of it.
type folder struct {
	name    string
	root    *os.Root
	library *activityschema.Library // nil without lint

	mu        sync.Mutex
	documents map[string]bool // paths in the folder, with slashes
	others    map[string]bool
}

// walk finds the files whose names are those of documents. It skips folders whose names begin with a
// dot (.git). It follows detailsFolder if that is a symbolic link.
func (f *folder) walk() error {
	note := func(file string) {
		if isDocument(file) {
			f.documents[file] = true
		} else {
			f.others[file] = true
		}
	}
	return fs.WalkDir(f.root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && (file == "." || file == detailsFolder):
			return fmt.Errorf("%s: %s", file, plainError(err))
		case err != nil, entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
		case file == detailsFolder && entry.Type()&fs.ModeSymlink != 0:
			entries, err := fs.ReadDir(f.root.FS(), file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, linkError(err))
			}
			for _, entry := range entries {
				if !entry.IsDir() {
					note(path.Join(file, entry.Name()))
				}
			}
		default:
			note(file)
		}
		return nil
	})
}

func linkError(err error) error {
	return errors.New("a symbolic link, which is followed only within the folder: " + plainError(err))
}

// isDocument reports whether a file of the folder is a document, by its path. The compressed copy of a
// document is a document too.
func isDocument(file string) bool {
	dir, name := path.Split(strings.TrimSuffix(file, ".gz"))
	return dir == "" && name == indexFile || dir == detailsFolder+"/" && strings.HasSuffix(name, ".json")
}

// source returns the source of a file of the folder.
func (f *folder) source(file string) *source {
	return &source{
		name: filepath.Join(f.name, filepath.FromSlash(file)), folder: f, file: file,
		raw: func() (io.ReadCloser, error) {
			info, err := f.root.Stat(file)
			if err != nil {
				if link, lstatErr := f.root.Lstat(file); lstatErr == nil && link.Mode()&fs.ModeSymlink != 0 {
					err = linkError(err)
				}
				return nil, err
			}
			if !info.Mode().IsRegular() {
				return nil, errors.New("not a regular file")
			}
			return f.root.Open(file)
		},
	}
}

// add adds a document to the comparison; document is nil for a file that is not a valid one. It returns
// the shards that the document names and that were not yet known to be documents. Of a document and its
// compressed copy, only the document is compared.
func (f *folder) add(file string, document *activityschema.Document) (shards []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	plain, packed := strings.CutSuffix(file, ".gz")
	if f.library != nil && !(packed && f.documents[plain]) {
		f.library.Add(plain, document)
	}
	if document == nil || document.Index == nil {
		return nil
	}
	for _, shard := range document.Index.Shards {
		names, _ := activityschema.FolderPaths(file, shard.URL)
		i := slices.IndexFunc(names, func(name string) bool { return f.holds(name) || f.holds(name+".gz") })
		if i < 0 {
			continue
		}
		for _, name := range []string{names[i], names[i] + ".gz"} {
			if f.holds(name) && !f.documents[name] {
				f.documents[name] = true
				delete(f.others, name)
				shards = append(shards, name)
			}
		}
	}
	return shards
}

func (f *folder) holds(file string) bool {
	info, err := f.root.Lstat(filepath.FromSlash(file))
	return err == nil && !info.IsDir()
}
