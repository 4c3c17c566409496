package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/store"
)

type RestoreCommand struct {
	File         string `arg:"" placeholder:"FILE" help:"Backup to restore."`
	Database     string `env:"SERVICE_DATABASE" placeholder:"FILE"`
	Force        bool   `help:"Replace an existing SQLite database, which is renamed and not deleted."`
	KeepSessions bool   `help:"Keep sessions, grants and codes, also those revoked or used since the backup."`
	DataKeyFile  string `env:"SERVICE_DATA_KEY_FILE" placeholder:"FILE"`
	NewDataKey   bool   `help:"The data key is lost: make a new one, and discard what the old one has sealed."`
	unlockFlags
	installationFlags
	cli.Output
}

// restored is the output of restore.
type restored struct {
	Database   string    `json:"database"`
	Created    time.Time `json:"created"` // the backup
	Users      int64     `json:"users"`
	Sessions   string    `json:"sessions"` // "ended" or "kept"
	MovedTo    string    `json:"moved_to,omitempty"`
	ConfigFile string    `json:"config_file,omitempty"`
	KeyFiles   []string  `json:"key_files"`
	NewDataKey string    `json:"new_data_key_file,omitempty"`
	// Lost lists the values that were sealed with the old data key.
	Lost *store.LostValues `json:"lost,omitempty"`
}

// Run restores the settings, the keys, and last the database: an interrupted restore leaves no database.
func (c *RestoreCommand) Run(p *cli.Program) error {
	work, done, err := WorkFolder(p.Ctx, WorkParent(cmp.Or(c.Database, "cairn.db")))
	if err != nil {
		return err
	}
	defer done()
	ClearWork(p.Ctx, filepath.Dir(c.File))
	b, err := openBackup(p.Ctx, c.File, work, c.DataKeyFile, c.unlock(p))
	if err != nil {
		return fmt.Errorf("%s: %w: nothing was changed", c.File, err)
	}
	files, err := c.plan(p, b)
	if err != nil {
		return err
	}
	settings := config.Defaults()
	settings.Database = cmp.Or(c.Database, settings.Database)
	settings.PrivateKeyFile, settings.DataKeyFile = c.PrivateKeyFile, c.DataKeyFile
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	c.DataKeyFile = checked.DataKeyFile
	dataKey, err := c.planDataKey(p, b, work)
	if err != nil {
		return err
	}
	release, err := useAlone(p.Ctx, checked)
	if err != nil {
		return err
	}
	defer release()
	place, err := newPlace(p.Ctx, checked)
	if err != nil {
		return err
	}
	if place.existing != "" && !c.Force {
		return place.refuse(b.manifest)
	}
	database := b.file(backupfile.Database).Path
	how := store.Restoring{KeepSessions: c.KeepSessions, DataKey: cli.DataKeyOf(dataKey), NewDataKey: c.NewDataKey}
	lost, err := store.PrepareRestored(p.Ctx, database, how, c.audit(b.manifest.Created))
	if err != nil {
		return fmt.Errorf("prepare the restored database: %w", err)
	}
	d := restored{
		Database: checked.DatabaseLabel(), Created: b.manifest.Created, Users: b.contents.Users,
		KeyFiles: []string{}, Sessions: "ended",
	}
	if c.KeepSessions {
		d.Sessions = "kept"
	}
	if c.NewDataKey {
		d.NewDataKey, d.Lost = c.DataKeyFile, &lost
		files = append(files, restoredFile{from: dataKey, to: c.DataKeyFile})
	}
	for _, f := range files {
		if err := copyFile(p.Ctx, f.to, f.from); err != nil {
			return fmt.Errorf("%s %w", f.to, err)
		}
		if f.settings {
			d.ConfigFile = f.to
		} else {
			d.KeyFiles = append(d.KeyFiles, f.to)
		}
	}
	remembered := ""
	if c.NewDataKey {
		remembered = RememberDataKey(p, c.DataKeyFile, checked.Database)
	}
	if d.MovedTo, err = place.fill(p.Ctx, database); err != nil {
		return err
	}
	return c.report(p, b, d, remembered)
}

// audit returns the row of the restore of a backup.
func (c *RestoreCommand) audit(created time.Time) account.Audit {
	detail := "backup of " + created.Format(time.RFC3339)
	if c.KeepSessions {
		detail += ", sessions kept"
	}
	if c.NewDataKey {
		detail += ", new data key"
	}
	return cli.Operator(account.Restore, "installation", detail)
}

