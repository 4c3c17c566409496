package account_test

import (
	"testing"

	"github.com/cairn-id/cairn/store/accounttest"
)

const (
	password    = accounttest.Password
	newPassword = accounttest.NewPassword
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same holds that two values are equal.
func same[T comparable](t testing.TB, what any, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v: %v, want %v", what, got, want)
	}
}
