package session

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	maxRedirects = 3

	// A connection of HTTP/2 on which nothing comes for pingAfter is asked for a sign of life, and
	// given up pingWait later.
	pingAfter = 5 * time.Second
	pingWait  = 3 * time.Second
)

// webClient makes the requests for key sets and status lists.
type webClient struct {
	http.Client
	own    bool        // nobody else uses its connections
	silent atomic.Bool // the last request got no answer
}

// newClient returns a copy of the application's client (nil: one with connections of its own) that does
// not leave the host and scheme it was sent to: a redirect elsewhere would let somebody
// else choose the keys, or take the request into a private network.
func newClient(given *http.Client) *webClient {
	c := &webClient{}
	if given != nil {
		c.Client = *given
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		if t.HTTP2 == nil {
			t.HTTP2 = &http.HTTP2Config{}
		}
		t.HTTP2.SendPingTimeout, t.HTTP2.PingTimeout = pingAfter, pingWait
		c.Transport, c.own = t, true
	}
	theirs := c.CheckRedirect
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		first := via[0].URL
		if r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
			return errors.New("redirect to another host refused")
		}
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		if theirs != nil {
			return theirs(r, via)
		}
		return nil
	}
	return c
}

// send makes a request, and sees to it that a connection on which nobody answers any more (a host that is
// gone, a gateway that has forgotten it) does not get all the retries. Over HTTP/2 a time limit
// ends the request and not the connection, and Client.CloseIdleConnections finds it still busy.
func (c *webClient) send(r *http.Request) (*http.Response, error) {
	r.Close = c.silent.Load() // no request takes the connection after this one
	resp, err := c.Do(r)
	c.silent.Store(err != nil)
	return resp, err
}

// close gives up the connections that nobody else uses.
func (c *webClient) close() {
	if c.own {
		c.CloseIdleConnections()
	}
}
