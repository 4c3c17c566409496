package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

// The JUnit XML that test reporters read: one case a document.
type junitSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Suite    junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Failure *junitFailure `xml:"failure"`
	Error   *junitFailure `xml:"error"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// reportJUnit prints a suite.
func reportJUnit(w io.Writer, v *validation) error {
	suite := junitSuite{Name: "cairn activity validate"}
	for _, r := range v.results {
		c := junitCase{Class: string(r.Form), Name: shown(r.source.name)}
		if c.Class == "" {
			c.Class = "document"
		}
		lines := r.lines()
		switch {
		case r.err != nil:
			suite.Errors++
			c.Error = &junitFailure{Type: "unreadable", Message: r.err.Error()}
		case !v.passes(r.answer):
			suite.Failures++
			c.Failure = &junitFailure{Type: failureType(r), Message: count(len(lines), "thing") + " found", Text: strings.Join(lines, "\n")}
		default:
			c.Output = strings.Join(lines, "\n")
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Tests = len(suite.Cases)
	document, err := xml.MarshalIndent(junitSuites{Tests: suite.Tests, Failures: suite.Failures, Errors: suite.Errors, Suite: suite}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, document); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// failureType is the gravest reason why a document fails.
func failureType(r *result) string {
	if !r.Valid {
		return "invalid"
	}
	for _, f := range r.Findings {
		if f.Severity == activityschema.SeverityError {
			return "privacy"
		}
	}
	return "warning"
}
