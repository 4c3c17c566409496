package people

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/templates"
)

type importUsersCommand struct {
	cli.DatabaseFlags
	cli.Output
	importFlags
	File string `arg:"" help:"CSV file with a header line, or JSON array of objects; - for standard input."`
}

// importFlags are the flags of every command that imports users of another system.
type importFlags struct {
	DryRun          bool   `help:"Check everything and change nothing."`
	SkipExisting    bool   `help:"Skip users whose handle is taken, instead of refusing the file."`
	ReservedHandles bool   `help:"Accept handles that members cannot choose, such as support."`
	ResetCodes      string `type:"path" placeholder:"FILE" help:"New file for reset codes of users without a hash."`
	Issuer          string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040"`
}

// Run adds all users of the file, or none.
func (c *importUsersCommand) Run(p *cli.Program) error {
	rows, err := c.read(p)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return c.WithUsers(p, func(users *roster.Administration) error {
		checked, err := c.check(p, users, rows)
		if err != nil {
			return err
		}
		return c.store(p, users, checked)
	})
}

func (c *importUsersCommand) check(
	p *cli.Program, a *roster.Administration, rows []roster.ImportRow,
) (*roster.Import, error) {
	hasher, err := passwords.NewHasher()
	if err != nil {
		return nil, err
	}
	return a.CheckImport(p.Ctx, hasher, rows, roster.ImportOptions{
		SkipExisting: c.SkipExisting, ReservedHandles: c.ReservedHandles, ResetCodes: c.ResetCodes != "",
	})
}

// maxShown limits the skipped rows that are shown, and likewise the refused ones.
const maxShown = 20

