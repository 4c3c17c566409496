package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/provider"
)

// secretOutput are the flags of a command that prints a client's secret.
type secretOutput struct {
	Format string `name:"output" short:"o" enum:"table,json,env" default:"table" help:"table, json or env (a block to paste into the application's environment)."`
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040" help:"Issuer to print with -o env."`
}

type addClientCommand struct {
	databaseFlags
	secretOutput
	clientOptions
	Quiet bool   `short:"q" help:"Print the id only (a confidential client's secret is then never shown)."`
	Name  string `arg:"" help:"Name that users see on the consent page."`
	ID    string `placeholder:"ID" help:"Client id; generated if not given."`
}

var clientIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Run checks everything before it writes anything.
func (c *addClientCommand) Run(p *program) error {
	client, secret, err := c.client(p)
	if err != nil {
		return err
	}
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	if err := checkRequiredFlag(p, st, client); err != nil {
		return err
	}
	if err := st.CreateClient(p.ctx, client); err != nil {
		if errors.Is(err, provider.ErrClientExists) {
			return fmt.Errorf("--id: a client %s exists already: choose another id", client.ID)
		}
		return err
	}
	if c.Quiet {
		fmt.Fprintln(p.stdout, client.ID)
		return nil
	}
	return c.report(p.stdout, client, secret)
}

// client makes the client and its secret from the flags.
func (c *addClientCommand) client(p *program) (*provider.Client, string, error) {
	name, err := checkClientName(c.Name)
	if err != nil {
		return nil, "", err
	}
	out := &provider.Client{
		ID: c.ID, Name: name, Scopes: slices.Clone(provider.Scopes), AuthMethod: provider.AuthAny, CreatedAt: time.Now().UTC().Truncate(time.Second),
	}
	if out.ID == "" {
		out.ID = randomText(12)
	}
	if !clientIDForm.MatchString(out.ID) {
		return nil, "", usageError{"--id: 1 to 64 letters, digits, - or _"}
	}
	if strings.EqualFold(out.ID, session.Audience) {
		// Its ID tokens would be session cookies.
		return nil, "", usageError{fmt.Sprintf("--id: %q is the audience of the session cookie and cannot be a client: choose another id", out.ID)}
	}
	if err := c.apply(p, out); err != nil {
		return nil, "", err
	}
	if err := checkClient(out); err != nil {
		return nil, "", err
	}
	if !hasSecret(out) {
		return out, "", nil
	}
	secret, hash := newSecret()
	out.Secrets = []provider.ClientSecret{{Hash: hash, CreatedAt: out.CreatedAt}}
	return out, secret, nil
}

func checkClientName(s string) (string, error) {
	name, err := account.CheckDisplayName(s)
	if err != nil {
		return "", usageError{"the name has 1 to 60 characters and no control characters"}
	}
	return name, nil
}

// hasSecret tells whether the client authenticates with a secret.
func hasSecret(c *provider.Client) bool {
	return c.AuthMethod != provider.AuthNone && c.AuthMethod != provider.AuthJWT
}

// newSecret makes a client secret of 256 bits and what is stored of it.
func newSecret() (secret string, hash []byte) {
	secret = randomText(32)
	return secret, provider.HashSecret(secret)
}

// randomText is n random bytes in base64url: nothing in it needs escaping.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// report prints a client with its new secret, which is never shown again.
func (o secretOutput) report(w io.Writer, client *provider.Client, secret string) error {
	switch o.Format {
	case "json":
		return writeJSON(w, rowOf(client, secret))
	case "env":
		fmt.Fprintf(w, "OIDC_ISSUER=%s\nOIDC_CLIENT_ID=%s\n", o.Issuer, client.ID)
		if secret != "" {
			fmt.Fprintf(w, "OIDC_CLIENT_SECRET=%s\n", secret)
		}
		if len(client.RedirectURIs) > 0 {
			fmt.Fprintf(w, "OIDC_REDIRECT_URI=%s\n", client.RedirectURIs[0])
		}
		fmt.Fprintf(w, "OIDC_SCOPES=%q\n", strings.Join(client.Scopes, " "))
		return nil
	}
	return writeClient(w, client, secret)
}
