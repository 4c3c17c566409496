package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cairn-id/cairn/activityschema"
)

// The published layout of an owner's folder; an index may name further files,
// its shards.
const (
	indexFile     = "index.json"
	detailsFolder = "activities"
)

var errNoDocuments = fmt.Errorf("no documents in this folder: looked for %s and %s/*.json", indexFile, detailsFolder)

// A folder is a published folder. Everything is opened through its root, so
// that no symbolic link leads out of it.
type folder struct {
	name    string
	root    *os.Root
	library *activityschema.Library // nil without lint

	mu        sync.Mutex
	documents map[string]bool // paths in the folder, with slashes
	others    map[string]bool
}

func openFolder(name string, lint bool) (*folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, plainError(err)
	}
	f := &folder{name: name, root: root, documents: map[string]bool{}, others: map[string]bool{}}
	if lint {
		f.library = activityschema.NewLibrary()
	}
	return f, nil
}

// walk finds the documents that the layout tells by their names. Folders whose
// names begin with a dot hold no documents and are not counted (.git).
func (f *folder) walk() error {
	return fs.WalkDir(f.root.FS(), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && (file == "." || file == detailsFolder):
			return fmt.Errorf("%s: %w", file, plainError(err))
		case err != nil:
			return fs.SkipDir
		case entry.IsDir() && file != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
		case isDocument(file):
			f.documents[file] = true
		case file == detailsFolder && entry.Type()&fs.ModeSymlink != 0:
			return f.walkLink(file)
		default:
			f.others[file] = true
		}
		return nil
	})
}

// walkLink is for a folder of details that is a symbolic link, which a walk
// does not follow.
func (f *folder) walkLink(file string) error {
	entries, err := fs.ReadDir(f.root.FS(), file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, linkError(err))
	}
	for _, entry := range entries {
		if name := path.Join(file, entry.Name()); !entry.IsDir() && isDocument(name) {
			f.documents[name] = true
		} else if !entry.IsDir() {
			f.others[name] = true
		}
	}
	return nil
}

func linkError(err error) error {
	return fmt.Errorf("a symbolic link, which is followed within the folder only: %w", plainError(err))
}

// isDocument tells by the path whether a file of the folder is a document. One
// that is packed beside it is published like it, and checked like it.
func isDocument(file string) bool {
	dir, name := path.Split(strings.TrimSuffix(file, ".gz"))
	return dir == "" && name == indexFile || dir == detailsFolder+"/" && strings.HasSuffix(name, ".json")
}

// source is a document of the folder.
func (f *folder) source(file string) *source {
	return &source{
		name: filepath.Join(f.name, filepath.FromSlash(file)), folder: f, file: file, zipped: strings.HasSuffix(file, ".gz"),
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

// add gives a document to the comparison; nil for a file that is there and is
// none. Of a document and its packed copy the document counts.
func (f *folder) add(file string, document *activityschema.Document) {
	if f.library == nil {
		return
	}
	plain, packed := strings.CutSuffix(file, ".gz")
	if f.mu.Lock(); packed && f.documents[plain] {
		plain = ""
	}
	f.mu.Unlock()
	if plain != "" {
		f.library.Add(plain, document)
	}
}

// newShards returns the files that an index names and that were not known to
// be documents.
func (f *folder) newShards(file string, index *activityschema.Index) []string {
	var found []string
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, shard := range index.Shards {
		for _, name := range shardFiles(file, shard.URL) {
			if !f.holds(name) && !f.holds(name+".gz") {
				continue
			}
			for _, name := range []string{name, name + ".gz"} {
				if f.holds(name) && !f.documents[name] {
					f.documents[name] = true
					delete(f.others, name)
					found = append(found, name)
				}
			}
			break
		}
	}
	return found
}

func (f *folder) holds(file string) bool {
	info, err := f.root.Lstat(filepath.FromSlash(file))
	return err == nil && !info.IsDir()
}

// shardFiles are the paths in the folder that an address in the document file
// may mean, as activityschema.Library takes them: relative to the document
// (RFC 3986), or to the folder, or the end of a full address.
func shardFiles(file, address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Path == "" {
		return nil
	}
	var names []string
	add := func(name string) {
		if name != "" && name != "." && name != ".." && !strings.HasPrefix(name, "../") {
			names = append(names, name)
		}
	}
	if u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		rest, more := strings.TrimPrefix(path.Clean(u.Path), "/"), true
		for more {
			add(rest)
			_, rest, more = strings.Cut(rest, "/")
		}
		return names
	}
	add(path.Join(path.Dir(file), u.Path))
	add(path.Join(u.Path))
	return names
}