// report prints what was restored and what is to do next. remembered is the setting of a new data key.
func (c *RestoreCommand) report(p *cli.Program, b *checkedBackup, d restored, remembered string) error {
	var lacking []string // not the data key, without which nothing sealed is restored
	for _, f := range c.keys(p.Env, "").Files() {
		if !cli.Exists(f.Path) {
			lacking = append(lacking, f.Path+" ("+f.Setting+")")
		}
	}
	next := p.Name + " serve"
	if lacking != nil {
		next = "put back what the backup does not have: " + strings.Join(lacking, ", ") + "; then " + next
	}
	err := c.Print(p, d.Database, d, cli.Pairs{
		{"database", d.Database},
		{"restored", fmt.Sprintf("%d users, as of %s", d.Users, d.Created.Format(time.RFC3339))},
		{"sessions", d.Sessions}, {"earlier database", d.MovedTo}, {"settings", d.ConfigFile},
		{"key files", fmt.Sprint(len(d.KeyFiles))}, {"new data key", d.NewDataKey}, {"data key setting", remembered},
		{"lost", lostText(d.Lost)}, {"next", next},
	})
	if err != nil {
		return err
	}
	for _, f := range b.keys() {
		if f.Setting == backupfile.SecretSetting {
			fmt.Fprintf(p.Stderr, "cairn: the shared secret is in the file of %s, not in the database\n", f.Setting)
		}
	}
	return nil
}

// planDataKey returns the file with the data key of the restored installation. It makes a new key
// in the work folder, so that nothing is changed yet.
func (c *RestoreCommand) planDataKey(p *cli.Program, b *checkedBackup, work string) (file string, err error) {
	if b.unopened != nil && c.DataKeyFile != "" { // the settings in the backup may have named it
		if err := b.checkSecrets(p.Ctx, b.file(backupfile.Database).Path, c.DataKeyFile); err != nil {
			return "", err
		}
	}
	switch {
	case !c.NewDataKey && b.unopened != nil:
		return "", fmt.Errorf("%s: %w: nothing was changed", c.File, b.unopened)
	case !c.NewDataKey:
		return b.dataKey(c.DataKeyFile), nil
	case b.unopened == nil:
		return "", cli.UsageError("--new-data-key: nothing is sealed, or the data key is available: leave the flag out")
	}
	c.DataKeyFile = cmp.Or(c.DataKeyFile, NewDataKeyPlace(p, c.PrivateKeyFile, c.Database))
	if cli.Exists(c.DataKeyFile) {
		return "", fmt.Errorf("--new-data-key: %s exists and does not open the backup: move it away, "+
			"or name another file with --data-key-file", c.DataKeyFile)
	}
	if err := cli.CheckNewFile("the data key", c.DataKeyFile); err != nil {
		return "", err
	}
	file = filepath.Join(work, config.DataKeyName)
	return file, config.GenerateDataKey(file)
}

// lostText lists what a restore with a new data key discards.
func lostText(lost *store.LostValues) string {
	if lost == nil {
		return ""
	}
	apps := cmp.Or(strings.Join(lost.AuthenticatorApps, ", "), "nobody")
	return fmt.Sprintf("authenticator apps of %s; %d open invites; replaced by new ones: %s",
		apps, lost.OpenInvites, strings.Join(lost.Secrets, ", "))
}

// restoredFile is a file of the backup other than the database.
type restoredFile struct {
	from, to string
	settings bool
}

