package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
)

// forged is an address that a visitor could write into X-Forwarded-For (RFC 5737 section 3).
var forged = netip.MustParseAddr("192.0.2.66")

// visitorAddress asks the service which client address it sees in a request that forges its address.
func visitorAddress(ctx context.Context, x *examination) Finding {
	header := http.Header{"X-Forwarded-For": {forged.String()}}
	seen, err := httpd.AskSeen(ctx, x.client, x.checked.IssuerString, x.secret, header)
	if errors.Is(err, httpd.ErrOtherService) && x.cached {
		return skipped("A cache answers: see cache.")
	}
	if err != nil {
		return unreached(err)
	}
	return judgeAddress(seen, x.checked.HTTPS && x.checked.TLS == nil, isOwn)
}

// deviceBinding checks that the headers of device binding pass in both directions, and that it is on.
func deviceBinding(ctx context.Context, x *examination) Finding {
	if x.checked.Unbound {
		return found(Advice, "Remove device-binding from cairn.yaml when the reason for it is gone.",
			"Sessions are not bound to their devices: device-binding is off.")
	}
	lost, err := x.lost(ctx, httpd.DeviceBinding)
	if errors.Is(err, httpd.ErrOtherService) && x.cached {
		return skipped("A cache answers: see cache.")
	}
	if err != nil {
		return unreached(err)
	}
	if len(lost) > 0 {
		return found(Warning, "Let the proxy pass on the headers Sec-Secure-Session-Id and Secure-Session-*, both "+
			"ways. Until then set device-binding: off, or people whose browser cannot prove its key have to sign in "+
			"again.",
			"The proxy drops %s: browsers cannot bind sessions to their devices.", strings.Join(lost, ", "))
	}
	return ok("The headers of device binding pass in both directions.")
}

// lost returns those of the headers that do not pass.
func (x *examination) lost(ctx context.Context, names httpd.Headers) ([]string, error) {
	header := http.Header{}
	for _, name := range names.Requests {
		header.Set(name, `"doctor"`)
	}
	seen, err := httpd.AskSeen(ctx, x.client, x.checked.IssuerString, x.secret, header)
	return slices.DeleteFunc(slices.Concat(names.Requests, names.Answers),
		func(name string) bool { return slices.Contains(seen.Passed, name) }), err
}

