package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// connection is a kept-alive connection to a server under test, for one worker. It is
// cheap: what measures runs beside what is measured.
type connection struct {
	address string // where it connects to
	host    string // what it asks for
	c       net.Conn
	r       *bufio.Reader
	request []byte
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// answerTimeout is for one request: sign-ins queue for a core.
const answerTimeout = 30 * time.Second

// do sends a request and reads the answer; header are names and values. A body makes it a
// POST of a form.
func (c *connection) do(ctx context.Context, path, body string, header ...string) (answer, error) {
	if c.c == nil {
		if err := loopback(c.address); err != nil {
			return answer{}, err
		}
		opened, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return answer{}, err
		}
		c.c, c.r = opened, bufio.NewReader(opened)
	}
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	b := append(c.request[:0], method+" "+path+" HTTP/1.1\r\nHost: "+c.host+"\r\n"...)
	for i := 0; i+1 < len(header); i += 2 {
		b = append(b, header[i]+": "+header[i+1]+"\r\n"...)
	}
	if body != "" {
		b = fmt.Appendf(b, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n", len(body))
	}
	c.request = append(append(b, "\r\n"...), body...)
	_ = c.c.SetDeadline(time.Now().Add(answerTimeout))
	if _, err := c.c.Write(c.request); err != nil {
		c.close()
		return answer{}, err
	}
	got, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.close()
		return answer{}, err
	}
	a := answer{status: got.StatusCode, header: got.Header}
	if a.status == http.StatusFound {
		a.status = http.StatusSeeOther // RFC 6749 section 1.7: the one or the other
	}
	if a.body, err = io.ReadAll(got.Body); err != nil || got.Close {
		c.close()
	}
	return a, err
}

func (c *connection) close() {
	if c.c != nil {
		_ = c.c.Close()
		c.c = nil
	}
}

// is checks the status. The error says what the server said of it, and no code or token:
// these are not in the answers of failures.
func (a answer) is(status int) error {
	if a.status == status {
		return nil
	}
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		Detail      string `json:"detail"`
	}
	_ = json.Unmarshal(a.body, &said)
	return fmt.Errorf("status %d instead of %d %s", a.status, status, strings.Join(strings.Fields(said.Error+" "+said.Description+" "+said.Detail), " "))
}

// decode reads a JSON object.
func (a answer) decode(into any) error {
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return fmt.Errorf("the content type is %q", kind)
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("not the JSON that is expected: %w", err)
	}
	return nil
}

// cookies is the Cookie header of what the answer sets.
func (a answer) cookies() string {
	var all []string
	for _, line := range a.header.Values("Set-Cookie") {
		if c, err := http.ParseSetCookie(line); err == nil && c.Value != "" && c.MaxAge >= 0 {
			all = append(all, c.Name+"="+c.Value)
		}
	}
	return strings.Join(all, "; ")
}

// loopback refuses an address that another machine may have.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%s is not an address of this machine alone: measure on 127.0.0.1", address)
	}
	return nil
}
