package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type rotateSecretCommand struct {
	databaseFlags
	secretOutput
	Quiet   bool   `short:"q" help:"Print the secret only."`
	ID      string `arg:"" help:"Client id."`
	Overlap period `placeholder:"DURATION" default:"0s" help:"How long the secrets before still work, as 24h or 7d, at most 30d. Without it they end at once."`
}

// Run gives the client a new secret, which is printed once.
func (c *rotateSecretCommand) Run(p *program) error {
	overlap := time.Duration(c.Overlap)
	if overlap > provider.MaxSecretOverlap {
		return usageError{"--overlap: at most 30d"}
	}
	return withClient(p, c.Database, c.ID, func(st *store.Store, client *provider.Client) error {
		if !client.HasSecret() {
			return fmt.Errorf("the client %s authenticates with %s and has no secret", client.ID, client.AuthMethod)
		}
		now := time.Now().UTC().Truncate(time.Second)
		secret, stored := provider.NewSecret(now)
		if err := st.RotateClientSecret(p.ctx, client.ID, stored.Hash, now, now.Add(overlap)); err != nil {
			if errors.Is(err, provider.ErrClientNotFound) {
				return fmt.Errorf("there is no client %q any more", c.ID)
			}
			return err
		}
		// From here on the secret must come out, whatever else fails.
		if fresh, err := st.Client(p.ctx, client.ID); err == nil {
			client = fresh
		}
		if c.Quiet {
			fmt.Fprintln(p.stdout, secret)
			return nil
		}
		return c.report(p.stdout, client, secret)
	})
}

type removeClientCommand struct {
	databaseFlags
	output
	ID  string `arg:"" help:"Client id."`
	Yes bool   `help:"Do not ask."`
}

// Run removes the client once somebody has said that it is meant.
func (c *removeClientCommand) Run(p *program) error {
	return withClient(p, c.Database, c.ID, func(st *store.Store, client *provider.Client) error {
		question := fmt.Sprintf("Remove the client %s (%s) with its consents and tokens?", client.ID, client.Name)
		if err := confirm(p, c.Yes, question); err != nil {
			return err
		}
		if err := st.RemoveClient(p.ctx, client.ID); err != nil {
			if errors.Is(err, provider.ErrClientNotFound) {
				return fmt.Errorf("there is no client %q any more", c.ID)
			}
			return err
		}
		return c.done(p, client.ID, map[string]any{"client_id": client.ID, "removed": true}, [][2]string{{"removed", client.ID + " (" + client.Name + ")"}})
	})
}

// confirm asks on a terminal; elsewhere only --yes goes on.
func confirm(p *program, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(p.stdin) {
		return usageError{question + " This cannot be undone: add --yes"}
	}
	fmt.Fprint(p.stderr, question+" This cannot be undone. [y/N] ")
	answer, err := readLine(p.stdin)
	if err != nil {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}
