package config

import "crypto/tls"

// TLSFiles are the two files with which the service speaks https itself.
type TLSFiles struct {
	CertFile string // the chain, PEM
	KeyFile  string // PEM; refused when other users of the machine can read it
}

// Load reads and joins the pair. It may be called again when the files have changed; an error then leaves the
// certificate in use as it is.
func (f TLSFiles) Load() (*tls.Certificate, error) {
	const remedy = "check the path, and that the service's user may read the file"
	chain, _, err := readFile(f.CertFile, maxTextFile)
	if err != nil {
		return nil, refuse("tls-cert-file", remedy, "%s", err).because(err)
	}
	key, info, err := readFile(f.KeyFile, maxSecretFile)
	if err != nil {
		return nil, refuse("tls-key-file", remedy, "%s", err).because(err)
	}
	if openTo(info.Mode(), 0o077) {
		return nil, refuse("tls-key-file", "run chmod 600 "+shellQuote(f.KeyFile), "%s", openProblem(f.KeyFile, info.Mode()))
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, refuse("tls-cert-file", "give the PEM chain and the PEM key that belongs to it",
			"%s and %s are not a pair: %s", f.CertFile, f.KeyFile, err).because(err)
	}
	return &pair, nil
}
