package main

import (
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// The part of SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format)
// that the report uses.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	ColumnKind  string            `json:"columnKind"`
	Results     []sarifResult     `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID                   string       `json:"id"`
	ShortDescription     sarifText    `json:"shortDescription"`
	DefaultConfiguration sarifDefault `json:"defaultConfiguration"`
}

type sarifDefault struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	ExecutionSuccessful bool                `json:"executionSuccessful"`
	Notifications       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int   `json:"startLine"`
	StartColumn int   `json:"startColumn"`
	ByteOffset  int64 `json:"byteOffset"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// reportSARIF prints one run with a result for each problem and finding.
func reportSARIF(w io.Writer, v *validation) error {
	rules := v.rules()
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "cairn", Version: programVersion()}},
		Invocations: []sarifInvocation{{ExecutionSuccessful: true}},
		ColumnKind:  "unicodeCodePoints", Results: []sarifResult{},
	}
	for _, r := range rules {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{r.id, sarifText{r.explanation}, sarifDefault{string(r.severity)}})
	}
	add := func(file, id string, severity activityschema.Severity, message, pointer string, region sarifRegion) {
		run.Results = append(run.Results, sarifResult{
			RuleID: id, RuleIndex: slices.IndexFunc(rules, func(r rule) bool { return r.id == id }),
			Level: string(severity), Message: sarifText{message}, Locations: sarifAt(file, pointer, region),
		})
	}
	for _, r := range v.results {
		if r.err != nil {
			run.Invocations[0].ExecutionSuccessful = false
			run.Invocations[0].Notifications = append(run.Invocations[0].Notifications, sarifNotification{
				"error", sarifText{r.err.Error()}, sarifAt(r.source.name, "", sarifRegion{}),
			})
			continue
		}
		for _, p := range r.Problems {
			add(r.source.name, p.Keyword, activityschema.SeverityError, p.Message, p.Pointer, sarifRegion{p.Line, p.Column, p.Offset})
		}
		for _, f := range r.Findings {
			add(r.source.name, f.Code, f.Severity, f.Message, f.Pointer, sarifRegion{f.Line, f.Column, f.Offset})
		}
	}
	return writeJSON(w, sarifLog{
		Schema: "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

// sarifAt is the place of a result. A region without a line, which SARIF counts
// from 1, is not known and is left out.
func sarifAt(file, pointer string, region sarifRegion) []sarifLocation {
	at := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{fileURI(file)}}}
	if region.StartLine > 0 {
		at.Physical.Region = &region
	}
	if pointer != "" {
		at.Logical = []sarifLogical{{pointer}}
	}
	return []sarifLocation{at}
}

// fileURI is the address of a file relative to the working folder, from which
// whoever reads the report resolves it; that of one elsewhere is absolute.
func fileURI(name string) string {
	full, err := filepath.Abs(name)
	here, hereErr := filepath.Abs(".")
	if err != nil || hereErr != nil {
		return (&url.URL{Path: filepath.ToSlash(name)}).String()
	}
	relative, err := filepath.Rel(here, full)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		path := filepath.ToSlash(full)
		if !strings.HasPrefix(path, "/") {
			path = "/" + path // a drive letter
		}
		return (&url.URL{Scheme: "file", Path: path}).String()
	}
	return (&url.URL{Path: filepath.ToSlash(relative)}).String()
}
