package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
	"github.com/cairn-id/cairn/store/generated"
)

type fillCommand struct {
	Database string `env:"SERVICE_DATABASE" default:"cairn.db" help:"SQLite file, or a postgres:// URL."`
	Output   string `short:"o" enum:"table,json" default:"table" help:"table or json."`
	Users    int    `default:"1000000" help:"How many users to add."`
	Sessions *int   `help:"How many sessions they have, each with a grant; one a user if not given."`
	Tokens   *int   `help:"How many tokens the grants have; five a session if not given."`
}

// filled is what fill -o json prints: enough to sign in as a generated user, and as a client.
type filled struct {
	First    string  `json:"first_handle"`
	Last     string  `json:"last_handle"`
	Users    int     `json:"users"`
	Password string  `json:"password"`
	Clients  int     `json:"clients"`
	Secret   string  `json:"client_secret"`
	Seconds  float64 `json:"seconds"`
}

// Validate implements kong.Validatable.
func (c *fillCommand) Validate() error {
	if c.Sessions == nil {
		c.Sessions = new(c.Users)
	}
	if c.Tokens == nil {
		c.Tokens = new(5 * *c.Sessions)
	}
	switch {
	case c.Users < 1 || c.Users > 1e8 || *c.Sessions < 0 || *c.Sessions > 1e9 || *c.Tokens < 0 || *c.Tokens > 1e9:
		return errors.New("--users takes 1 to 100,000,000, --sessions and --tokens up to 1,000,000,000")
	case *c.Sessions == 0 && *c.Tokens > 0:
		return errors.New("--tokens: a token belongs to a session, and there is none")
	}
	return nil
}

// Run implements fill.
func (c *fillCommand) Run(ctx context.Context) error {
	if _, err := os.Stat(c.Database); err != nil && !store.IsPostgres(c.Database) {
		return fmt.Errorf("--database: %w: run cairn init, or name the right file", err)
	}
	st, err := store.Open(ctx, c.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("--database: %w", err)
	}
	defer func() { _ = st.Close() }()
	if err := st.CheckSchema(ctx); err != nil {
		return fmt.Errorf("--database: %w: cairn init of this version makes one", err)
	}
	if err := generated.CheckNew(ctx, c.Database); err != nil {
		return fmt.Errorf("--database: %w: name a new one that cairn init has made", err)
	}
	began := time.Now()
	hasher, err := password.NewHasher()
	if err != nil {
		return err
	}
	done := filled{
		First: generated.Handle(0, c.Users), Last: generated.Handle(c.Users-1, c.Users), Users: c.Users,
		Password: password.Generate(0), Clients: 20,
	}
	o := generated.Options{Users: c.Users, Sessions: *c.Sessions, Tokens: *c.Tokens, Now: began}
	if o.PasswordHash, err = hasher.Hash(ctx, done.Password); err != nil {
		return err
	}
	o.Progress = func(users int) {
		fmt.Fprintf(os.Stderr, "%d of %d users, %.0f s\n", users, c.Users, time.Since(began).Seconds())
	}
	secret, stored := provider.NewSecret(began)
	done.Secret = secret
	for n := range done.Clients {
		// Nothing listens on port 9 (discard): a logout token that is sent there goes nowhere, and quickly.
		client := provider.NewClient(fmt.Sprintf("bench-%02d", n), fmt.Sprintf("Generated %d", n), began)
		client.RedirectURIs, client.Secrets = []string{redirectURI}, []provider.ClientSecret{stored}
		client.BackchannelLogoutURI, client.BackchannelPrivate = fmt.Sprintf("http://127.0.0.1:9/logout/%d", n), true
		audit := account.Operator().Audit(began, account.RegisterClient, "client:"+client.ID, "")
		if err := st.CreateClient(ctx, client, audit); err != nil {
			return err
		}
		o.Clients = append(o.Clients, client.ID)
	}
	if err := generated.Fill(ctx, c.Database, o); err != nil {
		return fmt.Errorf("fill: %w: the database is incomplete: delete it and begin anew", err)
	}
	if done.Seconds = time.Since(began).Seconds(); c.Output == "json" {
		return printJSON(done)
	}
	fmt.Printf("handles        %s to %s\npassword       %s\n", done.First, done.Last, done.Password)
	fmt.Printf("clients        bench-00 to bench-%02d\nclient secret  %s\n", done.Clients-1, done.Secret)
	return nil
}
