//go:build linux && cgo && !static

package libcrypto

/*
#cgo LDFLAGS: -ldl
#cgo noescape cairn_sign
#cgo nocallback cairn_sign
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

// The functions of libcrypto 3 that are called, declared as in its headers, with void for its types.
static struct {
	const char *(*OpenSSL_version)(int);
	int (*OPENSSL_init_crypto)(uint64_t, const void *);
	void (*ERR_clear_error)(void);
	void *(*EVP_MD_fetch)(void *, const char *, const char *);
	void *(*d2i_PrivateKey)(int, void **, const unsigned char **, long);
	void (*EVP_PKEY_free)(void *);
	void *(*EVP_MD_CTX_new)(void);
	void (*EVP_MD_CTX_free)(void *);
	int (*EVP_DigestSignInit)(void *, void **, const void *, void *, void *);
	int (*EVP_DigestSign)(void *, unsigned char *, size_t *, const unsigned char *, size_t);
} f;

static void *sha256;

// cairn_load returns the version, or NULL with the reason. The library stays loaded even then: once
// it is initialized, the end of a thread may call it.
static const char *cairn_load(const char **reason) {
	void *lib = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_LOCAL);
	*reason = "libcrypto.so.3 is not on this machine";
	if (lib == NULL)
		return NULL;
	*reason = "the libcrypto of this machine is not one of OpenSSL 3";
#define FIND(name) if ((f.name = dlsym(lib, #name)) == NULL) return NULL
	FIND(OpenSSL_version);
	FIND(OPENSSL_init_crypto);
	FIND(ERR_clear_error);
	FIND(EVP_MD_fetch);
	FIND(d2i_PrivateKey);
	FIND(EVP_PKEY_free);
	FIND(EVP_MD_CTX_new);
	FIND(EVP_MD_CTX_free);
	FIND(EVP_DigestSignInit);
	FIND(EVP_DigestSign);
	*reason = "libcrypto cannot be initialized";
	// OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS, NO_LOAD_CONFIG and NO_ATEXIT: ignore openssl.cnf.
	if (f.OPENSSL_init_crypto(0x1 | 0x80 | 0x80000, NULL) != 1
			|| (sha256 = f.EVP_MD_fetch(NULL, "SHA2-256", NULL)) == NULL) {
		f.ERR_clear_error();
		return NULL;
	}
	return f.OpenSSL_version(6); // OPENSSL_VERSION_STRING
}

static void *cairn_key(const unsigned char *der, long n) {
	// EVP_PKEY_RSA
	void *key = f.d2i_PrivateKey(6, NULL, &der, n);
	if (key == NULL)
		f.ERR_clear_error();
	return key;
}

static void cairn_free(void *key) { f.EVP_PKEY_free(key); }

// cairn_sign writes the RSASSA-PKCS1-v1_5 signature with SHA-256. It must have exactly size bytes.
static int cairn_sign(void *key, const unsigned char *in, size_t n, unsigned char *out, size_t size) {
	size_t made = size;
	void *ctx = f.EVP_MD_CTX_new();
	int ok = ctx != NULL && f.EVP_DigestSignInit(ctx, NULL, sha256, NULL, key) == 1
		&& f.EVP_DigestSign(ctx, out, &made, in, n) == 1 && made == size;
	f.EVP_MD_CTX_free(ctx);
	if (!ok)
		f.ERR_clear_error(); // the error queue belongs to the thread, which others use next
	return ok;
}
*/
import "C"

import (
	"errors"
	"sync"
	"unsafe"
)

// load loads the library once and keeps the result.
var load = sync.OnceValues(func() (string, error) {
	var reason *C.char
	version := C.cairn_load(&reason)
	if version == nil {
		return "", errors.New(C.GoString(reason))
	}
	return C.GoString(version), nil
})

// nativeKey is an EVP_PKEY. OpenSSL protects it with RSA blinding by default.
type nativeKey struct{ key unsafe.Pointer }

func newNativeKey(der []byte) (nativeKey, error) {
	key := C.cairn_key((*C.uchar)(&der[0]), C.long(len(der)))
	if key == nil {
		return nativeKey{}, errors.New("it does not take the key")
	}
	return nativeKey{key}, nil
}

func (k nativeKey) sign(payload, signature []byte) bool {
	in, out := (*C.uchar)(&payload[0]), (*C.uchar)(&signature[0])
	return C.cairn_sign(k.key, in, C.size_t(len(payload)), out, C.size_t(len(signature))) == 1
}

func (k nativeKey) free() { C.cairn_free(k.key) }
