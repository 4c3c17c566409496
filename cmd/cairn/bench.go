package main

import (
	"errors"
	"fmt"
	"time"

	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

// benchCommand is hidden: it is for those who measure.
type benchCommand struct {
	Fill  fillCommand  `cmd:"" help:"Make a large installation of generated users, of one in which only the first administrator is."`
	Load  loadCommand  `cmd:"" help:"Measure how many requests this program serves per second of processor time, on this machine alone."`
	Floor floorCommand `cmd:"" hidden:"" help:"Serve the bare provider of bench load --peer floor."`
}

type fillCommand struct {
	databaseFlags
	Format   string `name:"output" short:"o" enum:"table,json" default:"table" help:"table or json."`
	Users    int    `default:"1000000" help:"How many users to add."`
	Sessions *int   `help:"How many sessions they have, each with a grant; one a user if not given."`
	Tokens   *int   `help:"How many tokens the grants have; five a session if not given."`
}

// benchClients is how many clients a filled installation has.
const benchClients = 20

// Run prints what one needs to sign in as a generated user, and as a client.
func (c *fillCommand) Run(p *program) error {
	hasher, err := passwords.NewHasher()
	if err != nil {
		return err
	}
	f := store.Filling{Users: c.Users, Sessions: c.Users, Now: time.Now()}
	set(&f.Sessions, c.Sessions)
	f.Tokens = 5 * f.Sessions
	set(&f.Tokens, c.Tokens)
	switch {
	case f.Users < 1 || f.Users > 1e8 || f.Sessions < 0 || f.Sessions > 1e9 || f.Tokens < 0 || f.Tokens > 1e9:
		return usageError{"--users takes 1 to 100,000,000, --sessions and --tokens up to 1,000,000,000"}
	case f.Sessions == 0 && f.Tokens > 0:
		return usageError{"--tokens: a token belongs to a session, and there is none"}
	}
	password := passwords.Generate(0)
	if f.PasswordHash, err = hasher.Hash(p.ctx, password); err != nil {
		return err
	}
	secret, stored := provider.NewSecret(f.Now)
	for n := range benchClients {
		// Nothing listens on port 9 (discard): a logout token that is sent there goes
		// nowhere, and quickly.
		client := provider.NewClient(fmt.Sprintf("bench-%02d", n), fmt.Sprintf("Generated %d", n), f.Now)
		client.RedirectURIs, client.Secrets = []string{"http://127.0.0.1:9/callback"}, []provider.ClientSecret{stored}
		client.BackchannelLogoutURI, client.BackchannelPrivate = fmt.Sprintf("http://127.0.0.1:9/logout/%d", n), true
		f.Clients = append(f.Clients, client)
	}
	began := time.Now()
	f.Progress = func(users int) {
		fmt.Fprintf(p.stderr, "%d of %d users, %.0f s\n", users, f.Users, time.Since(began).Seconds())
	}
	return c.withStore(p, func(st *store.Store) error {
		err := st.Fill(p.ctx, f)
		if errors.Is(err, store.ErrNotNew) {
			return errors.New("the database has more in it than its first administrator: generated users never go among real ones; name a new database that cairn init has made")
		}
		if err != nil {
			return fmt.Errorf("%w: what is in the database now is incomplete: delete it and begin anew", err)
		}
		seconds := time.Since(began).Seconds()
		first, last := store.FilledHandle(0, f.Users), store.FilledHandle(f.Users-1, f.Users)
		if c.Format == "json" {
			return writeJSON(p.stdout, map[string]any{"first_handle": first, "last_handle": last, "password": password, "clients": benchClients, "client_secret": secret, "seconds": seconds})
		}
		return writePairs(p.stdout, pairs{
			{"handles", first + " to " + last}, {"password", password}, {"clients", fmt.Sprintf("bench-00 to bench-%02d", benchClients-1)}, {"client secret", secret}, {"seconds", fmt.Sprintf("%.0f", seconds)},
		})
	})
}
