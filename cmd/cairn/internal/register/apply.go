package register

import (
	"cmp"
	"context"
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
	Prune  bool
	Schema bool `help:"Print the JSON Schema of the file."`
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
		warn(p, a.notes)
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
	registrations
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

func (a *applier) run(pruning bool) (err error) {
	if a.registrations, err = readAll(a.p.Ctx, a.st); err != nil {
		return err
	}
	if err := a.applySettings(); err != nil {
		return err
	}
	pruning = pruning && len(a.faults) == 0
	if pruning { // first, so that an entry that refers to what is removed is a fault
		if err := cmp.Or(prune(a, apiKind, a.apis), prune(a, clientKind, a.clients)); err != nil {
			return err
		}
		if a.apis, err = a.st.APIs(a.p.Ctx); err != nil { // without the clients that are removed
			return err
		}
		for _, o := range a.allowances {
			o.APIs = slices.DeleteFunc(o.APIs, func(uri string) bool { return apiKind.in(a.apis, uri) == nil })
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
	if !pruning || len(a.faults) > 0 {
		return nil
	}
	k := allowanceKind // last, because a client goes unless an allowance of the file admits it
	k.remove = func(st *store.Store, ctx context.Context, url string, audit account.Audit) error {
		clients, err := st.DisallowClients(ctx, url, audit)
		for _, id := range clients {
			a.changes = append(a.changes, change{"-", clientKind.noun, id, nil})
		}
		return err
	}
	return prune(a, k, a.allowances)
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
	case member == "jwks" && len(e.values["jwks"]) > 0:
		return member
	case member == "resource" || member == "url":
		return e.key
	}
	return strings.TrimPrefix(e.flag(member), "--")
}

// secretFile reads a file as content does. The text of an error has the name, which may be the secret itself.
func (a *applier) secretFile(file string, limit int64) ([]byte, error) {
	text, err := a.content(file, limit)
	var opened *fs.PathError
	if file == "-" || errors.As(err, &opened) && opened.Op == "open" && !errors.Is(err, fs.ErrPermission) {
		err = errors.New("there is no such file: write its path, relative to this file, and never the secret")
	}
	return text, err
}

func (a *applier) client(e *entry) error {
	k := *e.keys.(*clientKeys)
	c := provider.NewClient(cmp.Or(e.id, e.placeholder("")), e.id, a.now)
	c.Managed = true
	old := clientKind.in(a.clients, e.id)
	if old != nil {
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
	if k.JWKS != "" && c.JWKS == nil {
		return cli.UsageError("--jwks: only for a client that authenticates with private_key_jwt")
	}
	secret, err := k.secretKeys.read(a.p, a.secretFile, c.AuthMethod, a.now)
	if err != nil {
		return err
	}
	if old != nil && c.Logo.Hash == old.Logo.Hash {
		c.Logo = old.Logo
	}
	notes := c.Warnings()
	if secret == nil && c.HasSecret() && len(c.Secrets) == 0 {
		notes = append(notes, fmt.Sprintf("the client %s has no secret: write secret-file or secret-hash, "+
			"or cairn client rotate-secret %[1]s gives it one", c.ID))
	}
	return write(a, clientKind, old, c, secret, notes)
}

func (a *applier) api(e *entry) error {
	k := *e.keys.(*apiKeys)
	n, _ := provider.NewAPI(cmp.Or(e.id, e.placeholder(placeholderURI)), "", a.now)
	n.Managed = true
	old := apiKind.in(a.apis, e.id)
	if old != nil {
		n.ID, n.Secrets, n.CreatedAt, n.Managed = old.ID, old.Secrets, old.CreatedAt, old.Managed
	}
	n.Name = cmp.Or(k.Name, n.URI)
	given := provider.Client{Claims: nonEmpty(k.Claims)}
	if err := errors.Join(k.apiOptions.apply(n), checkFlags(a.p, a.st, given)); err != nil {
		return err
	}
	slices.Sort(n.Clients)
	n.Clients = slices.Compact(n.Clients)
	secret, err := k.secretKeys.read(a.p, a.secretFile, provider.AuthAny, a.now)
	if err != nil {
		return err
	}
	notes := n.Warnings()
	if old == nil && secret == nil && n.Opaque {
		notes = append(notes, fmt.Sprintf("the API %s needs a secret for introspection: "+
			"write secret-file or secret-hash, or cairn api rotate-secret %[1]s gives it one", n.URI))
	}
	return write(a, apiKind, old, n, secret, notes)
}

func (a *applier) allowance(e *entry) error {
	n := newAllowance(cmp.Or(e.id, e.placeholder(placeholderURI)), a.now)
	n.Managed = true
	old := allowanceKind.in(a.allowances, e.id)
	if old != nil {
		n.CreatedAt, n.Managed = old.CreatedAt, old.Managed
	}
	assign(n, e.keys.(*allowanceKeys).allowanceOptions)
	n.Scopes = withOpenID(n.Scopes)
	return write(a, allowanceKind, old, n, nil, nil)
}

const secretLine = "  ~ secret"

// write writes an entry, if it changes something; old is nil if it is new, and secret if the file gives none.
func write[T registration](
	a *applier, k kind[T], old, now *T, secret *provider.ClientSecret, notes []string,
) error {
	if err := k.check(now); err != nil {
		return err
	}
	its := k.of(now)
	c := change{"~", k.noun, its.id, nil}
	do, act, before, names := k.update, k.updated, []field(nil), []string(nil)
	if old != nil {
		before, names = k.fields(old), provider.Changes(old, now)
	} else if c.sign, do, act = "+", k.create, k.added; secret != nil {
		*its.secrets, secret = []provider.ClientSecret{*secret}, nil
	}
	if old == nil || len(names) > 0 {
		if err := do(a.st, a.p.Ctx, now, k.audit(act, its.id)); err != nil {
			return err
		}
		if c.lines = differences(before, k.fields(now)); len(c.lines) == 0 {
			c.lines = []string{"  ~ " + strings.Join(names, " ")} // the logo, or the order of a list
		}
	}
	works := func(v provider.ClientSecret) bool { // those of an API include one that has expired
		return slices.Equal(v.Hash, secret.Hash) && (v.ExpiresAt.IsZero() || a.now.Before(v.ExpiresAt))
	}
	if secret != nil && !slices.ContainsFunc(*its.secrets, works) {
		audit := k.audit(k.renewed, its.id)
		if err := k.rotate(a.st, a.p.Ctx, its.id, *secret, a.now, true, audit); err != nil {
			return err
		}
		c.lines = append(c.lines, secretLine)
	}
	if len(c.lines) > 0 {
		a.changes, a.notes = append(a.changes, c), append(a.notes, notes...)
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

// prune removes what an earlier apply made and the lists of the file no longer have.
func prune[T registration](a *applier, k kind[T], all []*T) error {
	s := a.sections[slices.IndexFunc(a.sections, func(s *section) bool { return s.kind == k.noun })]
	for _, v := range all {
		its := k.of(v)
		if !its.managed || !a.present[s.name] || a.find(s, its.id) != nil {
			continue
		}
		a.changes = append(a.changes, change{"-", k.noun, its.id, nil})
		if err := k.remove(a.st, a.p.Ctx, its.id, k.audit(k.removed, its.id)); err != nil {
			return err
		}
	}
	return nil
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