// plan finds the settings of the restored installation and returns the files that are missing. It
// changes nothing, and it is an error if an existing file differs from that of the backup.
func (c *RestoreCommand) plan(p *cli.Program, b *checkedBackup) (files []restoredFile, err error) {
	if stored := b.file(backupfile.Config); stored != nil && p.Env.ConfigFile() == "" && c.Database == "" {
		// Its relative paths are relative to where it will be written.
		if err := p.Env.LoadAs(stored.Path, config.ConfigName); err != nil {
			return nil, fmt.Errorf("the settings in the backup: %w", err)
		}
		if warning := p.Env.Warning(); warning != "" {
			fmt.Fprintf(p.Stderr, "cairn: warning: %s\n", warning)
		}
		files = append(files, restoredFile{from: stored.Path, to: config.ConfigName, settings: true})
		c.Database, _ = p.Env.InConfig("database")
		c.PrivateKeyFile, _ = p.Env.InConfig(backupfile.PrivateKeySetting)
		c.AdditionalKeyFiles = p.Env.ListInConfig(backupfile.AdditionalKeySetting)
		if given, _ := p.Env.InConfig(backupfile.DataKeySetting); c.DataKeyFile == "" {
			c.DataKeyFile = given
		}
	}
	named := map[string][]string{}
	for _, f := range c.keys(p.Env, c.DataKeyFile).Files() {
		named[f.Setting] = append(named[f.Setting], f.Path)
	}
	for _, f := range b.keys() {
		if len(named[f.Setting]) == 0 {
			flag := "--" + f.Setting + " FILE"
			if f.Setting == backupfile.SecretSetting {
				flag = f.Setting
			}
			return nil, fmt.Errorf("the backup has a file of %s, and the settings name none: "+
				"name the file to write it to with %s", f.Setting, flag)
		}
		files = append(files, restoredFile{from: f.Path, to: named[f.Setting][0]})
		named[f.Setting] = named[f.Setting][1:]
	}
	missing := files[:0:0]
	for _, f := range files {
		there, err := os.ReadFile(f.to)
		switch {
		case errors.Is(err, os.ErrNotExist):
			missing = append(missing, f)
		case err != nil:
			return nil, err
		default:
			want, err := os.ReadFile(f.from)
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(there, want) {
				return nil, fmt.Errorf("%s exists and differs from the one in the backup: move it away, "+
					"or name another file", f.to)
			}
		}
	}
	return missing, nil
}

func copyFile(ctx context.Context, to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	return createFile(ctx, to, func(f *os.File) error {
		_, err := io.Copy(f, source)
		return err
	})
}

// useAlone takes the database for one command. It fails while the service runs, and until release the
// service cannot start.
func useAlone(ctx context.Context, c config.Checked) (release func(), err error) {
	release, err = store.Use(ctx, c.Database, true)
	if errors.Is(err, store.ErrInUse) {
		return nil, fmt.Errorf("%w: cairn serve runs on %s, or another command uses it: stop it first, every instance",
			store.ErrInUse, c.DatabaseLabel())
	}
	if err != nil {
		return nil, cli.DatabaseError(err)
	}
	return release, nil
}

// place is the destination of a whole database.
type place struct {
	checked  config.Checked
	existing string // the SQLite file at the destination, or empty
	contents *store.Contents
}

// newPlace examines the destination. A PostgreSQL database must have no installation.
func newPlace(ctx context.Context, c config.Checked) (*place, error) {
	if file, err := filepath.EvalSymlinks(c.Database); !store.IsPostgres(c.Database) && err == nil {
		c.Database = file // replace the target of a link, not the link
	}
	pl := &place{checked: c}
	if store.IsPostgres(c.Database) {
		st, err := store.Open(ctx, c.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, cli.DatabaseError(err)
		}
		defer func() { _ = st.Close() }()
		initialized, err := st.Initialized(ctx)
		if initialized {
			return nil, fmt.Errorf("%s has an installation and is not replaced: name an empty database (createdb), "+
				"or empty its schema with: DROP SCHEMA public CASCADE; CREATE SCHEMA public", c.DatabaseLabel())
		}
		return pl, err
	}
	info, err := os.Stat(c.Database)
	switch {
	case errors.Is(err, os.ErrNotExist):
		for _, end := range []string{"-wal", "-journal"} {
			if log := c.Database + end; cli.Exists(log) {
				return nil, fmt.Errorf("%s holds changes of a database that is missing: put %s back, "+
					"or move the log away", log, c.Database)
			}
		}
		return pl, nil
	case err != nil:
		return nil, cli.DatabaseError(err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: name another one", c.Database)
	}
	pl.existing = c.Database
	// --force replaces even a database that cannot be read: it may be the reason for the restore.
	if st, err := store.Open(ctx, c.Database, store.Options{Log: slog.New(slog.DiscardHandler)}); err == nil {
		if contents, err := st.SQLiteContents(ctx); err == nil {
			pl.contents = &contents
		}
		_ = st.Close()
	}
	return pl, nil
}

// refuse returns an error that describes the existing database and compares it with the backup.
func (pl *place) refuse(m *backupfile.Manifest) error {
	what := "and cannot be read"
	if c := pl.contents; c != nil {
		what = fmt.Sprintf("with %d users and changes until %s", c.Users, c.Changed.Format(time.RFC3339))
		switch {
		case c.Schema > m.Schema:
			what += fmt.Sprintf("; it is newer than the backup (schema %d, the backup has %d)", c.Schema, m.Schema)
		case c.Changed.After(m.Changed):
			changed := m.Changed.Format(time.RFC3339)
			what += fmt.Sprintf("; it is newer than the backup, which has changes until %s", changed)
		}
	}
	return fmt.Errorf("%s exists, %s: restore into another file with --database FILE, "+
		"or add --force, which renames it", pl.existing, what)
}

// fill puts a database, a single SQLite file, in the place. movedTo is the new name of the previous one.
func (pl *place) fill(ctx context.Context, database string) (movedTo string, err error) {
	if store.IsPostgres(pl.checked.Database) {
		st, err := store.Open(ctx, pl.checked.Database, store.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return "", cli.DatabaseError(err)
		}
		defer func() { _ = st.Close() }()
		if err := st.Migrate(ctx); err != nil {
			return "", cli.DatabaseError(err)
		}
		return "", st.LoadSnapshot(ctx, database)
	}
	if pl.existing != "" {
		movedTo = pl.existing + ".before-restore-" + time.Now().UTC().Format(stampFormat)
		if cli.Exists(movedTo) {
			return "", fmt.Errorf("%s exists: move it away", movedTo)
		}
		// The log must move with its database: SQLite would apply it to the new one and damage that.
		for _, end := range []string{"", "-wal", "-shm", "-journal"} {
			if err := os.Rename(pl.existing+end, movedTo+end); err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", fmt.Errorf("rename the earlier database: %w", err)
			}
		}
	}
	if err := os.Link(database, pl.checked.Database); err != nil { // another disk, or no links
		if err := copyFile(ctx, pl.checked.Database, database); err != nil {
			if movedTo != "" {
				err = fmt.Errorf("%w; the earlier database is %s now", err, movedTo)
			}
			return movedTo, fmt.Errorf("%s %w", pl.checked.Database, err)
		}
	}
	return movedTo, config.SyncFolder(pl.checked.Database)
}

