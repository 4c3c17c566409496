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

// reply is an answer of the service; status 0: there was none.
type reply struct {
	status int
	header http.Header
	body   string
	json   map[string]any
	cookie string // that of a session, if one was set
	others string // "name=value; " of every other
	err    error
}

const (
	cookieName = "cairn_session"
	formType   = "application/x-www-form-urlencoded"
	jsonType   = "application/json"
)

// patience is how long a client waits for an answer.
const patience = 10 * time.Second

func newClient() *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send asks an instance; header are names and values.
func (w *world) send(ctx context.Context, at int, method, path, session, contentType, body string, header ...string) (r reply) {
	w.requests.Add(1)
	n := w.each[at%len(w.each)]
	q, err := http.NewRequestWithContext(ctx, method, "http://"+n.address+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	q.Host = strings.TrimPrefix(w.issuer, "http://")
	if contentType != "" {
		q.Header.Set("Content-Type", contentType)
	}
	if contentType == formType {
		q.Header.Set("Origin", w.issuer) // as a browser does from a page of the service
	}
	if session != "" {
		q.Header.Set("Cookie", cookieName+"="+session)
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	got, err := w.http.Do(q)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = got.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(got.Body, 4<<20))
	if err != nil {
		return reply{err: err}
	}
	r = reply{status: got.StatusCode, header: got.Header, body: string(b)}
	_ = json.Unmarshal(b, &r.json)
	for _, c := range got.Cookies() {
		if c.Name == cookieName {
			r.cookie = c.Value
		} else if c.Value != "" {
			r.others += c.Name + "=" + c.Value + "; "
		}
	}
	return r
}

func (w *world) api(ctx context.Context, at int, method, path, session string, body any) reply {
	if body == nil {
		return w.send(ctx, at, method, path, session, "", "")
	}
	b, _ := json.Marshal(body)
	return w.send(ctx, at, method, path, session, jsonType, string(b))
}

// oauth is a request of a client, with its secret.
func (w *world) oauth(ctx context.Context, at int, path string, c client, form url.Values, header ...string) reply {
	form.Set("client_id", c.id)
	if c.secret != "" {
		form.Set("client_secret", c.secret)
	}
	return w.send(ctx, at, "POST", path, "", formType, form.Encode(), header...)
}

// exchange asks for the tokens of a code.
func (w *world) exchange(ctx context.Context, at int, c client, code string, header ...string) reply {
	return w.oauth(ctx, at, "/oauth2/token", c, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}}, header...)
}

func (r reply) str(name string) string { s, _ := r.json[name].(string); return s }

// text is a member as JSON.
func (r reply) text(name string) string { b, _ := json.Marshal(r.json[name]); return string(b) }

// given is a member of a successful answer: a problem has members of the same names.
func (r reply) given(name string) string {
	if r.status >= 300 {
		return ""
	}
	return r.str(name)
}

// location is where the answer leads to.
func (r reply) location() *url.URL {
	u, err := url.Parse(r.header.Get("Location"))
	if err != nil || r.status == 0 {
		return &url.URL{}
	}
	return u
}

// result is what the client knows: an error of the server or none at all leaves it open.
func (r reply) result() (outcome, string) {
	switch {
	case r.err != nil:
		text := r.err.Error()
		if i := strings.LastIndex(text, ": "); i >= 0 {
			text = text[i+2:]
		}
		return unknown, text
	case r.status >= 500:
		return unknown, fmt.Sprint(r.status)
	case r.status < 400:
		return accepted, fmt.Sprint(r.status)
	}
	why := r.str("error")
	if why == "" {
		why = r.str("code")
	}
	return refused, strings.TrimSpace(fmt.Sprintf("%d %s", r.status, why))
}

// gotCode is the result of an authorization request: without a code it was refused.
func (r reply) gotCode() (outcome, string) {
	out, note := r.result()
	if out == accepted && r.location().Query().Get("code") == "" {
		return refused, note + " " + r.location().Query().Get("error")
	}
	return out, note
}
