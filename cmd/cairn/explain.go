package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/people"
	"github.com/cairn-id/cairn/cmd/cairn/internal/register"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type explainCommand struct {
	cli.DatabaseFlags
	URL    string `arg:""`
	User   string `placeholder:"HANDLE" ids:"user"`
	Format string `name:"output" short:"o" enum:"table,json" default:"table"`
	Issuer string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040"`

	PrivateKeyFile     string   `env:"SERVICE_OIDC_PRIVATE_KEY_FILE" placeholder:"FILE"`
	AdditionalKeyFiles []string `name:"additional-key-file" env:"SERVICE_OIDC_ADDITIONAL_KEY_FILES" placeholder:"FILE"`
}

// maxPasted limits the length of a pasted address, in bytes.
const maxPasted = 64 << 10

// Run explains the request. It exits with exitFailed if the application would not get a code.
func (c *explainCommand) Run(p *cli.Program) error {
	address := c.URL
	if address == "-" {
		b, err := p.Read("-", maxPasted)
		if err != nil {
			return fmt.Errorf("read the address: %w", err)
		}
		address = string(b)
	}
	keys, err := config.LoadSigningKeys(c.PrivateKeyFile, c.AdditionalKeyFiles)
	if err != nil {
		return err
	}
	return c.WithStore(p, func(st *store.Store) error {
		by := provider.Explainer{Storage: st, Issuer: c.Issuer, Keys: keys, Nearest: config.NearestName}
		by.Application = func(id, sent string, registered []string) string {
			return register.ApplicationThatSends(c.Issuer, id, sent, registered)
		}
		if by.Settings, err = st.Settings(p.Ctx); err != nil && !errors.Is(err, account.ErrNotInitialized) {
			return err
		}
		if c.User != "" {
			u, err := people.FindUser(p, roster.NewAdministration(st, nil), c.User)
			if err != nil {
				return err
			}
			by.User = &u
		}
		e, err := provider.Explain(p.Ctx, address, by)
		if err != nil {
			return err
		}
		if c.Format == "json" {
			err = cli.WriteJSON(p.Stdout, e)
		} else {
			err = writeExplanation(p, e)
		}
		if err == nil && e.Answer != provider.AnswerCode {
			err = cli.ExitError(cli.ExitFailed)
		}
		return err
	})
}

func writeExplanation(p *cli.Program, e *provider.Explanation) error {
	findings := cli.Output{}.List(p, "PARAMETER", "", "FINDING")
	for _, f := range e.Findings {
		findings.Add("", nil, f.Parameter, f.Verdict, f.Text)
	}
	if err := findings.End(); err != nil {
		return err
	}
	w := p.Stdout
	fmt.Fprintln(w)
	for i, s := range e.Steps {
		fmt.Fprintf(w, "%d. %s\n", i+1, s)
	}
	switch {
	case e.Device && e.Answer == provider.AnswerCode:
		fmt.Fprintf(w, "Then the device gets its tokens from %s\n", e.SentTo)
	case e.Device && e.Answer == provider.AnswerError:
		fmt.Fprintf(w, "The device gets the error %s from %s: %s\n", e.Error, e.SentTo, e.Why)
	case e.Answer == provider.AnswerCode:
		fmt.Fprintf(w, "Then a code goes to %s\n", e.SentTo)
	case e.Answer == provider.AnswerError:
		fmt.Fprintf(w, "The error %s goes to %s: %s\n", e.Error, e.SentTo, e.Why)
	default:
		fmt.Fprintf(w, "Nothing goes to the application: %s\n", e.Why)
	}
	u := e.User
	if u == nil {
		return nil
	}
	flag := ""
	switch {
	case u.RequiredFlag != "" && u.HasFlag:
		flag = u.RequiredFlag + ": on"
	case u.RequiredFlag != "":
		flag = u.RequiredFlag + ": off"
	}
	fmt.Fprintln(w)
	consented := cmp.Or(strings.Join(u.Consented, " "), "none")
	labels := cli.Pairs{{"user", u.Handle}, {"required flag", flag}, {"has agreed to", consented}}
	for _, part := range []struct {
		name   string
		claims map[string]any
	}{{"ID token", u.IDToken}, {"userinfo", u.UserInfo}} {
		for _, name := range slices.Sorted(maps.Keys(part.claims)) {
			labels = append(labels, [2]string{part.name, name + " = " + claimText(part.claims[name])})
		}
	}
	return cli.WritePairs(w, labels)
}

// claimText returns a value as JSON, with whole numbers without an exponent.
func claimText(v any) string {
	if n, ok := v.(float64); ok && n == float64(int64(n)) {
		return fmt.Sprint(int64(n))
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
