package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// A change is what --fix did to a document.
type change struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// fixed is what --fix made of a document.
type fixed struct {
	changes  []change
	sum      [sha256.Size]byte // of the document as it is to be written
	ready    bool              // it passed by itself
	withheld bool              // the documents of its folder disagree about privacy
	path     string            // where it was written
}

// mostChanges is how many changes of one document are told.
const mostChanges = 100

// mostRounds bounds how often a document is repaired and looked at again: a
// round takes as much as one list of problems or findings names.
const mostRounds = 1000

// checkAndFix is check which says of a document that it can repair what is left
// once it is repaired; the places are those in the source all the same.
func (v *validation) checkAndFix(ctx context.Context, s *source) (answer, *activityschema.Document, fixed, error) {
	data, release, err := v.load(ctx, s)
	if err != nil {
		return answer{}, nil, fixed{}, err
	}
	defer release()
	before, err := v.inspect(ctx, data)
	if err != nil {
		return answer{}, nil, fixed{}, err
	}
	document, after, changes, err := v.repair(ctx, data, before)
	if err != nil {
		return answer{}, nil, fixed{}, err
	}
	a := v.answer(data, after)
	if !v.passes(a) {
		return v.answer(data, before), before.document, fixed{}, nil
	}
	return a, after.document, fixed{changes: changes, sum: sha256.Sum256(document), ready: true}, nil
}

// load reads a document as a whole. Who loads one calls release when done.
func (c *checker) load(ctx context.Context, s *source) (data []byte, release func(), err error) {
	f, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	data, whole, err := readAll(contextReader{ctx, f}, nil, wholeBytes)
	if err != nil || whole {
		return data, func() {}, err
	}
	if err := c.hold(ctx); err != nil {
		return nil, nil, err
	}
	if data, _, err = readAll(contextReader{ctx, f}, data, largest); err != nil {
		c.release()
		return nil, nil, err
	}
	return data, c.release, nil
}

// repair returns data without what can be repaired safely, what is to be said
// of that, and what was changed. It never guesses: what it takes away says
// nothing, or is what the owner's choice of privacy says is not shown.
func (c *checker) repair(ctx context.Context, data []byte, got inspected) ([]byte, inspected, []change, error) {
	thorough := *c
	thorough.options.MaxProblems = maxProblems
	data, changes := trim(data)
	var err error
	if len(changes) > 0 {
		got, err = thorough.inspect(ctx, data)
	}
	for round := 0; err == nil && round < mostRounds; round++ {
		root := newPlace()
		repairs := thorough.repairs(got)
		for _, r := range repairs {
			place := root.place(r.pointer)
			place.edit, place.literal = r.edit, r.literal
		}
		edited, n := editJSON(data, root)
		if n == 0 {
			break
		}
		for _, r := range repairs {
			if root.place(r.pointer).edited {
				changes = append(changes, change{r.pointer, r.message})
			}
		}
		data = edited
		got, err = thorough.inspect(ctx, data)
	}
	if more := len(changes) - mostChanges; more > 0 {
		changes = append(changes[:mostChanges-1], change{Message: fmt.Sprintf("... and %d more changes", more+1)})
	}
	return data, got, changes, err
}

// trim takes away a byte order mark, and NUL characters after the document.
func trim(data []byte) ([]byte, []change) {
	var changes []change
	if bytes.HasPrefix(data, byteOrderMark) {
		data = data[len(byteOrderMark):]
		changes = append(changes, change{Message: "byte order mark removed"})
	}
	document := bytes.TrimRight(data, "\x00 \t\r\n")
	if bytes.IndexByte(data[len(document):], 0) >= 0 {
		data = append(bytes.Clone(document), '\n')
		changes = append(changes, change{Message: "NUL characters after the document removed"})
	}
	return data, changes
}

// A repair is an edit with its reason.
type repair struct {
	pointer string
	edit    edit
	literal string
	message string
}

// repairs returns what can be repaired of what was found.
func (c *checker) repairs(got inspected) []repair {
	switch {
	case len(got.problems) > 0:
		return repairsOfProblems(got.problems)
	case got.document == nil:
		return nil
	case got.document.Index != nil && !c.allowPrivacy:
		return repairsOfIndex(got.document.Index)
	case got.document.Detail != nil:
		var repairs []repair
		found := activityschema.LintAll(got.document)
		if !c.allowPrivacy && got.document.Detail.Privacy == activityschema.PrivacyNoGPS {
			repairs = repairsOfPrivacy(found)
		}
		return append(repairs, repairsOfLaps(got.document.Detail, found)...)
	}
	return nil
}

// repairsOfProblems drops members that are null where the schema wants them
// left out, listed or not: null says no more than their absence. Whether they
// may be left out the next look tells. A document with any other problem stays
// as it is.
func repairsOfProblems(problems []activityschema.Problem) []repair {
	var repairs []repair
	for _, p := range problems {
		switch {
		case p.Keyword == "type" && p.Found == "null", p.Keyword == "additionalProperties":
			repairs = append(repairs, repair{pointer: p.Pointer, edit: dropNull, message: "member that was null removed"})
		default:
			return nil
		}
	}
	return repairs
}

// repairsOfPrivacy drops what shows where a no_gps activity was.
func repairsOfPrivacy(found []activityschema.Finding) []repair {
	var repairs []repair
	for _, f := range found {
		if f.Code == activityschema.CodePrivacyNoGPS || f.Code == activityschema.CodePrivacyCustom && strings.HasPrefix(f.Pointer, "/custom/") {
			repairs = append(repairs, repair{pointer: f.Pointer, edit: drop, message: "removed: the activity is no_gps"})
		}
	}
	return repairs
}

// repairsOfIndex drops the links to the tracks of no_gps activities.
func repairsOfIndex(x *activityschema.Index) []repair {
	var repairs []repair
	for i := range x.Activities {
		if s := &x.Activities[i]; s.Privacy == activityschema.PrivacyNoGPS && s.TrackURL != nil && *s.TrackURL != "" {
			repairs = append(repairs, repair{
				pointer: "/activities/" + strconv.Itoa(i) + "/track_url", edit: drop, message: "removed: the activity is no_gps",
			})
		}
	}
	return repairs
}

// repairsOfLaps numbers laps from 0 that are numbered from another number. Laps
// with a gap in their numbers, or out of order, may miss one: that is not for
// a program to say.
func repairsOfLaps(d *activityschema.Detail, found []activityschema.Finding) []repair {
	outOfOrder := slices.ContainsFunc(found, func(f activityschema.Finding) bool {
		return f.Code == activityschema.CodeLapOrder || f.Code == activityschema.CodeLapOutside
	})
	if outOfOrder || len(d.Laps) == 0 || d.Laps[0].Index == 0 {
		return nil
	}
	var repairs []repair
	for i := range d.Laps {
		if d.Laps[i].Index != d.Laps[0].Index+int64(i) {
			return nil
		}
		repairs = append(repairs, repair{
			pointer: "/laps/" + strconv.Itoa(i) + "/index", edit: replace, literal: strconv.Itoa(i),
			message: fmt.Sprintf("%d changed to %d", d.Laps[i].Index, i),
		})
	}
	return repairs
}
