package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/cairn-id/cairn/config"
)

type keysCommand struct {
	Generate generateKeyCommand `cmd:"" help:"Write a new RSA private key to a file that does not exist yet."`
}

type generateKeyCommand struct {
	output
	File string `arg:"" help:"Where to write the key (PEM, readable by its owner only)."`
	Bits int    `default:"2048" enum:"2048,3072,4096" help:"Size of the key: 2048, 3072 or 4096 bits. Larger ones make every sign-in slower."`
}

// Run writes the key; it never overwrites one.
func (c *generateKeyCommand) Run(p *program) error {
	kid, err := config.GenerateKey(c.File, c.Bits)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and stays as it is: name another file", c.File)
	}
	if err != nil {
		return err
	}
	switch {
	case c.Quiet:
		fmt.Fprintln(p.stdout, kid)
	case c.Format == "json":
		return writeJSON(p.stdout, map[string]any{"file": c.File, "kid": kid, "bits": c.Bits})
	default:
		return writePairs(p.stdout, [][2]string{
			{"key file", c.File}, {"kid", kid}, {"next", "SERVICE_OIDC_PRIVATE_KEY_FILE=" + c.File + " cairn serve"},
		})
	}
	return nil
}
