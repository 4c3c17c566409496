package main

import (
	"fmt"

	"github.com/cairn-id/cairn/account"
)

type showSecretCommand struct {
	databaseFlags
	Format string `name:"output" short:"o" enum:"text,env,json" default:"text" help:"text (the secret alone), env (a line for a secrets file) or json."`
}

// Run prints the stored secret and nothing else on standard output.
func (c *showSecretCommand) Run(p *program) error {
	st, err := openDatabase(p.ctx, c.Database, quietLog(p))
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	secret, err := st.Secret(p.ctx, account.SecretJWT)
	if err != nil {
		return fmt.Errorf("read the stored secret: %w", err)
	}
	switch c.Format {
	case "json":
		return writeJSON(p.stdout, map[string]string{"SERVICE_AUTH_JWT_SECRET": string(secret)})
	case "env":
		fmt.Fprintf(p.stdout, "SERVICE_AUTH_JWT_SECRET=%s\n", secret)
	default:
		fmt.Fprintln(p.stdout, string(secret))
	}
	return nil
}
