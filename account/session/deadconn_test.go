package session_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-id/cairn/account/session"
	"github.com/go-jose/go-jose/v4"
)

// pipes is a network inside a bubble, whose connections can die without a word: a host that is gone, or
// a gateway that has forgotten them. It is the listener of a server.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
	made   atomic.Int64 // connections
	dead   atomic.Int64 // those up to this number swallow what comes
	open   atomic.Int64 // those that the application has not closed
}

func newPipes() *pipes { return &pipes{accept: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) die() { p.dead.Store(p.made.Load()) }

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
					return // nobody hears of it
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
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// startHTTP2 has the lists of s, and keys at /jwks, served over HTTP/2, and returns the transport of an
// application that knows the way.
func startHTTP2(t *testing.T, s *statusServer, keys func() []jose.JSONWebKey) (*pipes, *http.Transport) {
	t.Helper()
	p := newPipes()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked with %s", r.Proto)
		}
		if r.URL.Path == "/jwks" {
			fmt.Fprint(w, toJSON(jose.JSONWebKeySet{Keys: keys()}))
			return
		}
		resp, err := s.RoundTrip(r)
		if err != nil {
			return // nobody is there to read it
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	_ = server.Listener.Close()
	server.Listener, server.EnableHTTP2 = p, true
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DialContext = nil, p.dial
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, ServerName: "example.com", MinVersion: tls.VersionTLS12}
	return p, transport
}

// over are the options of an application with this transport, which without a client of its own has
// it as the default one.
func (s *statusServer) over(t *testing.T, transport *http.Transport, own bool) session.RemoteStatusOptions {
	o := s.options()
	o.Client = &http.Client{Transport: transport}
	if own {
		before := http.DefaultTransport
		http.DefaultTransport = transport
		t.Cleanup(func() { http.DefaultTransport = before })
		o.Client = nil
	}
	return o
}

// A time limit ends a request of HTTP/2 and leaves its connection in the pool, where the next one finds it.
func TestConnectionThatDiesSilentlyNeverStopsTheRenewal(t *testing.T) {
	for _, c := range []struct {
		name  string
		own   bool // no Client is given
		wait  time.Duration
		lists int           // that are in use, over one connection
		known time.Duration // how long after its death everything is as before
	}{
		{"own client, Wait", true, 25 * time.Second, 1, 10 * time.Second},
		{"own client", true, 0, 1, time.Minute},
		{"own client, many lists", true, 25 * time.Second, 5, 10 * time.Second},
		{"a client without pings, Wait", false, 25 * time.Second, 1, time.Minute},
		{"a client without pings", false, 0, 1, time.Minute},
		{"a client without pings, many lists", false, 25 * time.Second, 5, 75 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newStatusServer()
				published := []jose.JSONWebKey{publicJWK(rsaKey(), kid)}
				var mu sync.Mutex
				net, transport := startHTTP2(t, s, func() []jose.JSONWebKey {
					mu.Lock()
					defer mu.Unlock()
					return published
				})
				o := s.over(t, transport, c.own)
				o.Wait = c.wait
				lists := session.NewRemoteStatusList(o)
				keys := session.NewRemoteKeySet(issuer+"/jwks", session.RemoteOptions{Client: o.Client})
				wantKey(t, keys, kid, nil)
				inUse := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
						for n := range c.lists {
							_, _, err := timed(t.Context(), lists, session.StatusRef{Index: 99, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, n+1)})
							if err != nil {
								t.Fatal(err)
							}
						}
						_, _ = keys.Key(t.Context(), "key-2")
					}
				}
				inUse(15 * time.Second)
				made := net.made.Load()
				net.die()
				s.revoke(5)
				mu.Lock()
				published = append(published, publicJWK(rsaKey(), "key-2"))
				mu.Unlock()
				inUse(c.known)
				if net.made.Load() == made {
					t.Error("no new connection")
				}
				for n := range c.lists {
					ref := session.StatusRef{Index: 5, URI: fmt.Sprintf("%s/oauth2/status/%d", issuer, n+1)}
					if got, took, err := timed(t.Context(), lists, ref); !got || took > 0 || err != nil {
						t.Errorf("list %d: %t after %v, %v", n+1, got, took, err)
					}
				}
				wantKey(t, keys, "key-2", nil)
				if err := lists.Close(); err != nil {
					t.Error(err)
				}
				transport.CloseIdleConnections()
			})
		})
	}
}

// Who closes the lists has no connection of theirs left, and keeps those of the application.
func TestClosedListsNeverKeepAConnectionOfTheirOwn(t *testing.T) {
	for own, want := range map[bool]int64{true: 0, false: 1} {
		inBubble(t, func(t *testing.T) {
			s := newStatusServer()
			net, transport := startHTTP2(t, s, nil)
			lists := session.NewRemoteStatusList(s.over(t, transport, own))
			use(t, lists, 10*time.Second)
			if err := lists.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := net.open.Load(); got != want {
				t.Errorf("own client %t: %d connections are open, want %d", own, got, want)
			}
			transport.CloseIdleConnections()
		})
	}
}
