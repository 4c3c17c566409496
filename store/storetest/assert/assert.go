// Package assert has what the tests of all packages hold in a line. Each says what it is about, as text or any value.
package assert

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same holds that two values are equal.
func Same[T comparable](t testing.TB, what any, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v: %v, want %v", what, got, want)
	}
}

// SameList holds that two lists have the same entries.
func SameList[T comparable](t testing.TB, what any, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%v: %v, want %v", what, got, want)
	}
}

// Equal holds that two values are equal in all that cmp.Diff compares.
func Equal(t testing.TB, what, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v (-want +got):\n%s", what, diff)
	}
}

// Has holds that a text contains another.
func Has(t testing.TB, what any, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%v: there is no %q in: %s", what, part, text)
	}
}

// Lacks holds that a text does not contain another.
func Lacks(t testing.TB, what any, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%v: there is %q in: %s", what, part, text)
	}
}

// Fails holds that an error is another.
func Fails(t testing.TB, what any, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%v: %v, want %v", what, err, target)
	}
}
