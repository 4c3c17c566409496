package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// newClient has a connection of its own, and follows no redirects. Sign-ins queue for a core.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends a request and wants a status; header are names and values. A form makes it a POST. The error says what the
// server said of it, and no code or token: these are not in the answers of failures.
func (t *target) ask(ctx context.Context, client *http.Client, status int, path string, form url.Values,
	header ...string) (a answer, err error) {
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+t.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		return a, err
	}
	r.Host = strings.TrimPrefix(t.issuer, "http://")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = got.Body.Close() }()
	a = answer{status: got.StatusCode, header: got.Header}
	if a.status == http.StatusFound {
		a.status = http.StatusSeeOther // RFC 6749 section 1.7: the one or the other
	}
	if a.body, err = io.ReadAll(got.Body); err != nil || a.status == status {
		return a, err
	}
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
		Detail      string `json:"detail"`
	}
	_ = json.Unmarshal(a.body, &said)
	why := strings.Fields(said.Error + " " + said.Description + " " + said.Detail)
	return a, fmt.Errorf("status %d instead of %d %s", a.status, status, strings.Join(why, " "))
}

func (w *worker) ask(ctx context.Context, status int, path string, form url.Values, header ...string) (answer, error) {
	return w.target.ask(ctx, w.http, status, path, form, header...)
}

// decode reads a JSON object.
func (a answer) decode(into any) error {
	if kind := a.header.Get("Content-Type"); !strings.Contains(kind, "json") {
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
