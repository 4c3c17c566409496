package doctor

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// requestID is a header of every answer of the service. A proxy that answers itself has none.
const requestID = "X-Request-Id"

// errTooMany is the error for a request that a limit of the service refused.
var errTooMany = errors.New("429 Too Many Requests")

// otherAnswer says more about an answer at the public address that this installation did not give.
func otherAnswer(ctx context.Context, x *examination) (f Finding, is bool) {
	res, _, err := x.ask(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return f, false
	}
	address, path := x.checked.IssuerString, x.checked.Issuer.Path
	switch own := res.Header.Get(requestID) != ""; {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return found(Problem, "Let the proxy pass requests on instead of redirecting them; if another one is in front of it, "+
			"such as a content delivery network, let that one connect with https.",
			"%s redirects to %q.", address, res.Header.Get("Location")), true
	case res.StatusCode == http.StatusUnauthorized:
		return found(Problem, "Let the proxy demand no password of its own for this name (auth_basic off; in nginx): "+
			"applications cannot give it.", "%s answers %s.", address, res.Status), true
	case own && res.StatusCode == http.StatusNotFound && path != "":
		return found(Problem, "Let the proxy pass the path on unchanged: in nginx, location "+path+
			"/ with a proxy_pass that ends after the port.",
			"The service at %s is not asked for the path %s of the issuer: the proxy removes it.", address, path), true
	}
	return f, false
}

// publicPaths are paths that people, browsers and applications need, one of each part of the service.
var publicPaths = []string{
	"/", "/login/", "/account/", "/admin/", "/device", "/api/me", "/oauth2/authorize", "/oauth2/token", "/oauth2/userinfo",
}

// upload is larger than what proxies take without being told. The service takes activity files of 8 MiB.
const upload = 2 << 20

// keptBack returns a finding about requests that a proxy answers itself, or does not pass on.
func keptBack(ctx context.Context, x *examination) (f Finding, is bool) {
	res, _, err := x.ask(ctx, http.MethodGet, "/healthz", nil)
	if err != nil || res.Header.Get(requestID) == "" { // the proxy removes it
		return f, false
	}
	var kept []string
	for _, path := range publicPaths {
		if res, _, err := x.ask(ctx, http.MethodGet, path, nil); err == nil && res.Header.Get(requestID) == "" {
			kept = append(kept, path+" ("+res.Status+")")
		}
	}
	if len(kept) > 0 {
		return found(Problem, "Let the proxy pass on everything below "+x.checked.IssuerString+"/, without a location of its own.",
			"The proxy answers these itself: %s.", strings.Join(kept, ", ")), true
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.checked.IssuerString+"/api/auth/logout",
		bytes.NewReader(make([]byte, upload)))
	if err != nil {
		return f, false
	}
	r.Header.Set("Expect", "100-continue")
	if res, err = x.client.Do(r); err != nil {
		return f, false // a service that refuses may close the connection before the body is sent
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusRequestEntityTooLarge && res.Header.Get(requestID) == "" {
		return found(Warning, "Let the proxy take bodies of 8 MiB, as with client_max_body_size 9m; in nginx.",
			"The proxy refuses a body of %s: activity files and pictures cannot be sent.", sizeText(upload)), true
	}
	return f, false
}

// onceHeaders are the security headers of the service.
var onceHeaders = []string{"Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy"}

// securityHeaders compares them with the answer at --listen: browsers obey all policies that they get.
func securityHeaders(ctx context.Context, x *examination) Finding {
	const path = "/login/"
	res, _, err := x.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return unreached(err)
	}
	client, base, err := atListener(x.checked)
	if err != nil {
		return skipped("%v.", err)
	}
	own, _, err := x.askWith(ctx, client, http.MethodGet, base+path, nil)
	if err != nil || own.StatusCode != res.StatusCode {
		return skipped("The service does not answer at --listen: see service.")
	}
	var changed []string
	for _, name := range onceHeaders {
		if !slices.Equal(own.Header.Values(name), res.Header.Values(name)) {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		return found(Warning, "Let the proxy pass these headers on and add none of its own (no add_header in nginx): "+
			"browsers obey every policy, and a sign-in or its way back to the application may be blocked.",
			"The proxy changes or repeats %s.", strings.Join(changed, ", "))
	}
	return ok("The proxy passes the security headers of the service on.")
}
