package session_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-id/cairn/account/session"
)

// pipes is a network inside a bubble, whose connections can die silently: a host that is down, or
// a gateway that has forgotten them. It is the listener of a server.
type pipes struct {
	accept chan net.Conn
	closed context.Context
	end    context.CancelFunc
	made   atomic.Int64 // connections
	dead   atomic.Int64 // those up to this number swallow what comes
	open   atomic.Int64 // those that the application has not closed
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	id := p.made.Add(1)
	client, near := net.Pipe()
	far, server := net.Pipe()
	relay := func(to, from net.Conn) {
		data := make([]byte, 32<<10)
		for {
			n, err := from.Read(data)
			if id <= p.dead.Load() {
				if err != nil {
					return // the sender learns nothing
				}
				continue
			}
			if err == nil {
				_, err = to.Write(data[:n])
			}
			if err != nil {
				_ = to.Close()
				return
			}
		}
	}
	p.open.Add(1)
	go func() {
		relay(far, near)
		p.open.Add(-1)
	}()
	go relay(near, far)
	select {
	case p.accept <- server:
		return client, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// startHTTP2 serves s over HTTP/2, and returns the client of an application that knows the way: nil, and
// http.DefaultTransport does, if own.
func startHTTP2(t *testing.T, s *server, own bool) (*pipes, *http.Client) {
	t.Helper()
	p := &pipes{accept: make(chan net.Conn)}
	p.closed, p.end = context.WithCancel(t.Context())
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked with %s", r.Proto)
		}
		s.ServeHTTP(w, r)
	}))
	_ = web.Listener.Close()
	web.Listener, web.EnableHTTP2 = p, true
	web.StartTLS()
	t.Cleanup(web.Close)
	before := http.DefaultTransport
	transport := before.(*http.Transport).Clone()
	transport.Proxy, transport.DialContext = nil, p.dial
	transport.TLSClientConfig = &tls.Config{RootCAs: web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		ServerName: "example.com", MinVersion: tls.VersionTLS12}
	t.Cleanup(transport.CloseIdleConnections)
	if !own {
		return p, &http.Client{Transport: transport}
	}
	http.DefaultTransport = transport
	t.Cleanup(func() { http.DefaultTransport = before })
	return p, nil
}

// A time limit ends a request of HTTP/2 and leaves its connection in the pool, where the next one finds it.
func TestConnectionThatDiesSilentlyIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		own   bool // no Client is given
		wait  time.Duration
		lists int           // that are in use, over one connection
		known time.Duration // how long after its death everything is as before
	}{
		// Eight seconds until it is given up, and ten until the key set is fetched again.
		"own client, Wait": {true, 25 * time.Second, 1, 20 * time.Second}, "own client, many lists": {true, 25 * time.Second, 5, 20 * time.Second},
		"own client":                   {true, 0, 1, time.Minute},
		"a client without pings, Wait": {false, 25 * time.Second, 1, time.Minute}, "a client without pings, many lists": {false, 0, 5, 75 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newServer()
			net, client := startHTTP2(t, s, c.own)
			o := s.options()
			o.Client, o.Wait = client, c.wait
			lists := session.NewRemoteStatusList(o)
			keys := session.NewRemoteKeySet(issuer+"/jwks", session.RemoteOptions{Client: client})
			inUse := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
					var all sync.WaitGroup
					for n := range c.lists {
						all.Go(func() {
							if _, _, err := timed(t.Context(), lists, placeIn(n+1, 99)); err != nil {
								t.Error(err)
							}
						})
					}
					all.Go(func() { _, _ = keys.Key(t.Context(), "key-2") })
					all.Wait()
				}
			}
			inUse(15 * time.Second)
			made := net.made.Load()
			net.dead.Store(made)
			s.revoke(5)
			s.publish(publicJWK(rsaKey(), "key-2"))
			inUse(c.known)
			if net.made.Load() == made {
				t.Error("no new connection")
			}
			for n := range c.lists {
				if got, took, err := timed(t.Context(), lists, placeIn(n+1, 5)); !got || took > 0 || err != nil {
					t.Errorf("list %d: %t after %v, %v", n+1, got, took, err)
				}
			}
			wantKey(t, keys, "key-2", nil)
			// Who closes the lists has no connection of theirs left, and keeps those of the application.
			_ = lists.Close()
			time.Sleep(30 * time.Second)
			if open := net.open.Load(); c.own && c.wait == 0 && open > 1 || !c.own && open == 0 { // that of the key set
				t.Errorf("%d connections are open", open)
			}
		})
	}
}
