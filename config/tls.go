package config

import "crypto/tls"

// TLSFiles are the two files for https without a proxy.
type TLSFiles struct {
	CertFile string // the chain, PEM
	KeyFile  string // PEM; refused when other users of the machine can read it
}

func checkTLS(c *Checked, s Settings) error {
	switch {
	case s.TLSCertFile == "" && s.TLSKeyFile == "":
		return nil
	case s.TLSCertFile == "":
		return refuse("tls-cert-file", "give the certificate too, or neither",
			"is missing while --tls-key-file is set")
	case s.TLSKeyFile == "":
		return refuse("tls-key-file", "give the certificate's key too, or neither",
			"is missing while --tls-cert-file is set")
	case !c.HTTPS:
		return refuse("issuer", "write an https issuer, or leave out --tls-cert-file and --tls-key-file",
			"is http while TLS files are set")
	}
	c.TLS = &TLSFiles{CertFile: s.TLSCertFile, KeyFile: s.TLSKeyFile}
	return nil
}

// Load reads the pair of files. It may be called again when they have changed; after an error the
// current certificate stays in use.
func (f TLSFiles) Load() (*tls.Certificate, error) {
	chain, _, err := readSetting("tls-cert-file", f.CertFile, maxTextFile)
	if err != nil {
		return nil, err
	}
	key, info, err := readSetting("tls-key-file", f.KeyFile, maxSecretFile)
	if err != nil {
		return nil, err
	}
	if err := checkPrivate("tls-key-file", f.KeyFile, info); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, refuse("tls-cert-file", "give the PEM chain and the PEM key that belongs to it",
			"%s and %s are not a pair: %w", f.CertFile, f.KeyFile, err)
	}
	return &pair, nil
}
