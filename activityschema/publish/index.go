package publish

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"

	"github.com/cairn-id/cairn/activityschema"
)

// The layout of a published folder.
const (
	indexFile     = "index.json"
	detailsFolder = "activities"
)

// inlineActivities is how many of the newest activities index.json lists. If there are more, each
// year has a shard, index-YEAR.json, with all its activities.
const inlineActivities = 200

var (
	shardFile = regexp.MustCompile(`^index-\d{4}\.json$`)
	// leftover matches the temporary files of a process that was killed.
	leftover = regexp.MustCompile(`^\..+\.json\d+$`)
)

var (
	// ErrNoOwner means that a folder has no index yet and its owner was not given.
	ErrNoOwner = errors.New("the folder has no index.json yet, and its owner is unknown")
	// errInUse means that another process writes to the folder.
	errInUse = errors.New("another cairn is writing to this folder: try again when it has finished")
)

// An entry is an activity of the folder without its samples.
type entry struct {
	activityschema.Activity
	duplicateOf string
}

// A FileError says why a file could not be used.
type FileError struct {
	File string
	Err  error
}

// Error implements error.
func (e *FileError) Error() string { return fmt.Sprintf("%q: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Counts describe an index.
type Counts struct {
	Listed  int  `json:"listed"`
	Private int  `json:"private"` // not listed, with the duplicates
	Shards  int  `json:"shards"`
	Changed bool `json:"changed"`
}

// WriteIndex writes index.json and its shards from the documents in the folder. It does not list
// private activities and duplicates. A file whose content would be the same is not written. Empty
// fields of owner are taken from index.json. Documents that cannot be read are left out and returned.
func WriteIndex(
	ctx context.Context, dir string, owner activityschema.Owner, now time.Time,
) (Counts, []*FileError, error) {
	var counts Counts
	owner, err := OwnerOf(dir, owner)
	if err != nil {
		return counts, nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return counts, nil, err
	}
	defer unlock()
	entries, bad, err := scan(ctx, dir)
	if err != nil {
		return counts, nil, err
	}
	shown := listed(entries)
	counts.Private = len(entries) - len(shown)
	listed := make([]activityschema.Summary, len(shown))
	for i, e := range shown {
		detail := detailsFolder + "/" + url.PathEscape(e.ID) + ".json"
		listed[i] = activityschema.Summary{Activity: e.Activity, DetailURL: &detail}
	}
	counts.Listed = len(listed)
	index := &activityschema.Index{Version: activityschema.Version, Owner: owner, Activities: listed}
	if len(listed) > inlineActivities {
		index.Activities = listed[:inlineActivities]
		for len(listed) > 0 {
			year := listed[0].StartedAt.UTC().Year()
			n := slices.IndexFunc(listed, func(s activityschema.Summary) bool {
				return s.StartedAt.UTC().Year() != year
			})
			if n < 0 {
				n = len(listed)
			}
			name := fmt.Sprintf("index-%04d.json", year)
			shard := activityschema.Shard{Year: int64(year), URL: name, Count: int64(n)}
			index.Shards = append(index.Shards, shard)
			ofYear := &activityschema.Index{Version: index.Version, Owner: owner, Activities: listed[:n]}
			changed, err := put(dir, shard.URL, ofYear, now)
			if err != nil {
				return counts, bad, err
			}
			counts.Changed = counts.Changed || changed
			listed = listed[n:]
		}
		counts.Shards = len(index.Shards)
	}
	changed, err := put(dir, indexFile, index, now)
	if err != nil {
		return counts, bad, err
	}
	removed, err := removeShards(dir, index.Shards)
	counts.Changed = counts.Changed || changed || removed
	return counts, bad, err
}

// listed returns the entries that an index lists, the newest first.
func listed(entries []entry) []entry {
	shown := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return e.Privacy == activityschema.PrivacyPrivate || e.duplicateOf != ""
	})
	slices.SortFunc(shown, func(a, b entry) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt.Time), cmp.Compare(a.ID, b.ID))
	})
	return shown
}

// removeShards removes old shards, which may list what is now private.
func removeShards(dir string, named []activityschema.Shard) (removed bool, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, f := range files {
		is := func(s activityschema.Shard) bool { return s.URL == f.Name() }
		if shardFile.MatchString(f.Name()) && !slices.ContainsFunc(named, is) {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return removed, err
			}
			removed = true
		}
	}
	return removed, nil
}

// readIndex returns an index of the folder and its bytes, or nil if there is none.
func readIndex(dir, name string) (*activityschema.Index, []byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	x := new(activityschema.Index)
	if err := x.UnmarshalJSON(data); err != nil {
		return nil, nil, &FileError{name, fmt.Errorf("not a valid index document: repair it or move it away: %w", err)}
	}
	return x, data, nil
}

