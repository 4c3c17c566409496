package register

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type ApplyCommand struct {
	cli.DatabaseFlags
	File   string `arg:"" optional:"" help:"YAML or JSON file, a folder of such files, or - for standard input."`
	DryRun bool   `name:"dry-run" help:"Print what would change and change nothing; exit code 3 if something would."`
	Prune  bool   `help:"Remove what an earlier apply registered and the file's list no longer has. Clients go with their consents and tokens. What was registered by hand stays."`
	Schema bool   `help:"Print the JSON Schema of the file."`
}

// Help implements kong.HelpProvider.
func (*ApplyCommand) Help() string {
	return `All of it or nothing. The keys are the flags of client add, api add and client allow (docs/apply.md).
An entry is the whole registration: a key that is missing gets its default, also on what was registered by hand.

  cairn export clients > clients.yaml
  cairn apply --dry-run clients.yaml
  cairn apply clients.yaml

Exit codes: 0 done, 1 failed, 2 mistakes, 3 with --dry-run if something would change.`
}

const exitChanges = 3 // of apply --dry-run

// Run applies the file.
func (c *ApplyCommand) Run(p *cli.Program) error {
	switch {
	case c.Schema:
		return printApplySchema(p)
	case c.File == "":
		return cli.UsageError("give a file, a folder, or - for standard input; see cairn apply --help")
	}
	return c.WithStore(p, func(st *store.Store) error {
		a, err := applyTo(p, st, c.File, c.Prune, c.DryRun)
		var faults faultsError
		if errors.As(err, &faults) {
			fmt.Fprintf(p.Stderr, "%s\ncairn: nothing was changed; mistakes: %d\n", faults, len(faults))
			return cli.ExitError(cli.ExitUsage)
		}
		if err != nil {
			return err
		}
		for _, change := range a.changes {
			text := []byte(strings.Join(append([]string{change.title()}, change.lines...), "\n") + "\n")
			if cli.ShowsColors(p.Stdout, p.Env) {
				text = signs.Paint(text)
			}
			_, _ = p.Stdout.Write(text)
		}
		for _, note := range a.notes {
			fmt.Fprintln(p.Stderr, "cairn: "+note)
		}
		switch n := len(a.changes); {
		case n == 0:
			fmt.Fprintln(p.Stdout, "nothing to change")
		case c.DryRun:
			fmt.Fprintf(p.Stdout, "%d to change\n", n)
			return cli.ExitError(exitChanges)
		default:
			fmt.Fprintf(p.Stdout, "%d changed\n", n)
		}
		return nil
	})
}

// signs are before what a change adds, removes and changes.
var signs = cli.NewPainter(`(?m)^(  )?[-+~] `, map[string]string{"+": cli.Green, "-": cli.Red, "~": cli.Yellow})

// change is one line of what an apply changes, with the lines of its fields.
type change struct {
	sign  string // + - ~
	kind  string
	id    string
	lines []string
}

func (c change) title() string { return strings.TrimSpace(c.sign + " " + c.kind + " " + c.id) }

// applier applies a file in a transaction.
type applier struct {
	*applyFile
	p       *cli.Program
	st      *store.Store
	now     time.Time
	changes []change
	notes   []string

	clients    []*provider.Client
	apis       []*provider.API
	allowances []provider.Allowance
}

var errDryRun = errors.New("dry run")

