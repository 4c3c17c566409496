package config

import "bytes"

// MinSecretBytes is the minimum length of the shared secret: HS256 needs a key as long as its hash
// (RFC 7518 section 3.2), and a shorter one would fail only when the first token is signed.
const MinSecretBytes = 32

// Secret returns the shared HS256 secret of SERVICE_AUTH_JWT_SECRET, or of the file that
// SERVICE_AUTH_JWT_SECRET_FILE names, and its source for messages. lookup is [Environment.Lookup]
// or has the shape of os.LookupEnv.
//
// If neither is set, it returns nil, "" and no error; then the stored secret is used. The value of
// the variable is used byte for byte, as applications that share it do; the line break at the end
// of a file is removed. An error never contains the secret.
func Secret(lookup func(string) (string, bool)) (secret []byte, source string, err error) {
	value, isSet := lookup(secretVariable)
	path, _ := lookup(secretFileVariable)
	name := secretVariable
	switch {
	case value != "" && path != "":
		return nil, "", refuse(name, "unset one of them", "is set together with %s", secretFileVariable)
	case path != "":
		name = secretFileVariable
		if secret, err = secretFromFile(secretFileVariable, path); err != nil {
			return nil, "", err
		}
		source = name + " " + path
	case isSet:
		secret, source = []byte(value), name
	default:
		return nil, "", nil
	}
	// An empty value is refused: it comes from a template with a missing value, and the stored
	// secret would sign cookies that no application accepts.
	if len(secret) < MinSecretBytes {
		return nil, "", refuse(name, "make one with: openssl rand -base64 48, or unset it to use the stored one",
			"the secret has %d bytes, at least %d are needed", len(secret), MinSecretBytes)
	}
	return secret, source, nil
}

// readPrivate reads a file with a secret. It refuses one that other users of the machine can open. name
// is the setting or flag that names the file, for the error.
func readPrivate(name, path string) ([]byte, error) {
	text, info, err := readSetting(name, path, maxSecretFile)
	if err != nil {
		return nil, err
	}
	return text, checkPrivate(name, path, info)
}

// secretFromFile reads the file of a setting without the line break at its end.
func secretFromFile(name, path string) ([]byte, error) {
	text, err := readPrivate(name, path)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimRight(text, "\r\n")
	if bytes.ContainsAny(secret, "\r\n\x00") {
		return nil, refuse(name, "write the secret alone, on one line", "%s holds more than one line of text", path)
	}
	return secret, nil
}
