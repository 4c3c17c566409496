package main

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type updateClientCommand struct {
	databaseFlags
	output
	clientOptions
	ID                         string  `arg:"" help:"Client id."`
	Name                       *string `help:"Name that users see on the consent page."`
	ClearPostLogoutRedirectURI bool    `help:"Remove all post-logout redirect URIs."`
	ClearBackchannelLogoutURI  bool    `help:"Send no logout tokens any more."`
	ClearRequireFlag           bool    `help:"Let users in whatever flags they have."`
	ClearGroup                 bool    `help:"Let its groups claim name all flags but admin again."`
}

// Run changes what is given. Secrets and tokens are not touched.
func (c *updateClientCommand) Run(p *program) error {
	if reflect.ValueOf(c.clientOptions).IsZero() && c.Name == nil && !c.ClearPostLogoutRedirectURI && !c.ClearBackchannelLogoutURI && !c.ClearRequireFlag && !c.ClearGroup {
		return usageError{"nothing to change is given; see cairn client update --help"}
	}
	for _, pair := range []struct {
		cleared, given bool
		name           string
	}{
		{c.ClearPostLogoutRedirectURI, len(c.PostLogoutRedirectURI) > 0, "post-logout-redirect-uri"},
		{c.ClearBackchannelLogoutURI, c.BackchannelLogoutURI != nil, "backchannel-logout-uri"},
		{c.ClearRequireFlag, c.RequireFlag != nil, "require-flag"},
		{c.ClearGroup, len(c.Group) > 0, "group"},
	} {
		if pair.cleared && pair.given {
			return usageError{fmt.Sprintf("give --%s or --clear-%s, not both", pair.name, pair.name)}
		}
	}
	return withClient(p, c.Database, c.ID, func(st *store.Store, client *provider.Client) error {
		secretBefore := client.HasSecret()
		if err := c.change(p, client); err != nil {
			return err
		}
		if err := c.checkFlags(p, st, client); err != nil {
			return err
		}
		if err := st.UpdateClient(p.ctx, client); err != nil {
			if errors.Is(err, provider.ErrClientNotFound) {
				return fmt.Errorf("there is no client %q any more", c.ID)
			}
			return inFlags(err)
		}
		warn(p, client)
		if client.HasSecret() && !secretBefore {
			fmt.Fprintf(p.stderr, "cairn: the client needs a secret now: cairn client rotate-secret %s gives it one\n", client.ID)
		}
		return c.reportClient(p, client)
	})
}

func (c *updateClientCommand) change(p *program, client *provider.Client) error {
	if c.Name != nil {
		client.Name = *c.Name
	}
	if c.ClearPostLogoutRedirectURI {
		client.PostLogoutRedirectURIs = nil
	}
	if c.ClearBackchannelLogoutURI {
		client.BackchannelLogoutURI = ""
	}
	if c.ClearRequireFlag {
		client.RequireFlag = ""
	}
	if c.ClearGroup {
		client.Groups = nil
	}
	return c.apply(p, client)
}
