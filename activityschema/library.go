package activityschema

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"sync"
)

// A Library holds the documents of one published folder against one another:
// the index documents, which are index.json and its shards, and the details.
// It keeps a small record of each document and not the document: an activity
// with its summary and its detail takes well under a kilobyte.
//
// What is wrong with a document by itself is found by Lint; a Library does not
// say it again. Its methods may be called concurrently.
type Library struct {
	mu    sync.Mutex
	files map[string]record // by path
}

// A FileFinding is a finding about a document of a folder.
type FileFinding struct {
	// File is the path of the document as it was added, cleaned. Quote it
	// (%q) before it reaches a terminal.
	File string `json:"file"`
	Finding
}

// A record is what is kept of a file: one of the two, or none of a file that
// cannot be read.
type record struct {
	index  *indexRecord
	detail *detailRecord
}

// NewLibrary returns a Library without documents.
func NewLibrary() *Library { return &Library{files: map[string]record{}} }

// Add adds the document that lies at a path relative to the published folder,
// with slashes: index.json, activities/{id}.json, or that of a shard. A second
// document of one path takes the place of the first. A nil doc stands for a
// file that is there and cannot be read, so that it is not said to be missing.
func (l *Library) Add(file string, doc *Document) {
	var r record
	switch {
	case doc == nil:
	case doc.Detail != nil:
		r.detail = recordOfDetail(doc.Detail)
	case doc.Index != nil:
		r.index = recordOfIndex(doc.Index)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[path.Clean(file)] = r
}

// Findings returns where the documents added so far contradict one another, by
// file and then in the order of Lint; nil means nowhere. The limits of Lint
// hold for each file.
func (l *Library) Findings() []FileFinding {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := comparison{
		files:   l.files,
		names:   slices.Sorted(maps.Keys(l.files)),
		details: map[string]*detailRecord{},
		listed:  map[string]listing{},
		reports: map[string]*linter{},
		shards:  map[namedShard]bool{},
	}
	c.compare()
	var all []FileFinding
	for _, file := range c.names {
		report := c.reports[file]
		if report == nil {
			continue
		}
		form := reflect.TypeFor[Index]()
		if l.files[file].detail != nil {
			form = reflect.TypeFor[Detail]()
		}
		for _, f := range report.result(form) {
			all = append(all, FileFinding{file, f})
		}
	}
	return all
}
