package config

import (
	"bytes"
	"fmt"
)

// MinSecretBytes is the least length of the shared secret: HS256 needs a key of at least its hash (RFC 7518 section
// 3.2), and a shorter one fails only when the first token is signed.
const MinSecretBytes = 32

// Secret returns the shared HS256 secret of SERVICE_AUTH_JWT_SECRET, or of the file that
// SERVICE_AUTH_JWT_SECRET_FILE names, and the source for people ("SERVICE_AUTH_JWT_SECRET", or the file's variable
// and path). lookup is [Environment.Lookup] or has the shape of os.LookupEnv.
//
// Neither set: nil, "" and no error; the stored secret holds then. A value of the variable is taken byte for byte, as
// the applications that share it do; of a file the line break at its end is dropped. An error never holds the secret.
func Secret(lookup func(string) (string, bool)) (secret []byte, source string, err error) {
	value, isSet := lookup(secretVariable)
	path, _ := lookup(secretFileVariable)
	switch {
	case isSet && value != "" && path != "":
		return nil, "", &SettingError{Env: secretVariable, Problem: "is set together with " + secretFileVariable, Remedy: "unset one of them"}
	case path != "":
		secret, err = secretFromFile(path)
		return secret, secretFileVariable + " " + path, err
	case !isSet:
		return nil, "", nil
	}
	// Set and empty is refused: it is what a template with a missing value leaves, and going on with the stored
	// secret would sign cookies that no application accepts.
	if len(value) < MinSecretBytes {
		return nil, "", tooShort(secretVariable, len(value))
	}
	return []byte(value), secretVariable, nil
}

func secretFromFile(path string) ([]byte, error) {
	refused := func(remedy, problem string) *SettingError {
		return &SettingError{Env: secretFileVariable, Problem: problem, Remedy: remedy}
	}
	text, info, err := readFile(path, maxSecretFile)
	if err != nil {
		return nil, refused("check the path, and that the service's user may read the file", err.Error()).because(err)
	}
	if openTo(info.Mode(), 0o077) {
		return nil, refused("run chmod 600 "+shellQuote(path), openProblem(path, info.Mode()))
	}
	secret := bytes.TrimRight(text, "\r\n")
	if bytes.ContainsAny(secret, "\r\n\x00") {
		return nil, refused("write the secret alone, on one line", path+" holds more than one line of text")
	}
	if len(secret) < MinSecretBytes {
		return nil, tooShort(secretFileVariable, len(secret))
	}
	return secret, nil
}

func tooShort(variable string, n int) *SettingError {
	return &SettingError{
		Env:     variable,
		Problem: fmt.Sprintf("the secret has %d bytes, at least %d are needed", n, MinSecretBytes),
		Remedy:  "make one with: openssl rand -base64 48, or unset it to use the stored one",
	}
}
