//go:build !linux

package storetest

import "errors"

// startPostgres starts a server on Linux only.
func startPostgres() (dsn string, stop func(), err error) {
	return "", nil, errors.New("a server is only started on Linux")
}

func memory() string { return "" }