type CopyCommand struct {
	To string `required:"" placeholder:"DATABASE"`
	cli.DatabaseFlags
	cli.Output
}

// Run copies the database, counts the rows of both and compares them.
func (c *CopyCommand) Run(p *cli.Program) error {
	settings := config.Defaults()
	settings.Database = c.To
	to, err := settings.Check()
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	from, err := c.Checked()
	if err != nil {
		return err
	}
	if to.Database == from.Database || !store.IsPostgres(to.Database) && cli.SamePath(to.Database, from.Database) {
		return cli.UsageError("--to is the database itself: name another one")
	}
	for _, checked := range []config.Checked{from, to} {
		if checked.Database == from.Database && !store.IsPostgres(from.Database) && !cli.Exists(from.Database) {
			continue // OpenExisting returns the error
		}
		release, err := useAlone(p.Ctx, checked)
		if err != nil {
			return err
		}
		defer release()
	}
	place, err := newPlace(p.Ctx, to)
	if err != nil {
		return err
	}
	if place.existing != "" {
		return fmt.Errorf("--to: %s exists and is not overwritten: name another file", place.existing)
	}
	work, done, err := WorkFolder(p.Ctx, WorkParent(to.Database))
	if err != nil {
		return err
	}
	defer done()
	snapshot := filepath.Join(work, backupfile.Database)
	st, err := cli.OpenExisting(p.Ctx, from, cli.QuietLog(p)) // not WithStore, which useAlone keeps out
	if err != nil {
		return err
	}
	contents, err := st.Snapshot(p.Ctx, snapshot)
	if err = errors.Join(err, st.Close()); err != nil {
		return err
	}
	if err := store.PrepareMoved(p.Ctx, snapshot); err != nil {
		return err
	}
	read, err := store.ReadSnapshot(p.Ctx, snapshot)
	if err == nil {
		err = contents.Compare(read)
	}
	if err != nil {
		return err
	}
	if _, err := place.fill(p.Ctx, snapshot); err != nil {
		return err
	}
	var rows int64
	for _, n := range contents.Rows {
		rows += n
	}
	written := to.DatabaseLabel()
	if store.IsPostgres(to.Database) { // the label has neither the password nor the parameters
		written = "the URL of --to"
	}
	copied := map[string]any{"from": from.DatabaseLabel(), "to": to.DatabaseLabel(), "rows": contents.Rows}
	return c.Print(p, to.DatabaseLabel(), copied, cli.Pairs{
		{"copied", from.DatabaseLabel()}, {"to", to.DatabaseLabel()},
		{"compared", fmt.Sprintf("%d rows in %d tables", rows, len(contents.Rows))},
		{"next", "write database: " + written + " into cairn.yaml and start cairn serve"},
	})
}
