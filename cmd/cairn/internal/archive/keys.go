package archive

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// A signing key is rotated in the settings of serve. The new key is listed as an additional key until
// every application has it, and then it swaps places with the signing key.

type KeysCommand struct {
	Generate generateKeyCommand `cmd:""`
	List     listKeysCommand    `cmd:"" reads:""`
	Seal     sealKeysCommand    `cmd:""`
	Migrate  migrateKeysCommand `cmd:""`
}

type generateKeyCommand struct {
	cli.Output
	File string `arg:"" help:"File to write the key to, readable only by its owner."`
	Type string `default:"rs256" enum:"rs256,es256,eddsa,age"`
	Bits int    `default:"2048" enum:"2048,3072,4096" help:"RSA key size in bits: ${enum}. Larger keys are slower."`
	Used string `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" hidden:""`
}

// Run writes the key. It never overwrites a file.
func (c *generateKeyCommand) Run(p *cli.Program) error {
	algorithms := map[string]jose.SignatureAlgorithm{"rs256": jose.RS256, "es256": jose.ES256, "eddsa": jose.EdDSA}
	algorithm := algorithms[c.Type]
	if c.Type != "rs256" && c.Bits != config.MinKeyBits {
		return cli.UsageError("--bits: keys of the type " + c.Type + " have one size")
	}
	if c.Type == "age" {
		return c.generateIdentity(p)
	}
	kid, err := config.GenerateKeyFor(algorithm, c.File, c.Bits)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: name another file", c.File)
	}
	if err != nil {
		return err
	}
	const restart = " in cairn.yaml and restart cairn serve"
	next := "write private-key-file: " + c.File + restart
	made := map[string]any{"file": c.File, "kid": kid, "alg": algorithm, "bits": c.Bits}
	if algorithm != jose.RS256 || cli.Exists(c.Used) {
		next = "add it to additional-key-file: [" + c.File + "]" + restart
	}
	if algorithm != jose.RS256 {
		made["bits"] = ecBits
	} else if cli.Exists(c.Used) {
		next += ", and swap it with private-key-file a day later (docs/keys.md)"
	}
	return c.Print(p, kid, made, cli.Pairs{
		{"key file", c.File}, {"kid", kid}, {"algorithm", string(algorithm)},
		{"next", next},
	})
}

