package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	maxRedirects = 3

	// After pingAfter without data, an HTTP/2 connection is pinged; pingWait later it is given up.
	pingAfter = 5 * time.Second
	pingWait  = 3 * time.Second
)

// webClient makes the requests for key sets and status lists.
type webClient struct {
	http.Client
	own    bool        // nobody else uses its connections
	silent atomic.Bool // the last request got no answer
	closed atomic.Bool // its requests are ended, and that says nothing of their connections
}

// newClient returns a copy of the application's client (nil: one with its own connections) that
// follows no redirect to another host or scheme: it would let another server choose the keys, or
// send the request into a private network.
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
		if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme || len(via) > maxRedirects {
			return errors.New("redirect refused: to another host, or one too many")
		}
		if theirs != nil {
			return theirs(r, via)
		}
		return nil
	}
	return c
}

// get returns the response of an address and its body, of at most limit bytes. A status other than
// 200 is an error, except 304 for a request with If-None-Match.
func (c *webClient) get(
	ctx context.Context, url string, limit int64, header http.Header,
) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		// The error quotes the address, which may contain a password.
		return nil, nil, errors.New("the address is not a URL")
	}
	r.Header = header
	// Over HTTP/2 a timeout ends the request but not the connection. After a request without a
	// response, the next one is the last on its connection.
	r.Close = c.silent.Load() && !c.closed.Load()
	resp, err := c.Do(r)
	c.silent.Store(err != nil)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK &&
		(resp.StatusCode != http.StatusNotModified || header.Get("If-None-Match") == "") {
		return nil, nil, fmt.Errorf("the answer has status %d", resp.StatusCode)
	}
	// The limit applies after decompression: a short response may contain a gigabyte of zeros.
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, nil, fmt.Errorf("the answer is over %d bytes", limit)
	}
	return resp, body, nil
}
