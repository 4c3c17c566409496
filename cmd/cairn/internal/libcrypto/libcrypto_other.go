//go:build !linux || !cgo || static

package libcrypto

import "errors"

// nativeKey is never made in this build.
type nativeKey struct{}

func load() (string, error) {
	return "", errors.New("this program is built without libraries of the system")
}

func newNativeKey([]byte) (nativeKey, error) { return nativeKey{}, errors.ErrUnsupported }

func (nativeKey) sign([]byte, []byte) bool { return false }

func (nativeKey) free() {}