// generateIdentity writes an age identity in the format of age-keygen, and prints its recipient.
func (c *generateKeyCommand) generateIdentity(p *cli.Program) error {
	text, recipient, err := backupfile.GenerateIdentity()
	if err != nil {
		return err
	}
	err = config.CreateFile(c.File, func(f *os.File) error {
		_, err := f.WriteString(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s %w: name another file", c.File, err)
	}
	return c.Print(p, recipient, map[string]string{"file": c.File, "recipient": recipient}, cli.Pairs{
		{"identity file", c.File}, {"recipient", recipient},
		{"next", "write backup-recipient: " + recipient + " into cairn.yaml and restart cairn serve; " +
			"move the file off this machine: only it decrypts the backups"},
	})
}

// listKeysCommand reads the same settings as serve, so that in the same environment it lists the keys
// that serve publishes.
type listKeysCommand struct {
	cli.Output
	cli.KeyFlags
}

// ecBits is the size of P-256 and Ed25519 keys.
const ecBits = 256

// keyRow is a published key in the output of keys list.
type keyRow struct {
	Kid   string `json:"kid"`
	Alg   string `json:"alg"`
	Bits  int    `json:"bits"`
	Signs bool   `json:"signs"`
	File  string `json:"file"`
}

// Run lists the keys. Without keys it prints that OpenID Connect is off.
func (c *listKeysCommand) Run(p *cli.Program) error {
	keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles)
	if err != nil {
		return err
	}
	// The keys are in the order of the files. LoadSigningKeys skips blank entries.
	files := []string{c.PrivateKeyFile}
	for _, f := range c.AdditionalKeyFiles {
		if f = strings.TrimSpace(f); f != "" {
			files = append(files, f)
		}
	}
	if len(keys) == 0 && !c.Quiet && c.Format != "json" {
		fmt.Fprintln(p.Stdout, "No keys: sessions are HS256 and OpenID Connect is off: "+TurnOnOIDC+".")
		return nil
	}
	out := c.List(p, "KID", "ALG", "BITS", "USE", "FILE")
	for i, k := range keys {
		row := keyRow{Kid: k.KeyID, Alg: k.Algorithm, Bits: ecBits, Signs: !k.IsPublic(), File: files[i]}
		if public, ok := k.Public().Key.(*rsa.PublicKey); ok {
			row.Bits = public.N.BitLen()
		}
		use := "verifies"
		if row.Signs {
			use = "signs"
		}
		out.Add(row.Kid, row, row.Kid, row.Alg, strconv.Itoa(row.Bits), use, row.File)
	}
	return out.End()
}

// migrateKeysCommand reads the settings of serve that it needs.
type migrateKeysCommand struct {
	cli.DatabaseFlags
	cli.Output
	cli.KeyFlags
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Address of the service to check."`
	Until  string `placeholder:"WHEN"`
}

// hs256State is the output of keys migrate.
type hs256State struct {
	Kid      string     `json:"kid"`
	JWKSURI  string     `json:"jwks_uri"` // where the key is published
	Sessions int        `json:"hs256_sessions"`
	Ended    int        `json:"ended"`           // by this command
	Last     *time.Time `json:"last_expires_at"` // of these sessions
	Until    *time.Time `json:"hs256_until"`     // null: until they expire
}

// Run changes nothing unless the key is published and --until is given.
func (c *migrateKeysCommand) Run(p *cli.Program) error {
	now := time.Now().UTC().Truncate(time.Second)
	until, err := parseUntil(c.Until, now)
	if err != nil {
		return err
	}
	settings := config.Defaults()
	settings.Issuer, settings.Database, settings.DataKeyFile = c.Issuer, c.Database, c.DataKeyFile
	settings.PrivateKeyFile, settings.AdditionalKeyFiles = c.PrivateKeyFile, c.AdditionalKeyFiles
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return errors.New("there is no key to migrate to: run cairn keys generate key.pem, " +
			"write private-key-file: key.pem into cairn.yaml, restart serve, and run this again")
	}
	release, err := cli.UseWithOthers(p.Ctx, checked)
	if err != nil {
		return err
	}
	defer release()
	st, err := cli.OpenExisting(p.Ctx, checked, cli.QuietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	state := hs256State{Kid: keys[0].KeyID, JWKSURI: checked.IssuerString + "/.well-known/jwks.json"}
	if err := checkPublished(p.Ctx, state.JWKSURI, keys[0]); err != nil {
		return err
	}
	if c.Until != "" {
		entry := cli.Operator(account.RetireSecret, "hs256", "until "+cli.DateOrNever(until))
		if err := st.SetHS256Until(p.Ctx, until, entry); err != nil {
			return err
		}
		// The service would end them too, within a minute.
		if !until.IsZero() && !until.After(now) {
			if state.Ended, err = st.EndHS256Sessions(p.Ctx, now); err != nil {
				return err
			}
		}
	}
	var last time.Time
	if state.Sessions, last, err = st.HS256Sessions(p.Ctx, now); err != nil {
		return err
	}
	v, err := st.Settings(p.Ctx)
	if err != nil {
		return err
	}
	state.Last, state.Until = web.TimeOrNull(last), web.TimeOrNull(v.HS256Until)
	return c.Print(p, strconv.Itoa(state.Sessions), state, state.labels(now))
}

func (s *hs256State) labels(now time.Time) cli.Pairs {
	sessions, cookies := strconv.Itoa(s.Sessions), "accepted until they expire"
	next := "remove the shared secret from every application"
	end := s.Last // of the last cookie that is still accepted
	if s.Last != nil {
		sessions += ", the last until " + s.Last.Format(time.RFC3339)
	}
	if s.Until != nil {
		cookies = "refused from " + s.Until.Format(time.RFC3339)
		if now.Before(*s.Until) {
			cookies = "accepted until " + s.Until.Format(time.RFC3339)
		}
		if end != nil && s.Until.Before(*end) {
			end = s.Until
		}
	}
	if end != nil && now.Before(*end) {
		next += " after " + end.Format(time.RFC3339)
		if end == s.Last {
			next += ", or set an earlier end with --until"
		}
	}
	labels := cli.Pairs{
		{"key", s.Kid}, {"published at", s.JWKSURI}, {"HS256 sessions", sessions}, {"HS256 cookies", cookies},
	}
	if s.Ended > 0 {
		labels = append(labels, [2]string{"sessions ended", strconv.Itoa(s.Ended)})
	}
	return append(labels, [2]string{"next", next})
}

// checkPublished fetches the key from the running service, as an application would.
func checkPublished(ctx context.Context, uri string, key jose.JSONWebKey) error {
	published, err := session.NewRemoteKeySet(uri, session.RemoteOptions{}).Key(ctx, key.KeyID)
	switch {
	case errors.Is(err, session.ErrUnknownKey):
		return fmt.Errorf("%s does not have the key %s: restart serve with this private key; nothing was changed",
			uri, key.KeyID)
	case err != nil:
		return fmt.Errorf("%s cannot be read, not by applications either: start serve with the private key "+
			"(without one it answers 404), or give its --issuer; nothing was changed: %w", uri, err)
	}
	theirs, ok := published.Key.(*rsa.PublicKey)
	if ours, is := key.Public().Key.(*rsa.PublicKey); !ok || !is || !ours.Equal(theirs) {
		return fmt.Errorf("%s has another key with the id %s: restart serve with this private key; "+
			"nothing was changed", uri, key.KeyID)
	}
	return nil
}

// maxUntilDays limits --until. It is far beyond the lifetime of any cookie: a later date is a mistake.
const maxUntilDays = 3650

// parseUntil parses --until. It returns the zero time for never and for an empty string.
func parseUntil(s string, now time.Time) (time.Time, error) {
	wrong := func(why string) (time.Time, error) {
		const format = "--until: %q %s: write a date, as 2026-12-24, a time, as 2026-12-24T18:00:00Z, " +
			"days from now, as 14d, now, or never"
		return time.Time{}, cli.Usagef(format, s, why)
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t, err = time.Parse(time.DateOnly, s)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		t = now.AddDate(0, 0, int(n))
	}
	switch {
	case s == "" || s == "never":
		return time.Time{}, nil
	case s == "now" || s == "0d":
		return now, nil
	case err != nil:
		return wrong("is not a time")
	case !t.After(now):
		return wrong("is in the past")
	case t.After(now.AddDate(0, 0, maxUntilDays)):
		return wrong(fmt.Sprintf("is more than %d days ahead", maxUntilDays))
	}
	return t.UTC().Truncate(time.Second), nil
}

type ShowSecretCommand struct {
	cli.DatabaseFlags
	Format string `name:"output" short:"o" enum:"text,env,json" default:"text"`
}

// Run prints the stored secret and nothing else on standard output.
func (c *ShowSecretCommand) Run(p *cli.Program) error {
	return c.WithStore(p, func(st *store.Store) error {
		secret, err := cli.StoredSecret(p.Ctx, st)
		switch {
		case err != nil:
			return err
		case c.Format == "json":
			return cli.WriteJSON(p.Stdout, map[string]string{"SERVICE_AUTH_JWT_SECRET": string(secret)})
		case c.Format == "env":
			fmt.Fprint(p.Stdout, "SERVICE_AUTH_JWT_SECRET=")
		}
		fmt.Fprintln(p.Stdout, string(secret))
		return nil
	})
}

// TurnOnOIDC says how to enable OpenID Connect.
const TurnOnOIDC = "cairn keys generate key.pem and the line private-key-file: key.pem in cairn.yaml turn it on"
