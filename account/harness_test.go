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
