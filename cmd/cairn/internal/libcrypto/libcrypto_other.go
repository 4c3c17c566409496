//go:build !linux || !cgo || static

package libcrypto

import "errors"

// nativeKey is not used in this build.
type nativeKey struct{}

func load() (string, error) {
	return "", errors.New("this program was built without system libraries")
}

func newNativeKey([]byte) (nativeKey, error) { return nativeKey{}, errors.ErrUnsupported }

func (nativeKey) sign([]byte, []byte) bool { return false }

func (nativeKey) free() {}
