package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/cairn-id/cairn/account/web/browser"
)

// reply is an answer of the service.
type reply struct{ browser.Answer }

// send asks an instance; header are names and values.
func (w *world) send(
	ctx context.Context, at int, method, path, session, contentType, body string, header ...string,
) reply {
	w.requests.Add(1)
	if session != "" {
		header = append(header, "Cookie", browser.SessionCookie+"="+session)
	}
	address := "http://" + w.each[at%len(w.each)].address + path
	host := strings.TrimPrefix(w.issuer, "http://")
	q, err := browser.Request(ctx, method, address, host, contentType, body, header...)
	if err != nil {
		return reply{browser.Answer{Err: err}}
	}
	return reply{browser.Send(w.http, q)}
}

func (w *world) api(ctx context.Context, at int, method, path, session string, body any) reply {
	if body == nil {
		return w.send(ctx, at, method, path, session, "", "")
	}
	b, _ := json.Marshal(body)
	return w.send(ctx, at, method, path, session, browser.JSONType, string(b))
}

// login is a sign-in by the password.
func (w *world) login(ctx context.Context, at int, handle, password string) reply {
	return w.api(ctx, at, "POST", "/api/auth/login", "", map[string]string{"handle": handle, "password": password})
}

// get is a request of a browser.
func (w *world) get(ctx context.Context, at int, path, session string) reply {
	return w.send(ctx, at, "GET", path, session, "", "")
}

// post is a form that a browser sends.
func (w *world) post(ctx context.Context, at int, path, session string, form url.Values) reply {
	return w.send(ctx, at, "POST", path, session, browser.FormType, form.Encode())
}

// oauth is a request of a client, with its secret.
func (w *world) oauth(ctx context.Context, at int, path string, c browser.App, form url.Values) reply {
	return w.post(ctx, at, path, "", c.Form(form))
}

// userinfo asks for the claims with an access token.
func (w *world) userinfo(ctx context.Context, at int, access string) reply {
	return w.send(ctx, at, "GET", "/oauth2/userinfo", "", "", "", "Authorization", "Bearer "+access)
}

// result is what the client knows: an error of the server or none at all leaves it open.
func (r reply) result() (outcome, string) {
	switch {
	case r.Err != nil:
		text := r.Err.Error()
		if i := strings.LastIndex(text, ": "); i >= 0 {
			text = text[i+2:]
		}
		return unknown, text
	case r.Unknown():
		return unknown, fmt.Sprint(r.Status)
	case r.Status < 400:
		return accepted, fmt.Sprint(r.Status)
	}
	why := r.Str("error")
	if why == "" {
		why = r.Str("code")
	}
	return refused, strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, why))
}

// gotCode is the result of an authorization request: without a code it was refused.
func (r reply) gotCode() (outcome, string) {
	out, note := r.result()
	if out == accepted && r.Code() == "" {
		return refused, note + " " + r.Location().Path + " " + r.Location().Query().Get("error")
	}
	return out, note
}