// applyTo applies a file, all or nothing. Even a dry run writes, and then rolls back: so it meets each
// rule that the store has.
func applyTo(p *cli.Program, st *store.Store, path string, prune, dry bool) (a *applier, err error) {
	file, err := readApply(p, path)
	if err != nil {
		return nil, err
	}
	file.load(p)
	faults := len(file.faults)
	err = st.Together(p.Ctx, "apply", func(tx *store.Store) error {
		file.faults = file.faults[:faults] // it may run again
		a = &applier{applyFile: file, p: p, st: tx, now: time.Now().UTC().Truncate(time.Second)}
		if err := a.run(prune); err != nil {
			return err
		}
		if err := file.err(); err != nil {
			return err
		}
		if dry || len(a.changes) == 0 {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return a, err
}

func (a *applier) run(prune bool) (err error) {
	var errs [3]error
	a.clients, errs[0] = a.st.Clients(a.p.Ctx)
	a.apis, errs[1] = a.st.APIs(a.p.Ctx)
	a.allowances, errs[2] = a.st.Allowances(a.p.Ctx)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if err := a.applySettings(); err != nil {
		return err
	}
	prune = prune && len(a.faults) == 0
	if prune { // first, so that an entry that refers to what is removed is a fault
		if err := a.prune(); err != nil {
			return err
		}
	}
	for i, do := range []func(*entry) error{a.client, a.api, a.allowance} {
		for _, e := range a.entries {
			if e.section != a.sections[i] {
				continue
			}
			if err := a.peel(e, do); err != nil {
				return err
			}
		}
	}
	if prune && len(a.faults) == 0 { // last, because a client goes unless an allowance of the file admits it
		return a.pruneAllowances()
	}
	return nil
}

// placeholderURI stands for redirect URIs that were all wrong, so that the other rules are checked.
const placeholderURI = "https://placeholder.invalid/"

var flagNamed = regexp.MustCompile(`--([a-z-]+)(?: "([^"]*)")?`)

// peel calls do with the entry. A fault of one value is reported at its line; then do is called again
// without that value, to find the next fault. With faults everything is rolled back, so that do may
// write what remains: other entries may refer to it. Only errors that are no faults are returned.
func (a *applier) peel(e *entry, do func(*entry) error) error {
	rest := *e
	rest.values = maps.Clone(e.values)
	for range maxApplyFaults {
		err := rest.parse()
		if err == nil {
			err = do(&rest)
		}
		if err == nil {
			return nil
		}
		var broken *provider.RegistrationError
		key, value, text := "", "", err.Error()
		switch {
		case errors.Is(err, account.ErrUnavailable) || a.p.Ctx.Err() != nil:
			return err
		case errors.As(err, &broken):
			key, value = e.keyOf(broken.Member), broken.Value
			text = broken.Describe(key)
		default:
			for _, m := range flagNamed.FindAllStringSubmatch(text, -1) {
				if _, given := rest.values[m[1]]; given {
					key, value = m[1], m[2]
					break
				}
			}
		}
		values, given := rest.values[key]
		if len(e.lines[key]) > 0 && !given {
			return nil // it lacks only because it was wrong
		}
		if !a.refersToFault(e, key, value) {
			a.wrong(e.at(key, value), "%s: %s", e.title(), e.inKeys(text))
		}
		switch i := rest.index(key, value); {
		case key == e.key && rest.id != "":
			rest.id = ""
		case given && i >= 0 && len(values) > 1:
			rest.values[key] = slices.Delete(slices.Clone(values), i, i+1)
		case key == "redirect-uri" && !slices.Equal(values, []string{placeholderURI}):
			rest.values[key] = []string{placeholderURI}
		case given && key != e.key:
			delete(rest.values, key)
		default:
			return nil
		}
	}
	return nil
}

// refersToFault reports whether the value names an entry that is in the file, but too wrong to be written.
func (a *applier) refersToFault(e *entry, key, value string) bool {
	return len(a.faults) > 0 && slices.ContainsFunc(a.entries, func(o *entry) bool {
		return o.id == value && value != "" && strings.EqualFold(o.kind, key) && o.kind != e.kind
	})
}

// placeholder stands for an id that is missing or wrong.
func (e *entry) placeholder(begin string) string { return fmt.Sprint(begin, "placeholder-", e.line) }

// keyOf returns the key of a member of a registration.
func (e *entry) keyOf(member string) string {
	switch {
	case member == "client_name" || member == "name":
		return "name"
	case member == "jwks" && len(e.values["jwks"]) > 0, e.kind == "allowance" && member == "url":
		return member
	case e.kind == "allowance":
		return strings.TrimSuffix(member, "s") // scopes, apis
	case e.kind == "API" && member == "resource":
		return "uri"
	case e.kind == "API":
		return strings.TrimPrefix(apiFlag(member), "--")
	}
	return strings.TrimPrefix(clientFlag(member), "--")
}

// secretOf returns the secret that an entry gives for a way to authenticate, or nil.
func (a *applier) secretOf(k secretKeys, method string) (*provider.ClientSecret, error) {
	var s provider.ClientSecret
	var err error
	switch {
	case k.SecretFile != "" && k.SecretHash != "":
		return nil, cli.UsageError("give --secret-file or --secret-hash, not both")
	case k.SecretFile != "":
		_, err := a.content(k.SecretFile, maxSecretFile)
		var opened *fs.PathError
		if k.SecretFile == "-" || errors.As(err, &opened) && opened.Op == "open" && !errors.Is(err, fs.ErrPermission) {
			// whose text has what may be the secret itself
			return nil, cli.UsageError("--secret-file: there is no such file: write its path, relative to this file, " +
				"and never the secret")
		}
		if s, err = readSecret(a.p, a.content, k.SecretFile, method, a.now); err != nil {
			return nil, err
		}
	case k.SecretHash != "":
		if s, err = provider.ParseSecretHash(k.SecretHash, a.now); err != nil {
			return nil, cli.Usagef("--secret-hash: %s", err)
		}
	default:
		return nil, nil
	}
	return &s, nil
}

// has reports whether a secret is one of those that work. Those of an API include one that has expired.
func (a *applier) has(secrets []provider.ClientSecret, s *provider.ClientSecret) bool {
	return slices.ContainsFunc(secrets, func(v provider.ClientSecret) bool {
		return slices.Equal(v.Hash, s.Hash) && (v.ExpiresAt.IsZero() || a.now.Before(v.ExpiresAt))
	})
}

func (a *applier) client(e *entry) error {
	k := *e.keys.(*clientKeys)
	i := slices.IndexFunc(a.clients, func(c *provider.Client) bool { return c.ID == e.id })
	c := provider.NewClient(cmp.Or(e.id, e.placeholder("")), e.id, a.now)
	c.Managed = true
	var old *provider.Client
	if i >= 0 {
		old = a.clients[i]
		c.CreatedAt, c.Managed, c.Secrets, c.Logo = old.CreatedAt, old.Managed, old.Secrets, old.Logo
	}
	c.Name = cmp.Or(k.Name, c.ID)
	if k.JWKS != "" {
		if k.JWKSFile != nil {
			return cli.UsageError("give --jwks or --jwks-file, not both")
		}
		var err error
		if c.JWKS, err = provider.CheckClientKeys([]byte(k.JWKS)); err != nil {
			return cli.Usagef("--jwks: %s", err)
		}
	}
	if err := k.clientOptions.apply(a.p, a.st, c, a.content); err != nil {
		return err
	}
	secret, err := a.secretOf(k.secretKeys, c.AuthMethod)
	switch {
	case err != nil:
		return err
	case k.JWKS != "" && c.JWKS == nil:
		return cli.UsageError("--jwks: only for a client that authenticates with private_key_jwt")
	case secret != nil && !c.HasSecret():
		return cli.UsageError("--secret-file and --secret-hash: " + noSecretHere)
	}
	if err := c.Check(); err != nil {
		return err
	}
	w := entryWrite{
		change: change{"~", "client", c.ID, nil}, after: clientFields(c), secrets: &c.Secrets, secret: secret,
		create: func() error { return a.st.CreateClient(a.p.Ctx, c, onClient(account.RegisterClient, c.ID)) },
		update: func() error { return a.st.UpdateClient(a.p.Ctx, c, onClient(account.UpdateClient, c.ID)) },
		rotate: func() error {
			audit := onClient(account.RenewClient, c.ID)
			return a.st.RotateClientSecret(a.p.Ctx, c.ID, secret.Hash, a.now, a.now, audit)
		},
	}
	if old != nil {
		if c.Logo.Hash == old.Logo.Hash {
			c.Logo = old.Logo
		}
		w.before, w.names = clientFields(old), provider.Changes(old, c)
	}
	if w.notes = c.Warnings(); secret == nil && c.HasSecret() && len(c.Secrets) == 0 {
		w.notes = append(w.notes, fmt.Sprintf("the client %s has no secret: write secret-file or secret-hash, "+
			"or cairn client rotate-secret %s gives it one", c.ID, c.ID))
	}
	return a.write(w)
}

func (a *applier) api(e *entry) error {
	k := *e.keys.(*apiKeys)
	n, _ := provider.NewAPI(cmp.Or(e.id, e.placeholder(placeholderURI)), "", a.now)
	n.Managed = true
	var old *provider.API
	if i := slices.IndexFunc(a.apis, func(o *provider.API) bool { return o.URI == e.id }); i >= 0 {
		old = a.apis[i]
		n.ID, n.Secrets, n.CreatedAt, n.Managed = old.ID, old.Secrets, old.CreatedAt, old.Managed
	}
	n.Name = cmp.Or(k.Name, n.URI)
	if err := errors.Join(k.apiOptions.apply(n), checkClaims(a.p, a.st, nonEmpty(k.Claims))); err != nil {
		return err
	}
	slices.Sort(n.Clients)
	n.Clients = slices.Compact(n.Clients)
	secret, err := a.secretOf(k.secretKeys, provider.AuthAny)
	if err == nil {
		err = n.Check()
	}
	if err != nil {
		return err
	}
	audit := func(act account.Act) account.Audit { return cli.Operator(act, n.URI, "") }
	w := entryWrite{
		change: change{"~", "API", n.URI, nil}, after: apiFields(n), secrets: &n.Secrets, secret: secret,
		notes:  n.Warnings(),
		create: func() error { return a.st.CreateAPI(a.p.Ctx, n, audit(account.RegisterAPI)) },
		update: func() error { return a.st.UpdateAPI(a.p.Ctx, n, audit(account.UpdateAPI)) },
		rotate: func() error {
			return a.st.RotateAPISecret(a.p.Ctx, n.URI, *secret, a.now, true, audit(account.RenewAPI))
		},
	}
	if old != nil {
		w.before, w.names = apiFields(old), provider.Changes(old, n)
	} else if secret == nil && n.Opaque {
		w.notes = append(w.notes, fmt.Sprintf("the API %s needs a secret for introspection: "+
			"write secret-file or secret-hash, or cairn api rotate-secret %s gives it one", n.URI, n.URI))
	}
	return a.write(w)
}

func (a *applier) allowance(e *entry) error {
	k := *e.keys.(*allowanceKeys)
	n := newAllowance(cmp.Or(e.id, e.placeholder(placeholderURI)), a.now)
	n.Managed, n.APIs = true, k.API
	if len(k.Scope) > 0 {
		n.Scopes = withOpenID(k.Scope)
	}
	w := entryWrite{change: change{"~", "allowance", n.URL, nil}}
	if i := slices.IndexFunc(a.allowances, func(o provider.Allowance) bool { return o.URL == e.id }); i >= 0 {
		old := a.allowances[i]
		n.CreatedAt, n.Managed, w.before = old.CreatedAt, old.Managed, allowanceFields(old)
	}
	w.after = allowanceFields(n)
	if len(differences(w.before, w.after)) > 0 || slices.ContainsFunc(n.APIs, a.prunedAPI) {
		w.names = []string{"scopes"}
	}
	w.create = func() error { return a.st.AllowClients(a.p.Ctx, n, allowAudit(n)) }
	w.update = w.create
	if err := n.Check(); err != nil {
		return err
	}
	return a.write(w)
}

// entryWrite is how an entry is written, if it changes something.
type entryWrite struct {
	change
	before, after []field  // before is nil if it is new
	names         []string // of the members that differ
	notes         []string

	create, update, rotate func() error

	secrets *[]provider.ClientSecret // that it has
	secret  *provider.ClientSecret   // that the file gives, or nil
}

const secretLine = "  ~ secret"

func (a *applier) write(w entryWrite) error {
	do := w.update
	if w.before == nil {
		if w.sign, do = "+", w.create; w.secret != nil {
			*w.secrets, w.secret = []provider.ClientSecret{*w.secret}, nil
		}
	}
	if w.before == nil || len(w.names) > 0 {
		if err := do(); err != nil {
			return err
		}
		if w.lines = differences(w.before, w.after); len(w.lines) == 0 {
			w.lines = []string{"  ~ " + strings.Join(w.names, " ")} // the logo, or the order of a list
		}
	}
	if w.secret != nil && !a.has(*w.secrets, w.secret) {
		if err := w.rotate(); err != nil {
			return err
		}
		w.lines = append(w.lines, secretLine)
	}
	if len(w.lines) > 0 {
		a.changes, a.notes = append(a.changes, w.change), append(a.notes, w.notes...)
	}
	return nil
}

// applySettings changes the settings. Those that are wrong are reported, and the others used for the
// checks of the rest.
func (a *applier) applySettings() error {
	if len(a.settings) == 0 {
		return nil
	}
	users := roster.NewAdministration(a.st, nil)
	before, err := users.Settings(a.p.Ctx)
	if err != nil {
		return err
	}
	rest := maps.Clone(a.settings)
	for {
		after, err := users.ChangeSettings(a.p.Ctx, account.Operator(), rest)
		if err == nil {
			if lines := differences(settingFields(before), settingFields(after)); len(lines) > 0 {
				a.changes = append(a.changes, change{"~", "settings", "", lines})
			}
			return nil
		}
		problem, known := web.ProblemOf(err)
		if !known || len(problem.Errors) == 0 {
			return err
		}
		left := len(rest)
		for _, wrong := range problem.Errors {
			name, _, _ := strings.Cut(strings.TrimPrefix(wrong.Pointer, "/"), "/")
			at, given := a.lines[name]
			if !given { // one that the file does not name no longer fits, as session_flags where flags are fewer
				at = slices.MinFunc(slices.Collect(maps.Values(a.lines)), position.compare)
			}
			a.wrong(at, "settings: %s: %s", strings.TrimPrefix(wrong.Pointer, "/"), wrong.Detail)
			delete(rest, name)
		}
		if len(rest) == left {
			return nil
		}
	}
}

// prune removes the APIs and clients that an earlier apply made and the lists of the file no longer have.
func (a *applier) prune() (err error) {
	for _, o := range a.apis {
		a.remove(&err, 1, o.URI, o.Managed, func() error {
			return a.st.RemoveAPI(a.p.Ctx, o.URI, cli.Operator(account.RemoveAPI, o.URI, ""))
		})
	}
	for _, o := range a.clients {
		a.remove(&err, 0, o.ID, o.Managed, func() error {
			return a.st.RemoveClient(a.p.Ctx, o.ID, onClient(account.RemoveClient, o.ID))
		})
	}
	if err == nil {
		a.apis, err = a.st.APIs(a.p.Ctx) // without the clients that are removed
	}
	return err
}

// pruneAllowances is prune for allowances, with the clients that no other one admits.
func (a *applier) pruneAllowances() (err error) {
	for _, o := range a.allowances {
		a.remove(&err, 2, o.URL, o.Managed, func() error {
			clients, err := a.st.DisallowClients(a.p.Ctx, o.URL, cli.Operator(account.DisallowClients, o.URL, ""))
			for _, id := range clients {
				a.changes = append(a.changes, change{"-", "client", id, nil})
			}
			return err
		})
	}
	return err
}

// remove calls do to remove an entry that an earlier apply made, if the file has its list without it. After an error
// it does nothing.
func (a *applier) remove(err *error, list int, id string, managed bool, do func() error) {
	if s := a.sections[list]; *err == nil && managed && a.present[s.name] && a.find(s, id) == nil {
		a.changes = append(a.changes, change{"-", s.kind, id, nil})
		*err = do()
	}
}

func (a *applier) prunedAPI(uri string) bool {
	return slices.ContainsFunc(a.changes, func(c change) bool {
		return c.sign == "-" && c.kind == "API" && c.id == uri
	})
}

// differences returns the lines of the fields that were removed and added.
func differences(old, now []field) (lines []string) {
	was, is := fieldLines(old), fieldLines(now)
	for _, l := range was {
		if !slices.Contains(is, l) {
			lines = append(lines, "  - "+l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			lines = append(lines, "  + "+l)
		}
	}
	return lines
}

func fieldLines(fields []field) (lines []string) {
	for _, f := range fields {
		if v := reflect.ValueOf(f.value); v.Kind() == reflect.Slice {
			for i := range v.Len() {
				lines = append(lines, fmt.Sprintf("%s: %v", f.key, v.Index(i)))
			}
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %v", f.key, f.value))
	}
	return lines
}

// ApplyAtStart applies the file of serve --apply. It logs what it changes and warns of what the operator should know.
func ApplyAtStart(p *cli.Program, st *store.Store, path string, log *slog.Logger, warn func(string)) error {
	a, err := applyTo(p, st, path, false, false)
	if err != nil {
		faults := strings.ReplaceAll(err.Error(), "\n", "; ")
		return fmt.Errorf("--apply (SERVICE_APPLY): %s; nothing was changed", faults)
	}
	for _, c := range a.changes {
		log.Info("applied", "change", c.title())
		if slices.Contains(c.lines, secretLine) {
			warn(fmt.Sprintf("the file of --apply replaced the secret of the %s %s: "+
				"if rotate-secret gave it the one before, rotate it again and write its new hash "+
				"(cairn export clients) into the file", c.kind, c.id))
		}
	}
	for _, note := range a.notes {
		warn(note)
	}
	return nil
}

// CheckApplyFile returns what is wrong with a file of apply, without a database.
func CheckApplyFile(p *cli.Program, path string) error {
	file, err := readApply(p, path)
	if err != nil {
		return err
	}
	return file.err()
}
