package admin_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/admin"
	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
	"github.com/cairn-id/cairn/templates"
)

const password = accounttest.Password

// world is an installation with its administration, below the path /id.
type world struct {
	*accounttest.World
	Router   *mux.Router
	Clients  []templates.ApplicationRow
	Began    time.Time
	BackedUp time.Time

	KeyCreated time.Time
}

func newWorld(t testing.TB, change ...func(*accounttest.Options)) *world {
	t.Helper()
	w := &world{}
	options := admin.Options{
		Applications: func(context.Context) ([]templates.ApplicationRow, error) { return w.Clients, nil },
		LastBackup:   func(context.Context) (time.Time, error) { return w.BackedUp, nil },
		KeyCreated:   func() (time.Time, error) { return w.KeyCreated, nil },
	}
	mount := func(s *site.Site, m *mux.Router) {
		admin.New(s, options).Mount(m)
		w.Router = m
	}
	w.World = accounttest.Mounted(t, mount, append(change, func(o *accounttest.Options) { o.Issuer += "/id" })...)
	w.Began = w.Clock.Now()
	w.BackedUp, w.KeyCreated = w.Began, w.Began
	return w
}

// administered is an installation with the administrator root1, who is signed in, and these members.
func administered(t testing.TB, members ...string) (*world, *accounttest.Browser) {
	t.Helper()
	w := newWorld(t)
	w.AddUser("root1", account.FlagAdmin)
	for _, handle := range members {
		w.AddUser(handle)
	}
	return w, w.SignedIn("root1")
}

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