// OwnerOf fills empty fields of owner from the folder's index.json. It returns ErrNoOwner if they stay empty.
func OwnerOf(dir string, owner activityschema.Owner) (activityschema.Owner, error) {
	x, _, err := readIndex(dir, indexFile)
	if err != nil {
		return owner, err
	}
	if x != nil {
		owner.Handle = cmp.Or(owner.Handle, x.Owner.Handle)
		owner.DisplayName = cmp.Or(owner.DisplayName, x.Owner.DisplayName)
		if owner.AvatarURL == nil {
			owner.AvatarURL = x.Owner.AvatarURL
		}
	}
	if owner.Handle == "" || owner.DisplayName == "" {
		return owner, ErrNoOwner
	}
	return owner, nil
}

// put writes an index unless the existing one differs in generated_at only.
func put(dir, name string, x *activityschema.Index, now time.Time) (changed bool, err error) {
	before, old, err := readIndex(dir, name)
	if err != nil {
		return false, err
	}
	x.GeneratedAt = activityschema.Time{Time: now.UTC().Truncate(time.Second)}
	if before != nil {
		y := *x
		y.GeneratedAt = before.GeneratedAt
		if data, err := y.MarshalJSON(); err == nil && bytes.Equal(append(data, '\n'), old) {
			return false, nil
		}
	}
	data, err := x.MarshalJSON()
	if err != nil {
		return false, err
	}
	return true, write(filepath.Join(dir, name), append(data, '\n'), 0o644)
}

// write replaces a file atomically, and removes a packed copy of what was there.
func write(file string, data []byte, mode fs.FileMode) error {
	err := renameio.WriteFile(file, data, mode, renameio.WithStaticPermissions(mode),
		renameio.WithTempDir(filepath.Dir(file)))
	if err == nil {
		_ = os.Remove(file + ".gz")
	}
	return err
}

// lock makes this process the only one that writes to the folder, and removes the temporary files of
// one that was killed.
func lock(dir string) (unlock func(), err error) {
	if unlock, err = lockFolder(dir); err != nil {
		return nil, err
	}
	for _, folder := range []string{dir, filepath.Join(dir, detailsFolder)} {
		files, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, f := range files {
			if leftover.MatchString(f.Name()) {
				_ = os.Remove(filepath.Join(folder, f.Name()))
			}
		}
	}
	return unlock, nil
}

// scan reads the folder's details without their samples, sorted by file name. It returns those that
// cannot be read separately.
func scan(ctx context.Context, dir string) (entries []entry, bad []*FileError, err error) {
	files, err := os.ReadDir(filepath.Join(dir, detailsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	files = slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		return f.IsDir() || strings.HasPrefix(f.Name(), ".") || !strings.HasSuffix(f.Name(), ".json")
	})
	read := make([]entry, len(files))
	failed := make([]*FileError, len(files))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers())
	for i, f := range files {
		group.Go(func() error {
			if ctx.Err() == nil {
				var err error
				if read[i], err = skim(filepath.Join(dir, detailsFolder, f.Name())); err != nil {
					failed[i] = &FileError{detailsFolder + "/" + f.Name(), err}
				}
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	for i := range files {
		if failed[i] != nil {
			bad = append(bad, failed[i])
		} else {
			entries = append(entries, read[i])
		}
	}
	return entries, bad, nil
}

// skim reads a detail without its samples, which are most of it.
func skim(file string) (entry, error) {
	f, err := os.Open(file)
	if err != nil {
		return entry{}, plain(err)
	}
	defer func() { _ = f.Close() }()
	short, err := withoutSamples(f)
	var d activityschema.Detail
	if err == nil {
		err = d.UnmarshalJSON(short)
	}
	if err != nil {
		return entry{}, fmt.Errorf("not a valid detail document: %w", err)
	}
	if d.ID+".json" != filepath.Base(file) {
		return entry{}, fmt.Errorf("its id is %q: rename the file", d.ID)
	}
	return entryOf(&d), nil
}

func entryOf(d *activityschema.Detail) entry {
	e := entry{Activity: d.Activity}
	if d.DuplicateOf != nil {
		e.duplicateOf = *d.DuplicateOf
	}
	return e
}

// withoutSamples copies a detail with empty laps, samples and custom members.
func withoutSamples(r io.Reader) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.UnmarshalRead(bufio.NewReaderSize(r, 1<<16), &members); err != nil {
		return nil, err
	}
	for name, empty := range map[string]string{"laps": "[]", "timeseries": `{"t":[]}`, "custom": "{}"} {
		if members[name] != nil {
			members[name] = jsontext.Value(empty)
		}
	}
	return json.Marshal(members)
}

// plain returns the cause of a file's error without its path, which the report has.
func plain(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
