package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/cairn-id/cairn/account"
	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/cmd/cairn/internal/archive"
	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-id/cairn/cmd/cairn/internal/demoapp"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type demoCommand struct {
	Dir       string `default:"cairn-demo" placeholder:"FOLDER" help:"Folder for everything; created or used again."`
	Listen    string `default:"127.0.0.1:4040" help:"Address of the service."`
	AppListen string `default:"127.0.0.1:4041" help:"Address of the activity application."`
}

// demoState is what a second run needs of the first. It holds secrets; its
// file is readable by its owner only. Only a demo keeps a password.
type demoState struct {
	Handle       string `json:"handle"`
	Password     string `json:"password"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

const demoClientID = "activity-demo"

// demoStatusTTL is short enough to wait for; demo.html names it.
const demoStatusTTL = "15s"

// Run makes or reuses the folder and serves both until a signal comes.
func (c *demoCommand) Run(p *cli.Program) (err error) {
	var listeners [2]net.Listener
	var urls [2]string
	addresses := cli.Pairs{{"--listen", c.Listen}, {"--app-listen", c.AppListen}}
	for i, a := range addresses {
		if urls[i], err = localURL(a[1]); err != nil {
			return cli.UsageError(a[0] + ": " + err.Error())
		}
	}
	// The ports first: without them there is nothing to prepare.
	for i, a := range addresses {
		if listeners[i], err = listenOn(p.Ctx, a[0], a[1]); err != nil {
			return err
		}
		defer func() { _ = listeners[i].Close() }() // an error where it was served on, and is closed
	}
	issuer, app := urls[0], urls[1]
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	settings := config.Defaults()
	settings.Listen, settings.Issuer, settings.LogLevel, settings.LogFormat = c.Listen, issuer, "warn", "text"
	settings.StatusTTL = demoStatusTTL
	settings.Database, settings.PrivateKeyFile = filepath.Join(c.Dir, "cairn.db"), filepath.Join(c.Dir, "key.pem")
	if dataKey := config.DataKeyBeside(settings.Database); cli.Exists(dataKey) || !cli.Exists(settings.Database) {
		settings.DataKeyFile = dataKey // else of an earlier version, which is not sealed
	}
	state, invite, err := c.prepare(p, settings, app)
	if err != nil {
		return err
	}
	activities, err := demoActivities(state.Handle)
	if err != nil {
		return err
	}
	demo, err := demoapp.New(demoapp.Config{
		Issuer: issuer, URL: app, ClientID: state.ClientID, ClientSecret: state.ClientSecret,
		Owner: state.Handle, Activities: activities,
	})
	if err != nil {
		return err
	}
	var cancel context.CancelFunc
	quiet := *p
	quiet.Ctx, cancel = context.WithCancel(p.Ctx)
	defer cancel()
	// The environment is the operator's, not the demo's: a secret there would
	// not be the stored one.
	quiet.Env = config.NewEnvironment(nil)
	log := slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	appDone := make(chan error, 1)
	go func() { appDone <- serveUntil(quiet.Ctx, httpd.NewServer(demo.Handler(), log), listeners[1]) }()
	serve := serveCommand{Settings: settings}
	greet := func() { c.greet(p, issuer, app, account.InviteURL(issuer, invite), state) }
	err = serve.serve(&quiet, listeners[0], greet)
	cancel()
	return errors.Join(err, <-appDone, demo.Close())
}

// localURL is http://localhost:PORT for a loopback address: passkeys and
// cookies need a name, not an address.
func localURL(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return "", fmt.Errorf("%s is not host:port", listen)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", fmt.Errorf("the demo only listens on this machine, not on %q", host)
	}
	return "http://localhost:" + port, nil
}

// prepare initializes what is missing and creates an invite.
func (c *demoCommand) prepare(p *cli.Program, settings config.Settings, app string) (
	state demoState, invite account.Invite, err error,
) {
	_, err = config.GenerateKey(settings.PrivateKeyFile, config.MinKeyBits)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return state, invite, err
	}
	checked, err := settings.Check()
	if err != nil {
		return state, invite, err
	}
	if settings.DataKeyFile != "" && !cli.Exists(settings.DataKeyFile) {
		if err := config.GenerateDataKey(settings.DataKeyFile); err != nil {
			return state, invite, err
		}
	}
	st, existed, err := cli.OpenOrCreate(p.Ctx, checked, cli.QuietLog(p))
	if errors.Is(err, store.ErrNotMigrated) {
		var release func()
		if st, release, err = archive.OpenToServe(p.Ctx, checked, cli.QuietLog(p)); err == nil {
			existed = true
			defer release()
		}
	}
	if err != nil {
		return state, invite, err
	}
	defer func() { _ = st.Close() }()
	file := filepath.Join(c.Dir, "demo.json")
	if existed {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			const format = "--dir: %s holds a database but no demo.json: remove the folder or name another one"
			return state, invite, fmt.Errorf(format, c.Dir)
		}
		if err == nil {
			err = json.Unmarshal(b, &state)
		}
		if err != nil {
			return state, invite, fmt.Errorf("read %s: %w", file, err)
		}
	} else if state, err = createDemo(p.Ctx, st, file); err != nil {
		return state, invite, err
	}
	if err := registerDemo(p.Ctx, st, state, app); err != nil {
		return state, invite, fmt.Errorf("register the demo application: %w", err)
	}
	admin, err := st.UserByHandle(p.Ctx, state.Handle)
	if err != nil {
		return state, invite, fmt.Errorf("find the demo's administrator: %w", err)
	}
	if invite, err = account.NewInvite(admin.Sub, "demo", time.Now()); err != nil {
		return state, invite, err
	}
	return state, invite, st.CreateInvite(p.Ctx, invite, -1, cli.Operator(account.CreateInvite, admin.Handle, ""))
}

// createDemo writes the state first: a database without it could not be used
// again.
func createDemo(ctx context.Context, st *store.Store, path string) (demoState, error) {
	secret, _ := provider.NewSecret(time.Now())
	s := demoState{Handle: "keeper", Password: rand.Text(), ClientID: demoClientID, ClientSecret: secret}
	b, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = renameio.WriteFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return s, fmt.Errorf("write %s: %w", path, err)
	}
	hasher, err := passwords.NewHasher()
	if err == nil {
		keeper := account.NewUser{Handle: s.Handle, DisplayName: "Cairn keeper", Password: s.Password}
		_, err = roster.Initialize(ctx, st, hasher, account.DefaultSettings(), keeper, time.Now())
	}
	return s, err
}

// registerDemo makes the application's client, or gives the one of an earlier run
// the addresses of this one.
func registerDemo(ctx context.Context, st *store.Store, s demoState, app string) error {
	c, err := st.Client(ctx, s.ClientID)
	save, act := st.UpdateClient, account.UpdateClient
	if errors.Is(err, provider.ErrClientNotFound) {
		c, err = provider.NewClient(s.ClientID, "Activity demo", time.Now()), nil
		save, act = st.CreateClient, account.RegisterClient
		c.RequirePKCE = true
		c.Secrets = []provider.ClientSecret{{Hash: account.HashSecret(s.ClientSecret), CreatedAt: c.CreatedAt}}
	}
	if err != nil {
		return err
	}
	c.RedirectURIs, c.PostLogoutRedirectURIs = []string{app + "/callback"}, []string{app + "/"}
	c.BackchannelLogoutURI, c.BackchannelPrivate = app+"/backchannel-logout", true
	return save(ctx, c, cli.Operator(act, "client:"+c.ID, ""))
}

// greet prints where to go next.
func (c *demoCommand) greet(p *cli.Program, issuer, app, invite string, s demoState) {
	fmt.Fprintf(p.Stdout, `Cairn is running. Open this first, in a browser:

  %s

It is a small application of its own, which sends you to Cairn to sign in:

  user name  %s
  password   %s

Cairn itself    %s   (your account, and the administration)
invite link     %s   (for a second person, in another browser)

The folder %s keeps everything. Stop the demo with Ctrl-C.
`, app, s.Handle, s.Password, issuer, invite, strings.TrimSuffix(c.Dir, "/"))
}
