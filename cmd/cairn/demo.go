package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/cmd/cairn/internal/demoapp"
	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/cairn-id/cairn/config"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store"
)

type demoCommand struct {
	Dir       string `default:"cairn-demo" placeholder:"FOLDER" help:"Folder that holds everything; made, or used again."`
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
func (c *demoCommand) Run(p *program) error {
	issuer, err := localURL(c.Listen)
	if err != nil {
		return usageError{"--listen: " + err.Error()}
	}
	app, err := localURL(c.AppListen)
	if err != nil {
		return usageError{"--app-listen: " + err.Error()}
	}
	// The ports first: without them there is nothing to prepare.
	listeners, err := c.listen(p)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // an error where it was served on, and is closed
		}
	}()
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	settings := config.Defaults()
	settings.Listen, settings.Issuer, settings.LogLevel, settings.LogFormat = c.Listen, issuer, "warn", "text"
	settings.StatusTTL = demoStatusTTL
	settings.Database, settings.PrivateKeyFile = filepath.Join(c.Dir, "cairn.db"), filepath.Join(c.Dir, "key.pem")
	state, invite, err := c.prepare(p, settings, app)
	if err != nil {
		return err
	}
	// The environment is the operator's, not the demo's: a secret there would
	// not be the stored one.
	quiet := *p
	quiet.env = config.NewEnvironment(nil)
	return c.serveBoth(&quiet, listeners, settings, state, app, account.InviteURL(issuer, invite))
}

// listen opens the ports of the service and of the application.
func (c *demoCommand) listen(p *program) (listeners [2]net.Listener, err error) {
	if listeners[0], err = listenOn(p.ctx, "--listen", c.Listen); err != nil {
		return listeners, err
	}
	if listeners[1], err = listenOn(p.ctx, "--app-listen", c.AppListen); err != nil {
		return listeners, errors.Join(err, listeners[0].Close())
	}
	return listeners, nil
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
func (c *demoCommand) prepare(p *program, settings config.Settings, app string) (demoState, account.Invite, error) {
	fail := func(err error) (demoState, account.Invite, error) { return demoState{}, account.Invite{}, err }
	if _, err := config.GenerateKey(settings.PrivateKeyFile, 2048); err != nil && !errors.Is(err, os.ErrExist) {
		return fail(err)
	}
	checked, err := settings.Check()
	if err != nil {
		return fail(err)
	}
	st, existed, err := openOrCreate(p.ctx, checked, quietLog(p))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = st.Close() }()
	path := filepath.Join(c.Dir, "demo.json")
	state, err := readDemoState(path)
	if err != nil {
		return fail(err)
	}
	switch {
	case existed && state.Handle == "":
		return fail(fmt.Errorf("--dir: %s holds a database but no demo.json: remove the folder or name another one", c.Dir))
	case !existed:
		if state, err = createDemo(p.ctx, st, path); err != nil {
			return fail(err)
		}
	}
	if err := registerDemo(p.ctx, st, state, app); err != nil {
		return fail(err)
	}
	admin, err := st.UserByHandle(p.ctx, state.Handle)
	if err != nil {
		return fail(fmt.Errorf("find the demo's administrator: %w", err))
	}
	invite, err := account.NewInvite(admin.Sub, "demo", time.Now())
	if err != nil {
		return fail(err)
	}
	return state, invite, st.CreateInvite(p.ctx, invite, -1)
}

func readDemoState(path string) (demoState, error) {
	var s demoState
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
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
	return s, initialize(ctx, st, s.Handle, "Cairn keeper", s.Password)
}

// registerDemo makes the application's client, or gives the one of an earlier run
// the addresses of this one.
func registerDemo(ctx context.Context, st *store.Store, s demoState, app string) error {
	c, err := st.Client(ctx, s.ClientID)
	made := errors.Is(err, provider.ErrClientNotFound)
	if made {
		c, err = provider.NewClient(s.ClientID, "Activity demo", time.Now()), nil
		c.RequirePKCE = true
		c.Secrets = []provider.ClientSecret{{Hash: provider.HashSecret(s.ClientSecret), CreatedAt: c.CreatedAt}}
	}
	if err != nil {
		return fmt.Errorf("find the demo application: %w", err)
	}
	addressDemo(c, app)
	if made {
		err = st.CreateClient(ctx, c)
	} else {
		err = st.UpdateClient(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("register the demo application: %w", err)
	}
	return nil
}

// addressDemo gives the demo's client the addresses of its application.
func addressDemo(c *provider.Client, app string) {
	c.RedirectURIs, c.PostLogoutRedirectURIs = []string{app + "/callback"}, []string{app + "/"}
	c.BackchannelLogoutURI, c.BackchannelPrivate = app+"/backchannel-logout", true
}

// serveBoth runs the service as serve does, and the application beside it.
func (c *demoCommand) serveBoth(p *program, listeners [2]net.Listener, settings config.Settings, state demoState, app, invite string) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	p.ctx = ctx
	checked, err := settings.Check()
	if err != nil {
		return err
	}
	demo, err := demoapp.New(demoapp.Config{Issuer: settings.Issuer, URL: app, ClientID: state.ClientID, ClientSecret: state.ClientSecret})
	if err != nil {
		return err
	}
	appDone := make(chan error, 1)
	go func() {
		appDone <- serveUntil(ctx, httpd.NewServer(demo.Handler(), newLog(p.stderr, checked)), listeners[1])
	}()
	serve := serveCommand{Settings: settings}
	err = serve.serve(p, listeners[0], func(net.Addr) { c.greet(p, settings.Issuer, app, invite, state) })
	cancel()
	return errors.Join(err, <-appDone, demo.Close())
}

// greet prints where to go next.
func (c *demoCommand) greet(p *program, issuer, app, invite string, s demoState) {
	fmt.Fprintf(p.stdout, `Cairn is running. Open this first, in a browser:

  %s

It is a small application of somebody else, which sends you to Cairn to sign in:

  handle    %s
  password  %s

Cairn itself    %s   (your account, and the administration)
invite link     %s   (for a second person, in another browser)

The folder %s keeps everything. Stop the demo with Ctrl-C.
`, app, s.Handle, s.Password, issuer, invite, strings.TrimSuffix(c.Dir, "/"))
}
