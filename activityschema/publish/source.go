package publish

import (
	"archive/zip"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// A Source is a recording to import: a file, or a file in a zip archive.
type Source struct {
	Name string // for messages; in an archive the path of the archive, a slash and that of the file
	Path string // of the file, or of the archive
	// Title is the title that the export of an account gives the recording, or "".
	Title string

	entry *zip.File // nil for a file of its own
	err   error     // why there is nothing to read
}

// sources are recordings to import, sorted by name. They must be closed.
type sources struct {
	List     []Source
	archives []io.Closer
}

// Close closes the archives.
func (s *sources) Close() error {
	var err error
	for _, a := range s.archives {
		err = errors.Join(err, a.Close())
	}
	return err
}

// titlesFile is the list of activities in the export of a Strava account.
const titlesFile = "activities.csv"

// FindSources returns the recordings that paths name: a file itself, and the files of a folder or an
// archive, and of the archives in that, that have the extension of a recording. It skips names in folders and archives
// that begin with a dot. What cannot be read is among the result, so that Import reports it.
func FindSources(paths []string) *sources {
	s := &sources{}
	for _, given := range paths {
		info, err := os.Stat(given)
		if err != nil || !info.IsDir() {
			s.add(given)
			continue
		}
		from := len(s.List)
		_ = filepath.WalkDir(given, func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				s.List = append(s.List, Source{Name: file, Path: file, err: plain(err)})
			case file != given && strings.HasPrefix(entry.Name(), "."):
				if entry.IsDir() {
					return fs.SkipDir
				}
			case !entry.IsDir() && (isRecording(file) || isArchive(file)):
				s.add(file)
			}
			return nil
		})
		s.title(s.List[from:], os.DirFS(given), given)
	}
	slices.SortStableFunc(s.List, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	s.List = slices.CompactFunc(s.List, func(a, b Source) bool { return a.Name == b.Name })
	return s
}

func isRecording(file string) bool {
	return slices.Contains([]string{".gpx", ".tcx", ".fit"}, path.Ext(strings.TrimSuffix(strings.ToLower(file), ".gz")))
}

func isArchive(file string) bool { return strings.EqualFold(path.Ext(file), ".zip") }

// add adds a file, or the recordings in it if it is an archive.
func (s *sources) add(file string) {
	if !isArchive(file) {
		s.List = append(s.List, Source{Name: file, Path: file})
		return
	}
	archive, err := zip.OpenReader(file)
	if err != nil {
		s.List = append(s.List, Source{Name: file, Path: file, err: plain(err)})
		return
	}
	s.archives = append(s.archives, archive)
	from := len(s.List)
	s.addEntries(file, file, &archive.Reader, true)
	s.title(s.List[from:], archive, file)
}

// addEntries adds the recordings of an archive, and of the archives in it: Garmin's export is one of several.
func (s *sources) addEntries(file, name string, archive *zip.Reader, outer bool) {
	for _, entry := range archive.File {
		hidden := func(part string) bool {
			return strings.HasPrefix(part, ".") && part != ".." || part == "__MACOSX"
		}
		clean := path.Clean(entry.Name) // may begin with .., and no file gets this name
		if slices.ContainsFunc(strings.Split(clean, "/"), hidden) {
			continue
		}
		found := Source{Name: name + string(filepath.Separator) + filepath.FromSlash(clean), Path: file, entry: entry}
		switch {
		case isArchive(entry.Name) && outer:
			inner, err := s.unpack(entry)
			if err == nil {
				s.addEntries(file, found.Name, inner, false)
				continue
			}
			found.err = err
		case isArchive(entry.Name):
			found.err = errors.New("the archives are nested too deeply: unpack the outer ones, and import the " +
				"folder")
		case !isRecording(entry.Name):
			continue
		}
		s.List = append(s.List, found)
	}
}

// Limits of an archive in an archive. One that fits in memory needs no temporary file, which a browser may not have.
const (
	maxArchiveBytes = 8 << 30
	inMemoryBytes   = maxFileBytes
)

// unpack opens an archive in an archive.
func (s *sources) unpack(entry *zip.File) (*zip.Reader, error) {
	packed, err := entry.Open()
	if err != nil {
		return nil, fmt.Errorf("in the archive: %w", err)
	}
	defer func() { _ = packed.Close() }()
	in := &capped{r: packed, left: maxArchiveBytes}
	if entry.UncompressedSize64 <= inMemoryBytes {
		data, err := io.ReadAll(in)
		if err != nil {
			return nil, fmt.Errorf("in the archive: %w", readError(err))
		}
		return zip.NewReader(bytes.NewReader(data), int64(len(data)))
	}
	f, err := os.CreateTemp("", "cairn-*.zip")
	if err != nil {
		return nil, plain(err)
	}
	s.archives = append(s.archives, temporary{f})
	size, err := io.Copy(f, in)
	if err != nil {
		return nil, fmt.Errorf("in the archive: %w", readError(err))
	}
	return zip.NewReader(f, size)
}

// A temporary file is removed when it is closed.
type temporary struct{ *os.File }

// Close implements io.Closer.
func (t temporary) Close() error { return errors.Join(t.File.Close(), os.Remove(t.Name())) }

// title sets the titles that the list of an export beside its recordings gives. The header is in the
// language of the account, but the third column is the title, and only one names files.
func (s *sources) title(found []Source, at fs.FS, name string) {
	list, err := at.Open(titlesFile)
	if err != nil {
		return // not an export
	}
	defer func() { _ = list.Close() }()
	titles := map[string]string{}
	rows := csv.NewReader(&capped{r: list, left: maxFileBytes})
	rows.FieldsPerRecord, rows.LazyQuotes, rows.ReuseRecord = -1, true, true
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			err = fmt.Errorf("titles: %w", err)
			s.List = append(s.List, Source{Name: filepath.Join(name, titlesFile), Path: name, err: err})
			return
		}
		file := slices.IndexFunc(row, func(cell string) bool { return strings.HasPrefix(cell, "activities/") })
		if file >= 3 {
			titles[filepath.Join(name, row[file])] = titleOf(row[2])
		}
	}
	for i := range found {
		found[i].Title = titles[found[i].Name]
	}
}

// titleOf returns a title on one line of at most 100 characters.
func titleOf(given string) string {
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}
	title := []rune(strings.Join(strings.Fields(strings.Map(printable, strings.ToValidUTF8(given, ""))), " "))
	return string(title[:min(len(title), 100)])
}

// open opens the content for reading.
func (s *Source) open() (io.ReadCloser, error) {
	if s.err != nil {
		return nil, s.err
	}
	if s.entry != nil {
		r, err := s.entry.Open()
		if err != nil {
			return nil, fmt.Errorf("in the archive: %w", err)
		}
		return r, nil
	}
	info, err := os.Stat(s.Path)
	if err != nil {
		return nil, plain(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, plain(err)
	}
	return f, nil
}
