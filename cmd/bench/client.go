package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account/web/browser"
)

// newClient has a connection of its own. Sign-ins queue for a core.
func newClient() *http.Client { return browser.NewClient(30*time.Second, nil) }

// ask sends a request and wants a status; header are names and values. A form makes it a POST. The error says what the
// server said of it, and no code or token: these are not in the answers of failures.
func (t *target) ask(ctx context.Context, client *http.Client, status int, path string, form url.Values,
	header ...string) (a browser.Answer, err error) {
	method, kind := http.MethodGet, ""
	if form != nil {
		method, kind = http.MethodPost, browser.FormType
	}
	host := strings.TrimPrefix(t.issuer, "http://")
	r, err := browser.Request(ctx, method, "http://"+t.address+path, host, kind, form.Encode(), header...)
	if err != nil {
		return a, err
	}
	a = browser.Send(client, r)
	if a.Status == http.StatusFound {
		a.Status = http.StatusSeeOther // RFC 6749 section 1.7: the one or the other
	}
	if a.Err != nil || a.Status == status {
		return a, a.Err
	}
	why := strings.Fields(a.Str("error") + " " + a.Str("error_description") + " " + a.Str("detail"))
	return a, fmt.Errorf("status %d instead of %d %s", a.Status, status, strings.Join(why, " "))
}

func (w *worker) ask(
	ctx context.Context, status int, path string, form url.Values, header ...string,
) (browser.Answer, error) {
	return w.target.ask(ctx, w.http, status, path, form, header...)
}

// decode reads a JSON object.
func decode(a browser.Answer, into any) error {
	if kind := a.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
		return fmt.Errorf("the content type is %q", kind)
	}
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		return fmt.Errorf("not the JSON that is expected: %w", err)
	}
	return nil
}
