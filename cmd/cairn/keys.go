package main

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/config"
)

type keysCommand struct {
	Generate generateKeyCommand `cmd:"" help:"Write a new RSA private key to a file that does not exist yet."`
	List     listKeysCommand    `cmd:"" help:"List the keys that the service publishes, in the order of its settings."`
	Migrate  migrateKeysCommand `cmd:"" help:"Go from HS256 cookies to RS256: count the remaining HS256 sessions and set when they end."`
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
		return fmt.Errorf("%s exists and is not overwritten: name another file", c.File)
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
			{"key file", c.File}, {"kid", kid}, {"next", "write private-key-file: " + c.File + " into cairn.yaml and restart cairn serve"},
		})
	}
	return nil
}

// listKeysCommand reads the same settings as serve: given the same
// environment, what it lists is what serve publishes.
type listKeysCommand struct {
	output
	PrivateKeyFile     string   `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE" help:"RSA private key (PEM) that signs tokens."`
	AdditionalKeyFiles []string `name:"additional-key-file" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" placeholder:"FILE" help:"Retired or coming RSA key (PEM): published, never signing. Repeatable."`
}

// keyRow is a published key as keys list prints it.
type keyRow struct {
	Kid   string `json:"kid"`
	Bits  int    `json:"bits"`
	Signs bool   `json:"signs"`
	File  string `json:"file"`
}

// Run lists nothing where the service would publish nothing, and says so.
func (c *listKeysCommand) Run(p *program) error {
	keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles)
	if err != nil {
		return err
	}
	// The keys come in the order of the files; a blank entry is no file.
	files := []string{c.PrivateKeyFile}
	for _, f := range c.AdditionalKeyFiles {
		if f = strings.TrimSpace(f); f != "" {
			files = append(files, f)
		}
	}
	rows := make([]keyRow, 0, len(keys))
	for i, k := range keys {
		rows = append(rows, keyRow{Kid: k.KeyID, Bits: keyBits(k), Signs: i == 0, File: files[i]})
	}
	switch {
	case c.Quiet:
		for _, r := range rows {
			fmt.Fprintln(p.stdout, r.Kid)
		}
		return nil
	case c.Format == "json":
		return writeJSON(p.stdout, rows)
	case len(rows) == 0:
		fmt.Fprintln(p.stdout, "No keys: sessions are HS256 and OpenID Connect is off: "+turnOnOIDC+".")
		return nil
	}
	table := make([][]string, 0, len(rows))
	for _, r := range rows {
		use := "verifies"
		if r.Signs {
			use = "signs"
		}
		table = append(table, []string{r.Kid, strconv.Itoa(r.Bits), use, r.File})
	}
	return writeTable(p.stdout, []string{"KID", "BITS", "USE", "FILE"}, table)
}

func keyBits(k jose.JSONWebKey) int {
	if public, ok := k.Public().Key.(*rsa.PublicKey); ok {
		return public.N.BitLen()
	}
	return 0
}
