package account_test

import "github.com/cairn-id/cairn/store/accounttest"

const (
	password    = accounttest.Password
	newPassword = accounttest.NewPassword
)
