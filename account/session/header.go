package session

import (
	"encoding/base64"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxToken is the longest token that is looked at, in bytes. Browsers keep no
	// longer cookie.
	maxToken = 4096

	// maxKeyID is the longest kid, in bytes. Cairn's are RFC 7638 thumbprints of 43.
	maxKeyID = 128
)

// header is what of a JOSE header may matter: which algorithm, which key.
type header struct {
	alg jose.SignatureAlgorithm
	kid string
}

// foreign are the header parameters that bring a key, point to one, or change
// what is signed. Cairn writes none of them, and none may be obeyed or
// ignored. Others are ignored, as RFC 7515 section 4 asks.
var foreign = []string{"b64", "crit", "enc", "jku", "jwk", "x5c", "x5t", "x5t#S256", "x5u", "zip"}

// tokenKind is what tells one kind of token from the others that share the keys.
type tokenKind struct {
	typ     string // header parameter, compared without regard to case (RFC 7515 section 4.1.9)
	untyped bool   // the parameter may be missing
	longest int    // bytes
}

var sessionToken = tokenKind{typ: "JWT", untyped: true, longest: maxToken}

// readHeader decides whether a token is worth a signature check, before go-jose
// parses it and before any key is looked up.
func readHeader(token string, kind tokenKind) (header, error) {
	if len(token) > kind.longest {
		return header{}, invalid("too long")
	}
	if strings.Count(token, ".") != 2 {
		return header{}, invalid("not in compact serialization")
	}
	first, rest, _ := strings.Cut(token, ".")
	second, third, _ := strings.Cut(rest, ".")
	data, ok := canonical(first)
	if !ok {
		return header{}, invalid("the header is not base64url")
	}
	for _, part := range []string{second, third} {
		if _, ok := canonical(part); !ok {
			return header{}, invalid("not base64url")
		}
	}

	m, err := members(data)
	if err != nil {
		return header{}, invalid("the header is " + err.Error())
	}
	for _, name := range foreign {
		if _, there := m[name]; there {
			return header{}, invalid("a header parameter that session tokens do not have")
		}
	}
	// Tokens of other kinds (at+jwt, logout+jwt, statuslist+jwt) share the keys.
	if value, there := m["typ"]; there || !kind.untyped {
		if typ, ok := text(value); !ok || !strings.EqualFold(typ, kind.typ) {
			return header{}, invalid("another type of token")
		}
	}
	var h header
	if value, there := m["kid"]; there {
		if h.kid, ok = text(value); !ok || !isKeyID(h.kid) {
			return header{}, invalid("kid is not a key id")
		}
	}
	alg, _ := text(m["alg"])
	switch h.alg = jose.SignatureAlgorithm(alg); h.alg {
	case jose.HS256:
		return h, nil
	case jose.RS256:
		if h.kid == "" {
			return header{}, invalid("no kid")
		}
		return h, nil
	}
	return header{}, invalid("another algorithm")
}

// canonical decodes unpadded base64url in its one spelling. The decoder skips line
// ends and, unless strict, ignores the last unused bits, so that one token would have many
// spellings.
func canonical(part string) ([]byte, bool) {
	if part == "" || strings.ContainsAny(part, "\r\n") {
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	return data, err == nil
}

// isKeyID refuses paths, addresses and query text before a key set sees them.
func isKeyID(kid string) bool {
	if kid == "" || len(kid) > maxKeyID {
		return false
	}
	for _, c := range []byte(kid) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == '~':
		default:
			return false
		}
	}
	return true
}
