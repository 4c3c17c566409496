package config

import "bytes"

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
	// Set and empty is refused: it is what a template with a missing value leaves, and going on with the stored
	// secret would sign cookies that no application accepts.
	if len(secret) < MinSecretBytes {
		return nil, "", refuse(name, "make one with: openssl rand -base64 48, or unset it to use the stored one",
			"the secret has %d bytes, at least %d are needed", len(secret), MinSecretBytes)
	}
	return secret, source, nil
}

// secretFromFile reads the file of a setting; the line break at its end is not of the secret.
func secretFromFile(name, path string) ([]byte, error) {
	text, info, err := readSetting(name, path, maxSecretFile)
	if err != nil {
		return nil, err
	}
	if err := checkPrivate(name, path, info); err != nil {
		return nil, err
	}
	secret := bytes.TrimRight(text, "\r\n")
	if bytes.ContainsAny(secret, "\r\n\x00") {
		return nil, refuse(name, "write the secret alone, on one line", "%s holds more than one line of text", path)
	}
	return secret, nil
}