// isOwn reports whether an address is one of this machine's.
func isOwn(a netip.Addr) bool {
	addresses, _ := net.InterfaceAddrs()
	return a.IsLoopback() || slices.ContainsFunc(addresses, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}

// judgeAddress judges the address that the service saw. proxied reports whether only a proxy can
// have sent the request.
func judgeAddress(seen httpd.Seen, proxied bool, own func(netip.Addr) bool) Finding {
	const (
		appends = "Let the proxy append or set the visitor's address: " +
			"proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; in nginx."
		names = "Write the address of the proxy into trusted-proxy in cairn.yaml and restart cairn serve."
	)
	hops := seen.ForwardedFor
	// Proxies wrote what follows the forged address. The visitor reached the first of them.
	written := hops
	if i := slices.Index(hops, forged.String()); i >= 0 {
		written = hops[i+1:]
	}
	text := fmt.Sprintf("The service takes this request, which comes from %s with X-Forwarded-For %q, for one of %s",
		seen.Peer, hops, seen.Client)
	switch {
	case !seen.Trusted && (proxied || len(written) > 0):
		return found(Problem, names, "%s: all visitors have the address of the proxy, "+
			"and one who guesses passwords locks everybody out.", text)
	case !seen.Trusted:
		return ok("%s: what a visitor writes is ignored.", text)
	case len(hops) == 0:
		return found(Problem, appends, "%s: the proxy passes no address on, and all visitors have its own.", text)
	case len(written) == 0:
		return found(Problem, appends, "%s: the proxy passes on what a visitor writes, "+
			"so every visitor chooses the address that the limits count.", text)
	}
	visitor, err := netip.ParseAddr(trimPort(written[0]))
	visitor = visitor.Unmap()
	switch {
	case err != nil:
		return found(Problem, appends, "%s: the proxy wrote %q, which is not an address.", text, written[0])
	case seen.Client == visitor:
		return ok("%s: what a visitor writes is ignored.", text)
	case seen.Client != forged:
		const do = "Also write the addresses of the first proxy into trusted-proxy in cairn.yaml " +
			"and restart cairn serve."
		return found(Warning, do, "%s: the proxy nearest to the visitor saw %s, and the one after it is not trusted.",
			text, visitor)
	case own(visitor):
		return ok("The proxy writes %s, an address of this machine, which trusted-proxy covers: "+
			"visitors from elsewhere have their own address.", visitor)
	}
	return found(Warning, "Narrow trusted-proxy in cairn.yaml to the proxies, "+
		"and check in the log which address a visitor from outside has.",
		"%s: trusted-proxy covers %s, which the proxy takes for the visitor's, "+
			"so whoever comes from there chooses the address that the limits count.", text, visitor)
}

func trimPort(hop string) string {
	if host, _, err := net.SplitHostPort(hop); err == nil {
		return host
	}
	return hop
}

// forwardedHeaders checks that a visitor's headers about host and scheme change nothing: a proxy or
// cache in between may believe what the service ignores.
func forwardedHeaders(ctx context.Context, x *examination) Finding {
	const otherHost = "doctor.invalid"
	header := http.Header{
		"X-Forwarded-Host": {otherHost}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Port": {"1"},
		"Forwarded": {"host=" + otherHost + ";proto=http"}, "X-Original-Host": {otherHost},
	}
	for _, path := range []string{"/", "/login/", discoveryPath} {
		plain, body, err := x.ask(ctx, http.MethodGet, path, nil)
		if err != nil {
			return unreached(err)
		}
		answer, other, err := x.ask(ctx, http.MethodGet, path, header)
		if err != nil {
			return unreached(err)
		}
		location, plainLocation := answer.Header.Get("Location"), plain.Header.Get("Location")
		differs := path == discoveryPath && len(x.keys) > 0 && string(other) != string(body)
		if answer.StatusCode != plain.StatusCode || location != plainLocation || differs {
			return found(Problem, "Let the proxy drop or overwrite visitors' X-Forwarded-Host, X-Forwarded-Proto "+
				"and Forwarded, and not use them in redirects.",
				"%s answers %s to a request with a forged X-Forwarded-Host and X-Forwarded-Proto (Location %q), "+
					"and %s without (Location %q).",
				x.checked.IssuerString+path, answer.Status, location, plain.Status, plainLocation)
		}
	}
	return ok("A forged X-Forwarded-Host, X-Forwarded-Proto or Forwarded changes nothing.")
}

// otherAnswer says more about an answer at the public address that this installation did not give.
func otherAnswer(ctx context.Context, x *examination) (f Finding, is bool) {
	res, _, err := x.ask(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return f, false
	}
	address, path := x.checked.IssuerString, x.checked.Issuer.Path
	switch own := res.Header.Get(requestID) != ""; {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return found(Problem, "Let the proxy pass requests on instead of redirecting them; if another one is in "+
			"front of it, such as a content delivery network, let that one connect with https.",
			"%s redirects to %q.", address, res.Header.Get("Location")), true
	case res.StatusCode == http.StatusUnauthorized:
		return found(Problem, "Let the proxy demand no password of its own for this name (auth_basic off; in nginx): "+
			"applications cannot give it.", "%s answers %s.", address, res.Status), true
	case res.StatusCode == http.StatusForbidden && !own:
		return found(Problem, passPrograms, "%s answers %s to a program.", address, res.Status), true
	case own && res.StatusCode == http.StatusNotFound && path != "":
		return found(Problem, "Let the proxy pass the path on unchanged: in nginx, location "+path+
			"/ with a proxy_pass that ends after the port.",
			"The service at %s is not asked for the path %s of the issuer: the proxy removes it.", address, path), true
	}
	return f, false
}

const passPrograms = "Let the bot protection of the proxy or content delivery network pass every request for this " +
	"name: applications are programs, and cannot answer its question."

// programs asks as the libraries of applications do.
func programs(ctx context.Context, x *examination) Finding {
	for _, agent := range []string{
		"Go-http-client/2.0", "python-requests/2.32.3", "node", "okhttp/4.12.0", "Java-http-client/21",
		"curl/8.9.1", "",
	} {
		for _, path := range []string{discoveryPath, "/api/me"} {
			res, _, err := x.ask(ctx, http.MethodGet, path, http.Header{"User-Agent": {agent}})
			if err != nil {
				return unreached(err)
			}
			if res.StatusCode == http.StatusForbidden && res.Header.Get(requestID) == "" {
				return found(Problem, passPrograms, "%s answers %s to a program that calls itself %q.",
					x.checked.IssuerString+path, res.Status, agent)
			}
		}
	}
	return ok("Programs are let through, whatever they call themselves.")
}

// onceHeaders are the security headers of the service, and crossHeaders those by which pages of others may read.
var (
	onceHeaders = []string{
		"Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy",
		"Cross-Origin-Opener-Policy",
	}
	crossHeaders = []string{
		"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers",
	}
)

// securityHeaders compares them with the answer at --listen: browsers obey all policies that they get.
func securityHeaders(ctx context.Context, x *examination) Finding {
	client, base, err := atListener(x.checked)
	switch {
	case err != nil:
		return skipped("%v.", err)
	case x.cached:
		return skipped("A cache answers: see cache.")
	}
	fromPage := http.Header{
		"Origin": {"https://doctor.invalid"}, "Access-Control-Request-Method": {http.MethodPost},
		"Access-Control-Request-Headers": {"authorization"},
	}
	var changed []string
	for _, request := range []string{
		"GET /login/", "GET /account/", "GET /api/me", "GET " + discoveryPath, "OPTIONS /oauth2/token",
	} {
		method, path, _ := strings.Cut(request, " ")
		res, _, err := x.ask(ctx, method, path, fromPage)
		if err != nil {
			return unreached(err)
		}
		own, _, err := x.askWith(ctx, client, method, base+path, fromPage)
		if err != nil || own.Header.Get(requestID) == "" {
			return skipped("The service does not answer at --listen: see service.")
		}
		if res.StatusCode != own.StatusCode && res.StatusCode >= 400 {
			continue // other findings have what the proxy answers itself
		}
		if notStored(own) && !notStored(res) {
			return found(Problem, "Let the proxy pass Cache-Control on unchanged, without an expiry of its own "+
				"(expires in nginx).", "The proxy removes no-store from Cache-Control in the answer to %s: caches "+
				"keep what belongs to one person.", request)
		}
		for _, name := range slices.Concat(onceHeaders, crossHeaders) {
			if slices.Equal(own.Header.Values(name), res.Header.Values(name)) || slices.Contains(changed, name) {
				continue
			}
			if changed = append(changed, name); slices.Contains(crossHeaders, name) {
				return found(Problem, "Let the proxy pass Origin and the Access-Control headers on and add none "+
					"of its own (no add_header in nginx); pages that may call the API are in allowed-origin.",
					"The proxy changes or repeats %s in the answer to %s: pages of others may read what they must "+
						"not, or browsers refuse answers to applications.", name, request)
			}
		}
	}
	if len(changed) > 0 {
		return found(Warning, "Let the proxy pass these headers on and add none of its own (no add_header in nginx): "+
			"browsers obey every policy, and a sign-in or its way back to the application may be blocked.",
			"The proxy changes or repeats %s.", strings.Join(changed, ", "))
	}
	lost, err := x.lost(ctx, httpd.FromPages)
	if err != nil {
		return unreached(err)
	}
	if len(lost) > 0 {
		return found(Problem, "Let the proxy pass on Origin and Sec-Fetch-Site.", "The proxy drops %s: the service "+
			"does not see which requests pages of other sites make.", strings.Join(lost, ", "))
	}
	return ok("The proxy passes the security headers of the service on.")
}

func notStored(res *http.Response) bool {
	return strings.Contains(strings.Join(res.Header.Values("Cache-Control"), ","), "no-store")
}

// authorization checks that the headers pass with which clients and tokens prove who they are.
func authorization(ctx context.Context, x *examination) Finding {
	const path = "/oauth2/userinfo"
	if x.cached {
		return skipped("A cache answers: see cache.")
	}
	header := http.Header{"Authorization": {"Bearer doctor"}}
	res, _, err := x.ask(ctx, http.MethodGet, path, header)
	if err == nil && res.StatusCode >= http.StatusInternalServerError {
		err = errors.New(res.Status)
	}
	if err != nil {
		return unreached(err)
	}
	if !strings.Contains(strings.Join(res.Header.Values("WWW-Authenticate"), ", "), "invalid_token") {
		return found(Problem, "Let the proxy pass Authorization on unchanged, and WWW-Authenticate back: without a "+
			"proxy_set_header Authorization in nginx, without a password of its own.",
			"%s does not refuse an invalid token: the proxy drops Authorization, so no client can authenticate and no "+
				"token is accepted.", x.checked.IssuerString+path)
	}
	lost, err := x.lost(ctx, httpd.DPoP)
	if err != nil {
		return unreached(err)
	}
	if len(lost) > 0 {
		return found(Warning, "Let the proxy pass on DPoP, and DPoP-Nonce back.",
			"The proxy drops %s: applications cannot bind tokens to their keys (DPoP).", strings.Join(lost, ", "))
	}
	return ok("Authorization and DPoP arrive.")
}

// signInHeaders is more than the headers of the answer to a sign-in, which has two cookies, have.
const signInHeaders = 3 << 10

// answerHeaders asks for an answer with as many headers as that to a sign-in.
func answerHeaders(ctx context.Context, x *examination) Finding {
	if x.cached {
		return skipped("A cache answers: see cache.")
	}
	header := http.Header{httpd.ProbePadding: {strconv.Itoa(signInHeaders)}}
	if _, err := httpd.AskSeen(ctx, x.client, x.checked.IssuerString, x.secret, header); err != nil {
		return found(Problem, "Give the proxy a larger buffer for the headers of an answer: proxy_buffer_size 8k; in "+
			"nginx, tune.bufsize in HAProxy.",
			"An answer with headers of %s, as that to a sign-in has, does not arrive: %v.",
			sizeText(signInHeaders), err)
	}
	return ok("An answer with headers of %s arrives.", sizeText(signInHeaders))
}

// pages compares a page with what the service answers at --listen.
func pages(ctx context.Context, x *examination) Finding {
	// The page repeats what a proxy may rewrite.
	path := "/recover/?handle=" + url.QueryEscape("http://a.invalid "+x.checked.IssuerString)
	client, base, err := atListener(x.checked)
	if err != nil {
		return skipped("%v.", err)
	}
	var own [2][]byte
	media := ""
	for i := range own {
		res, body, err := x.askWith(ctx, client, http.MethodGet, base+path, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			return skipped("The service does not answer at --listen: see service.")
		}
		own[i], media = body, res.Header.Get("Content-Type")
	}
	res, body, err := x.ask(ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return unreached(err)
	case !bytes.Equal(own[0], own[1]) || res.StatusCode != http.StatusOK:
		return skipped("The pages cannot be compared.")
	case !bytes.Equal(own[0], body) || res.Header.Get("Content-Type") != media:
		return found(Warning, "Let the proxy or content delivery network pass the query on, and change no HTML: no "+
			"optimization, no scripts of its own, no hidden addresses. What it adds is against the policy of the "+
			"page, or breaks its forms.", "%s is not the page that the service answers at --listen.",
			x.checked.IssuerString+path)
	}
	return ok("The proxy passes pages on unchanged.")
}

// publicPaths are what people, browsers and applications need, one of each part of the service.
var publicPaths = []string{
	"/", "/login/", "/account/", "/admin/", "/device", "/api/me", "/oauth2/authorize", "/oauth2/token",
	"/oauth2/userinfo", "PUT /api/doctor", "PATCH /api/doctor", "DELETE /api/doctor",
}

// Lengths of a request whose headers are as long as those of real ones: an authorization request with a signed request
// object (RFC 9101), and the cookies of a browser. Proxies that were not told otherwise take both.
const (
	longState   = 6 << 10
	longCookies = 4 << 10
)

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
		method, at, given := strings.Cut(path, " ")
		if !given {
			method, at = http.MethodGet, path
		}
		if res, _, err := x.ask(ctx, method, at, nil); err == nil && res.Header.Get(requestID) == "" {
			kept = append(kept, path+" ("+res.Status+")")
		}
	}
	if len(kept) > 0 {
		return found(Problem, "Let the proxy pass on everything below "+x.checked.IssuerString+
			"/, without a location of its own.", "The proxy answers these itself: %s.", strings.Join(kept, ", ")), true
	}
	long := http.Header{"Cookie": {"doctor=" + strings.Repeat("x", longCookies)}}
	res, _, err = x.ask(ctx, http.MethodGet, "/oauth2/authorize?state="+strings.Repeat("x", longState), long)
	if err == nil && res.Header.Get(requestID) == "" {
		err = errors.New(res.Status)
	}
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err // without the address
	}
	if err != nil && !errors.Is(err, errTooMany) {
		return found(Problem, "Let the proxy take request headers of 32 KiB: large_client_header_buffers 4 32k; in "+
			"nginx, tune.bufsize 65536 in HAProxy, LimitRequestLine and LimitRequestFieldSize 32768 in Apache.",
			"The proxy refuses a request with an address of %s and cookies of %s, as applications and browsers send "+
				"them: %v.", sizeText(longState), sizeText(longCookies), err), true
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
