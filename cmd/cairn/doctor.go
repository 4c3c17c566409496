package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/mail"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
	"github.com/cairn-id/cairn/cmd/cairn/internal/register"
	"github.com/cairn-id/cairn/config"
)

type doctorCommand struct {
	config.Settings
	cli.Output
	Offline bool `help:"Check only settings, files and database: connect to nothing but a PostgreSQL database."`
	Deep    bool `help:"Also read the whole SQLite file for damage; a large file takes minutes."`
}

// diagnosis is the JSON output of doctor.
type diagnosis struct {
	Level    doctor.Level     `json:"level"` // the worst
	Findings []doctor.Finding `json:"findings"`
}

// doctorHasher is a cheap one in tests, where the time of a hash is that of whatever else the machine does.
var doctorHasher *passwords.Hasher // nil: the product's

// Run exits with exitFailed if a finding is a warning or a problem.
func (c *doctorCommand) Run(p *cli.Program) error {
	findings := doctor.Run(p.Ctx, doctor.Options{
		Settings: c.Settings, Lookup: p.Env.Lookup, Offline: c.Offline, Deep: c.Deep,
		MemoryLimit: memoryLimit(os.ReadFile), Hasher: doctorHasher,
		CheckBackup: checkBackup,
		CheckApply:  func(path string) error { return register.CheckApplyFile(p, path) },
		Mail:        func(checked config.Checked) (*mail.SMTP, error) { return newMailSender(checked, p.Env) },
	})
	d := diagnosis{Level: doctor.Worst(findings), Findings: findings}
	if err := c.show(p, d); err != nil {
		return err
	}
	if d.Level == doctor.Problem || d.Level == doctor.Warning {
		return cli.ExitError(cli.ExitFailed)
	}
	return nil
}

// asksForJSON reports whether the arguments are those of a doctor for a program.
func asksForJSON(args []string) bool {
	if !slices.Contains(args, "doctor") {
		return false
	}
	for i, arg := range args {
		value, is := strings.CutPrefix(arg, "--output=")
		if short, isShort := strings.CutPrefix(arg, "-o"); !is && isShort {
			value, is = short, true
		}
		if (arg == "-o" || arg == "--output") && i+1 < len(args) {
			value, is = args[i+1], true
		}
		if is && value == "json" {
			return true
		}
	}
	return false
}

// diagnoseInJSON runs a doctor that may fail before it begins, as with a cairn.yaml that cannot be read. Then the error
// is the finding of the settings.
func diagnoseInJSON(stdout, stderr io.Writer, run func(stdout, stderr io.Writer) int) int {
	var out, said bytes.Buffer
	code := run(&out, io.MultiWriter(&said, stderr))
	if out.Len() == 0 && code != cli.ExitDone {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		f := doctor.Finding{Name: "settings", Level: doctor.Problem, Do: "Correct it; no command works before.",
			Found: strings.TrimPrefix(lines[len(lines)-1], "cairn: ")}
		if err := cli.WriteJSON(stdout, diagnosis{f.Level, []doctor.Finding{f}}); err != nil {
			return cli.ExitFailed
		}
		return code
	}
	if _, err := out.WriteTo(stdout); err != nil {
		return cli.ExitFailed
	}
	return code
}

// checkBackup reads a backup. Of an encrypted one only the owner of its identity can say more.
func checkBackup(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	folder, err := os.MkdirTemp("", "cairn-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	errEncrypted := errors.New("the backup is encrypted")
	_, err = backupfile.Check(ctx, f, folder, func(bool) ([]backupfile.Identity, error) { return nil, errEncrypted })
	if errors.Is(err, errEncrypted) {
		return nil
	}
	return err
}

func (c *doctorCommand) show(p *cli.Program, d diagnosis) error {
	if c.Format == "json" {
		return cli.WriteJSON(p.Stdout, d)
	}
	var out bytes.Buffer
	t := cli.NewTable(&out)
	count := map[doctor.Level]int{}
	for _, f := range d.Findings {
		count[f.Level]++
		if c.Quiet {
			if f.Level == doctor.Problem || f.Level == doctor.Warning {
				fmt.Fprintln(p.Stdout, f.Name)
			}
			continue
		}
		// An answer of a proxy or a database may have line breaks, tabs and other control characters.
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, f.Name, cli.Printable(strings.Join(strings.Fields(f.Found), " ")))
		if f.Do != "" {
			fmt.Fprintf(t, "\t\t-> %s\n", f.Do)
		}
	}
	if c.Quiet {
		return nil
	}
	fmt.Fprintf(t, "\n%d problems, %d warnings, %d with advice, %d ok, %d skipped\n",
		count[doctor.Problem], count[doctor.Warning], count[doctor.Advice], count[doctor.OK], count[doctor.Skipped])
	err := t.Flush()
	text := out.Bytes()
	if cli.ShowsColors(p.Stdout, p.Env) {
		text = levels.Paint(text)
	}
	_, writeErr := p.Stdout.Write(text)
	return errors.Join(err, writeErr)
}

// levels are at the starts of lines.
var levels = cli.NewPainter(`(?m)^(problem|warning|advice|ok|skipped)\b`, map[string]string{
	"problem": cli.Red, "warning": cli.Yellow, "advice": cli.Cyan, "ok": cli.Green, "skipped": cli.Faint,
})

type healthcheckCommand struct {
	Listen      string `env:"SERVICE_LISTEN" default:"127.0.0.1:4040" help:"host:port that the service listens on."`
	Issuer      string `env:"SERVICE_OIDC_ISSUER" default:"http://localhost:4040"`
	TLSCertFile string `name:"tls-cert-file" env:"SERVICE_TLS_CERT_FILE" hidden:""` // only matters if set
	TLSKeyFile  string `name:"tls-key-file" env:"SERVICE_TLS_KEY_FILE" hidden:""`
}

// Run prints one line.
func (c *healthcheckCommand) Run(p *cli.Program) error {
	settings := config.Defaults()
	settings.Listen, settings.Issuer = c.Listen, c.Issuer
	settings.TLSCertFile, settings.TLSKeyFile = c.TLSCertFile, c.TLSKeyFile
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	address, err := doctor.Healthcheck(p.Ctx, checked)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "%s is ready\n", address)
	return nil
}
