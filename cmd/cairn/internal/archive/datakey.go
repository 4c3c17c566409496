package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

// NewDataKeyPlace returns the path of a new data key if no setting names one.
func NewDataKeyPlace(p *cli.Program, signingKey, database string) string {
	settings := config.DataKeyBeside(cmp.Or(p.Env.ConfigFile(), p.Env.NewConfig()))
	return cmp.Or(config.DataKeyBeside(signingKey), config.DataKeyBeside(database), settings, config.DataKeyName)
}

// RememberDataKey writes the path of the data key of a database into cairn.yaml, and returns a note
// about it. If cairn.yaml is for another database or cannot be written, the note says what to do.
// The note is empty if the settings name a file already.
func RememberDataKey(p *cli.Program, file, database string) string {
	configFile := p.Env.ConfigFile()
	of, _ := p.Env.InConfig("database")
	if configFile != "" && (of == "" || of == database || !store.IsPostgres(of) && cli.SamePath(of, database)) {
		_, stored := p.Env.InConfig(backupfile.DataKeySetting)
		if given, _ := p.Env.Lookup("SERVICE_DATA_KEY_FILE"); stored || given != "" {
			return ""
		}
		if config.AddPath(configFile, backupfile.DataKeySetting, file) == nil {
			return "data-key-file is in " + configFile + " now"
		}
	}
	return "add the line data-key-file: " + file + " to cairn.yaml, or set SERVICE_DATA_KEY_FILE"
}

type sealKeysCommand struct {
	cli.DatabaseFlags
	cli.Output
	PrivateKeyFile string `name:"private-key-file" env:"SERVICE_OIDC_PRIVATE_KEY_FILE" hidden:""`
}

// Run makes the key, writes its path into cairn.yaml and seals the secrets.
func (c *sealKeysCommand) Run(p *cli.Program) error {
	settings := config.Defaults()
	settings.Database, settings.PrivateKeyFile, settings.DataKeyFile = c.Database, c.PrivateKeyFile, c.DataKeyFile
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	configured := checked.DataKeyFile != ""
	c.DataKeyFile = cmp.Or(checked.DataKeyFile, NewDataKeyPlace(p, c.PrivateKeyFile, c.Database))
	var created, sealed bool
	err = c.WithStore(p, func(st *store.Store) (err error) {
		if sealed, err = st.Sealed(p.Ctx); err != nil {
			return err
		}
		created = !cli.Exists(c.DataKeyFile)
		if !created {
			_, err = config.LoadDataKey(c.DataKeyFile)
			return err
		}
		if err := cli.CheckNewFile("the data key", c.DataKeyFile); err != nil {
			return err
		}
		return config.GenerateDataKey(c.DataKeyFile)
	})
	if err != nil {
		return err
	}
	remembered := RememberDataKey(p, c.DataKeyFile, c.Database)
	// A running service cannot have a key that this command has just made or named.
	if !sealed && (created || !configured) {
		if err := checkStopped(p, checked); err != nil {
			remembered = cmp.Or(remembered, "the settings name it")
			return fmt.Errorf("%w; the data key is %s: %s", err, c.DataKeyFile, remembered)
		}
	}
	return c.WithStore(p, func(st *store.Store) error {
		n, err := st.Seal(p.Ctx, cli.Operator(account.SealKeys, "installation", ""))
		if err != nil {
			return err
		}
		done := map[string]any{"data_key_file": c.DataKeyFile, "created": created, "sealed": n}
		return c.Print(p, c.DataKeyFile, done, cli.Pairs{
			{"data key", c.DataKeyFile}, {"sealed", fmt.Sprintf("%d values", n)}, {"settings", remembered},
			{"next", "keep a copy of " + c.DataKeyFile + " apart from the backups: without it the secrets are lost"},
		})
	})
}

// checkStopped returns an error if the service runs.
func checkStopped(p *cli.Program, checked config.Checked) error {
	release, err := store.Use(p.Ctx, checked.Database, true)
	if errors.Is(err, store.ErrInUse) {
		return errors.New("nothing was sealed, because cairn serve runs without the key: " +
			"restart it, every instance, and run this again")
	}
	if err == nil {
		release()
	}
	return err
}

// DataKeyMissing reports whether the named file of the data key does not exist. That is no error as
// long as nothing is sealed.
func DataKeyMissing(file string) (missing bool, err error) {
	if file == "" {
		return false, nil
	}
	_, err = config.LoadDataKey(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}
