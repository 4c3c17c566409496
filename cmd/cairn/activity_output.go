package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/cairn-id/cairn/activityschema"
)

// An outputFolder is where --fix writes, and nowhere else: everything goes
// through its root, which no symbolic link leads out of.
type outputFolder struct {
	name string

	// writing is held for reading while a document is written, so that a
	// program that is stopped leaves no temporary file behind.
	writing sync.RWMutex
	stopped bool
	root    *os.Root
}

// checkOutput refuses a folder that is, or lies in, one of those that are read:
// the repaired documents would be published beside what they replace.
func checkOutput(output string, folders []string) error {
	// The folder may not exist yet: what exists of its path tells.
	for at := absolute(output); ; at = filepath.Dir(at) {
		here, err := os.Stat(at)
		for _, name := range folders {
			if there, statErr := os.Stat(name); err == nil && statErr == nil && os.SameFile(here, there) {
				return usageError{fmt.Sprintf("--output %s lies in %s, which is read: choose a folder outside of it", shown(output), shown(name))}
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// absolute resolves the symbolic links in what exists of a path.
func absolute(name string) string {
	full, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		return real
	}
	if parent := filepath.Dir(full); parent != full {
		return filepath.Join(absolute(parent), filepath.Base(full))
	}
	return full
}

// writeFixed writes every document that passes, also against the others of its
// folder, into the output folder. Like run, it is not to be waited for once ctx
// is done, but the folder is to be stopped then.
func (v *validation) writeFixed(ctx context.Context, o *outputFolder) {
	taken, disagree := map[string]bool{}, v.disagreeing()
	for _, r := range v.results {
		if r.err != nil || !r.fixed.ready || !v.passes(r.answer) {
			continue
		}
		if disagree[r.source.folder] {
			r.fixed.withheld = true
			continue
		}
		if taken[r.source.target] {
			r.err = fmt.Errorf("not written: another document of this run is %s in %s", shown(r.source.target), shown(o.name))
			continue
		}
		taken[r.source.target] = true
		select {
		case v.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		v.work.Go(func() {
			defer func() { <-v.slots }()
			if err := v.write(ctx, o, r); err != nil {
				r.err = fmt.Errorf("not written: %w", err)
				return
			}
			r.fixed.path = filepath.Join(o.name, filepath.FromSlash(r.source.target))
		})
	}
	v.work.Wait()
}

// disagreeing are the folders in which an index and a detail say different
// things about the privacy of an activity: only one of the two is told of it,
// and the other may be the one that shows too much.
func (v *validation) disagreeing() map[*folder]bool {
	folders := map[*folder]bool{}
	for _, r := range v.results {
		for _, f := range r.Findings {
			if f.Code == activityschema.CodePrivacyMismatch && f.Severity == activityschema.SeverityError {
				folders[r.source.folder] = true
			}
		}
	}
	return folders
}

// write repairs a document once more, holds it against what was checked, and
// writes it.
func (v *validation) write(ctx context.Context, o *outputFolder, r *result) error {
	data, release, err := v.load(ctx, r.source)
	if err != nil {
		return err
	}
	defer release()
	mode, err := r.source.mode()
	if err != nil {
		return err
	}
	got, err := v.inspect(ctx, data)
	if err != nil {
		return err
	}
	document, _, changes, err := v.repair(ctx, data, got)
	if err != nil {
		return err
	}
	if sha256.Sum256(document) != r.fixed.sum {
		return errors.New("it changed while it was being checked: run again")
	}
	if r.source.zipped {
		if document, err = r.source.pack(document, len(changes) > 0); err != nil {
			return err
		}
	}
	return o.write(ctx, r.source.target, document, mode)
}

// pack returns the gzip file of a document: the file itself if nothing in it
// was changed.
func (s *source) pack(document []byte, changed bool) ([]byte, error) {
	f, err := s.raw()
	if err != nil {
		return nil, plainError(err)
	}
	defer func() { _ = f.Close() }()
	if !changed {
		file, whole, err := readAll(f, nil, largest)
		if err == nil && (!whole || !unpacksTo(file, document)) {
			err = errors.New("it changed while it was being checked: run again")
		}
		return file, err
	}
	before, err := gzip.NewReader(f)
	if err != nil {
		return nil, zipError(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Name, z.Comment = before.Name, before.Comment
	_, err = z.Write(document)
	err = errors.Join(err, z.Close())
	return packed.Bytes(), err
}

func unpacksTo(file, document []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return false
	}
	unpacked, err := io.ReadAll(io.LimitReader(z, int64(len(document))+1))
	return err == nil && bytes.Equal(unpacked, document)
}

// stop waits until no document is being written and lets none begin.
func (o *outputFolder) stop() {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.stopped = true
	if o.root != nil {
		_ = o.root.Close()
	}
}

// open makes the folder if need be.
func (o *outputFolder) open(mode fs.FileMode) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	if o.root != nil || o.stopped {
		return nil
	}
	_, missing := os.Stat(o.name)
	if err := os.MkdirAll(o.name, 0o700); err != nil {
		return err
	}
	if errors.Is(missing, fs.ErrNotExist) {
		if err := os.Chmod(o.name, mode); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(o.name)
	o.root = root
	return err
}

// write puts a new file into the folder: all of it or nothing, and never in the
// place of another. renameio would replace one; a link does not.
func (o *outputFolder) write(ctx context.Context, file string, data []byte, mode fs.FileMode) error {
	// Published files are read by a web server. The program's umask is for
	// secrets, so that the bits are those of the source, and folders match.
	folderMode := mode | 0o700 | mode&0o444>>2
	if err := o.open(folderMode); err != nil {
		return plainError(err)
	}
	o.writing.RLock()
	defer o.writing.RUnlock()
	if o.stopped {
		return context.Canceled
	}
	if err := o.makeFolders(path.Dir(file), folderMode); err != nil {
		return plainError(err)
	}
	temporary := path.Join(path.Dir(file), ".cairn-"+rand.Text())
	f, err := o.root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return plainError(err)
	}
	defer func() { _ = o.root.Remove(temporary) }()
	_, err = io.Copy(f, contextReader{ctx, bytes.NewReader(data)})
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return plainError(err)
	}
	if err := o.root.Link(temporary, file); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already and is not overwritten", shown(filepath.Join(o.name, filepath.FromSlash(file))))
	} else if err != nil {
		return plainError(err)
	}
	return nil
}

// makeFolders makes a folder and those above it.
func (o *outputFolder) makeFolders(dir string, mode fs.FileMode) error {
	if dir == "." {
		return nil
	}
	if err := o.makeFolders(path.Dir(dir), mode); err != nil {
		return err
	}
	err := o.root.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil // or a file is: then nothing can be written below it
	}
	if err != nil {
		return err
	}
	return o.root.Chmod(dir, mode)
}
