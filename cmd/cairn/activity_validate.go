package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cairn-id/cairn/activityschema"
)

// A result is what became of one source.
type result struct {
	answer
	source *source
	arg    int   // of the command line
	rank   int   // in its folder: index, shards, details
	err    error // unreadable
}

// A validation checks the documents of a command line, as many at once as
// there are jobs.
type validation struct {
	*checker
	slots chan struct{}

	work        sync.WaitGroup
	total, done atomic.Int64

	mu      sync.Mutex
	results []*result
	folders []*folder
}

// run checks everything that the arguments name. It is not to be waited for
// once ctx is done: a document that is being decoded, or read from a terminal,
// does not notice.
func (v *validation) run(ctx context.Context, p *program, args []string) {
	var found []*result
	for i, arg := range args {
		found = append(found, v.sources(p, i, arg)...)
	}
	v.total.Store(int64(len(found)))
	for _, r := range found {
		v.start(ctx, r)
	}
	v.work.Wait()
	v.compare(ctx)
	slices.SortStableFunc(v.results, func(a, b *result) int {
		return cmp.Or(cmp.Compare(a.arg, b.arg), cmp.Compare(a.rank, b.rank), cmp.Compare(a.source.name, b.source.name))
	})
}

// sources are the documents that one argument names, or the reason why there
// are none.
func (v *validation) sources(p *program, i int, arg string) []*result {
	if arg == "-" {
		return []*result{{source: standardInput(p.stdin), arg: i}}
	}
	failed := func(err error) []*result { return []*result{{source: &source{name: arg}, arg: i, err: err}} }
	info, err := os.Stat(arg)
	if err != nil {
		return failed(plainError(err))
	}
	if !info.IsDir() {
		return []*result{{source: namedSource(arg, info), arg: i}}
	}
	f, err := openFolder(arg, v.lint)
	if err != nil {
		return failed(err)
	}
	v.folders = append(v.folders, f)
	if err := f.walk(); err != nil {
		return failed(err)
	}
	if len(f.documents) == 0 {
		return failed(errNoDocuments)
	}
	var found []*result
	for file := range f.documents {
		rank := rankDetail
		if !strings.Contains(file, "/") {
			rank = rankIndex
		}
		found = append(found, &result{source: f.source(file), arg: i, rank: rank})
	}
	// The indexes first: they may name shards.
	slices.SortFunc(found, func(a, b *result) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.source.file, b.source.file))
	})
	return found
}

const (
	rankIndex = iota
	rankShard
	rankDetail
)

// start checks a source as soon as there is a slot.
func (v *validation) start(ctx context.Context, r *result) {
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	v.work.Go(func() {
		defer func() { <-v.slots }()
		v.one(ctx, r)
	})
}

// one checks a source, and starts on the shards that it names.
func (v *validation) one(ctx context.Context, r *result) {
	var document *activityschema.Document
	switch {
	case r.err != nil:
	default:
		r.answer, document, r.err = v.check(ctx, r.source)
	}
	if errors.Is(r.err, activityschema.ErrEnginesDiffer) {
		r.err = fmt.Errorf("%w: this is a fault of the program, please report it with the file", r.err)
	}
	if f := r.source.folder; f != nil {
		f.add(r.source.file, document)
		if document != nil && document.Index != nil {
			for _, file := range f.newShards(r.source.file, document.Index) {
				v.total.Add(1)
				shard := &result{source: f.source(file), arg: r.arg, rank: rankShard}
				v.work.Go(func() { v.start(ctx, shard) })
			}
		}
	}
	v.mu.Lock()
	v.results = append(v.results, r)
	v.mu.Unlock()
	v.done.Add(1)
}

// compare adds what the documents of each folder say about one another.
func (v *validation) compare(ctx context.Context) {
	for _, f := range v.folders {
		if f.library == nil || ctx.Err() != nil {
			continue
		}
		about := map[string][]activityschema.Finding{}
		for _, found := range f.library.Findings() {
			about[found.File] = append(about[found.File], found.Finding)
		}
		for _, r := range v.results {
			if r.source.folder != f || !r.Valid {
				continue
			}
			plain, packed := strings.CutSuffix(r.source.file, ".gz")
			found := about[plain]
			if len(found) == 0 || packed && f.documents[plain] {
				continue
			}
			v.slots <- struct{}{}
			v.work.Go(func() {
				defer func() { <-v.slots }()
				more := v.findings(found)
				v.placeAgain(ctx, r.source, more)
				r.Findings = append(r.Findings, more...)
				inOrder(r.Findings)
			})
		}
	}
	v.work.Wait()
}

// placeAgain reads a document once more for the places of findings that are
// known only after all others were read. A document that cannot be read any
// more leaves them without a place.
func (v *validation) placeAgain(ctx context.Context, s *source, findings []locatedFinding) {
	data, release, err := v.load(ctx, s)
	if err != nil {
		return
	}
	defer release()
	placeFindings(data, findings)
}
