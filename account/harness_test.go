package account_test

import (
	"io"
	"log/slog"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/accounttest"
)

const (
	password    = accounttest.Password
	newPassword = accounttest.NewPassword
)

func withLog(to io.Writer) func(*account.Options) {
	return func(o *account.Options) { o.Log = slog.New(slog.NewTextHandler(to, nil)) }
}
