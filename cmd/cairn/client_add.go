package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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

// Run prints the secret of the client that it has registered.
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
	if err := c.checkFlags(p, st, client); err != nil {
		return err
	}
	if err := st.CreateClient(p.ctx, client); err != nil {
		if errors.Is(err, provider.ErrClientExists) {
			return fmt.Errorf("--id: a client %s exists already: choose another id", client.ID)
		}
		return inFlags(err)
	}
	warn(p, client)
	if c.Quiet {
		fmt.Fprintln(p.stdout, client.ID)
		return nil
	}
	return c.report(p.stdout, client, secret)
}

// client makes the client and its secret from the flags.
func (c *addClientCommand) client(p *program) (*provider.Client, string, error) {
	out := provider.NewClient(c.ID, c.Name, time.Now())
	if err := c.apply(p, out); err != nil {
		return nil, "", err
	}
	if err := out.Check(); err != nil {
		return nil, "", inFlags(err)
	}
	if !out.HasSecret() {
		return out, "", nil
	}
	secret, stored := provider.NewSecret(out.CreatedAt)
	out.Secrets = []provider.ClientSecret{stored}
	return out, secret, nil
}

// usualScopes are those that applications ask for, of what the client may have:
// further ones ask people for what most applications have no use for.
func usualScopes(c *provider.Client) []string {
	return slices.DeleteFunc([]string{"openid", "profile", "email", "offline_access"}, func(s string) bool { return !slices.Contains(c.Scopes, s) })
}

// warn tells what the operator should know of what was registered.
func warn(p *program, c *provider.Client) {
	for _, text := range c.Warnings() {
		fmt.Fprintln(p.stderr, "cairn: "+text)
	}
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
		fmt.Fprintf(w, "OIDC_SCOPES=%q\n", strings.Join(usualScopes(client), " "))
		return nil
	}
	return writeClient(w, client, secret)
}