// report prints the outcome. Its table has only the rows that are skipped or refused.
func (c *importUsersCommand) report(p *cli.Program, i *roster.Import) error {
	created, skipped := i.Count(roster.ImportCreated), i.Count(roster.ImportSkipped)
	refused := i.Count(roster.ImportRefused)
	switch {
	case c.Quiet:
		for _, u := range i.Users() {
			fmt.Fprintln(p.Stdout, u.Sub)
		}
		return nil
	case c.Format == "json":
		return cli.WriteJSON(p.Stdout, map[string]any{
			"changed":            !c.DryRun && refused == 0,
			roster.ImportCreated: created, roster.ImportSkipped: skipped, roster.ImportRefused: refused,
			"rows": i.Results,
		})
	}
	t := cli.NewTable(p.Stdout)
	shown := map[string]int{}
	if skipped+refused > 0 {
		fmt.Fprintln(t, "ROW\tHANDLE\tOUTCOME\tREASON")
	}
	for _, r := range i.Results {
		shown[r.Outcome]++
		if r.Outcome != roster.ImportCreated && shown[r.Outcome] <= maxShown {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", r.Row, r.Handle, r.Outcome, cli.Printable(r.Reason))
		}
	}
	if more := max(0, skipped-maxShown) + max(0, refused-maxShown); more > 0 {
		fmt.Fprintf(t, "and %d more rows: -o json has them all\n", more)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	added := "added"
	if c.DryRun || refused > 0 {
		added = "could be added"
	}
	users := fmt.Sprintf("%d %s, %d skipped, %d refused", created, added, skipped, refused)
	return cli.WritePairs(p.Stdout, cli.Pairs{{"users", users}})
}

// store stores a checked import and reports it. It writes the file of codes first: a code without
// its user is harmless.
func (c *importUsersCommand) store(p *cli.Program, users *roster.Administration, i *roster.Import) error {
	created, refused := i.Count(roster.ImportCreated), i.Count(roster.ImportRefused)
	if refused == 0 && !c.DryRun {
		if c.ResetCodes != "" {
			if err := c.writeCodes(i.Codes); err != nil {
				return fmt.Errorf("--reset-codes: %w", err)
			}
		}
		err := users.Import(p.Ctx, account.Operator(), i, fmt.Sprintf("%d users", created))
		if err != nil && c.ResetCodes != "" {
			err = errors.Join(err, os.Remove(c.ResetCodes))
		}
		if errors.Is(err, account.ErrHandleTaken) || errors.Is(err, account.ErrEmailTaken) {
			return errors.New("a handle or an address was taken meanwhile, and nothing was changed: run it again")
		}
		if err != nil {
			return err
		}
	}
	if err := c.report(p, i); err != nil || refused == 0 {
		return err
	}
	return fmt.Errorf("%d of %d rows are refused, and nothing was changed: correct the rows in the report, "+
		"and run it again", refused, len(i.Results))
}

func (c *importUsersCommand) writeCodes(codes []account.ImportedCode) error {
	return config.CreateFile(c.ResetCodes, func(f *os.File) error {
		w := csv.NewWriter(f)
		rows := [][]string{{"handle", "code", "url", "expires_at"}}
		for _, code := range codes {
			url, until := account.ResetURL(c.Issuer, code.Handle, code.ResetCode), code.ExpiresAt.Format(time.RFC3339)
			rows = append(rows, []string{code.Handle, code.Shown(), url, until})
		}
		return w.WriteAll(rows)
	})
}

// maxImport is the most bytes of a file of users.
const maxImport = 64 << 20

// read reads the rows of the file. It is JSON if it begins with a bracket, and CSV otherwise.
func (c *importUsersCommand) read(p *cli.Program) ([]roster.ImportRow, error) {
	data, err := p.Read(c.File, maxImport+1)
	if _, unreadable := errors.AsType[*fs.PathError](err); unreadable {
		return nil, errors.New("the file cannot be read: name a CSV or JSON file, or - for standard input")
	}
	if err == nil && len(data) > maxImport {
		err = errors.New("the file is larger than 64 MiB: import it in several parts, each with the header line")
	}
	if err != nil {
		return nil, err
	}
	if text := bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n"); bytes.HasPrefix(text, []byte("[")) {
		return readJSONRows(text)
	}
	rows, err := roster.ReadList(data, templates.LanguageOf(p.Ctx))
	if problem, ok := web.ProblemOf(err); ok {
		err = errors.New(problem.Detail)
	}
	return rows, err
}

func readJSONRows(text []byte) (rows []roster.ImportRow, err error) {
	in := jsontext.NewDecoder(bytes.NewBuffer(text))
	if _, err := in.ReadToken(); err != nil {
		return nil, err
	}
	for in.PeekKind() == '{' {
		value, err := in.ReadValue()
		if err != nil {
			return nil, err
		}
		row := roster.ImportRow{Row: len(rows) + 1}
		if err := roster.CheckImportSize(len(rows), len(value)); err != nil {
			return nil, fmt.Errorf("entry %d: %w", row.Row, err)
		}
		var object map[string]any
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, err
		}
		if row.Members, err = roster.Flatten(object); err != nil {
			return nil, fmt.Errorf("entry %d: %w", row.Row, err)
		}
		for name := range row.Members {
			if err := roster.CheckImportMember(name); err != nil {
				return nil, fmt.Errorf("entry %d: %w", row.Row, err)
			}
		}
		rows = append(rows, row)
	}
	if end, err := in.ReadToken(); err != nil || end.Kind() != ']' {
		return nil, fmt.Errorf("not an array of objects: entry %d", len(rows)+1)
	}
	if rest := bytes.TrimSpace(text[in.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("after the array follows %.20q: write all users into one array", rest)
	}
	return rows, nil
}

type exportUsersCommand struct {
	cli.DatabaseFlags
	Format             string `name:"output" short:"o" enum:"csv,json" default:"csv" help:"csv or json."`
	WithPasswordHashes bool   `help:"Include the password hashes: protect the file like a password."`
}

// Run writes all users, in the order of their handles, in the format of user import.
func (c *exportUsersCommand) Run(p *cli.Program) error {
	columns := slices.DeleteFunc(roster.ImportMembers(), func(name string) bool {
		return name == "password_hash" && !c.WithPasswordHashes
	})
	return c.WithUsers(p, func(users *roster.Administration) error {
		settings, err := users.Settings(p.Ctx)
		if err != nil {
			return err
		}
		for _, name := range settings.Attributes {
			columns = append(columns, account.AttributePrefix+name)
		}
		out, table := cli.Output{Format: "json"}.List(p), csv.NewWriter(p.Stdout)
		if c.Format == "csv" {
			if err := table.Write(columns); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		for after, more := "", true; more; more = after != "" && out.Err == nil {
			page, next, err := users.Users(p.Ctx, account.UserQuery{After: after, Limit: cli.PageSize})
			if err != nil {
				return err
			}
			for _, u := range page {
				m, err := roster.Exported(u)
				if err != nil {
					return err
				}
				if c.WithPasswordHashes {
					m["password_hash"] = u.PasswordHash
				}
				if c.Format == "json" {
					out.Add("", exportedJSON(m))
				} else if err := table.Write(roster.ImportRow{Members: m}.Record(columns)); err != nil {
					return fmt.Errorf("write: %w", err)
				}
			}
			after = next
		}
		if c.Format == "json" {
			return out.End()
		}
		if table.Flush(); table.Error() != nil {
			return fmt.Errorf("write: %w", table.Error())
		}
		return nil
	})
}

// exportedJSON converts booleans and the flags array from text. It omits all other members that are
// empty.
func exportedJSON(m map[string]string) map[string]any {
	object := map[string]any{}
	for name, value := range m {
		switch {
		case name == "flags":
			object[name] = cli.Listed(strings.Fields(value))
		case name == "suspended" || strings.HasSuffix(name, "_verified"):
			object[name] = value == "true"
		case value != "":
			object[name] = value
		}
	}
	return object
}
