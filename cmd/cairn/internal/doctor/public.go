package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/net/publicsuffix"
)

// publicClient returns a client that reaches the service as applications do. It follows no redirect:
// requests for the service must go to no other host.
func (x *examination) publicClient() (*http.Client, *http.Transport) {
	t := &http.Transport{
		DialContext:         x.Dial,
		TLSClientConfig:     &tls.Config{RootCAs: x.RootCAs, MinVersion: tls.VersionTLS12, Time: x.Now},
		TLSHandshakeTimeout: requestTimeout, ForceAttemptHTTP2: true,
		ExpectContinueTimeout: time.Second, // a proxy refuses a large body before it is sent
	}
	return &http.Client{Transport: t, Timeout: requestTimeout, CheckRedirect: noRedirect}, t
}

// maxAnswer limits the bytes read of an answer. No status list is as large.
const maxAnswer = 4 << 20

// ask sends a request to a path below the issuer; h may be nil.
func (x *examination) ask(ctx context.Context, method, path string, h http.Header) (*http.Response, []byte, error) {
	return x.askURL(ctx, method, x.checked.IssuerString+path, h)
}

func (x *examination) askURL(ctx context.Context, method, url string, h http.Header) (*http.Response, []byte, error) {
	return x.askWith(ctx, x.client, method, url, h)
}

func (x *examination) askWith(
	ctx context.Context, client *http.Client, method, url string, h http.Header,
) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(r.Header, h)
	if _, given := h["User-Agent"]; !given {
		r.Header.Set("User-Agent", "cairn doctor")
	}
	res, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if res.StatusCode == http.StatusTooManyRequests {
		return nil, nil, errTooMany
	}
	return res, body, err
}

// unreached returns a finding about a request that got no answer although the address leads here.
func unreached(err error) Finding {
	if errors.Is(err, errTooMany) {
		return found(Problem, "Raise the limit all of rate-limit in cairn.yaml if it was lowered, or wait for a "+
			"minute; if every visitor meets it, see visitor-address.", "The request was refused: %v.", err)
	}
	return found(Problem, "Check the log of the proxy, and run cairn doctor again.", "There is no answer: %v.", err)
}

// Days before the end of a certificate. One of 90 days should be renewed 30 days before its end.
const (
	warningDays = 21
	problemDays = 3
)

func tlsCertificate(ctx context.Context, x *examination) Finding {
	const renew = "Renew the certificate, and find out why it was not renewed automatically."
	host, port := x.checked.Issuer.Hostname(), cmp.Or(x.checked.Issuer.Port(), "443")
	address := net.JoinHostPort(host, port)
	wire, err := x.Dial(ctx, "tcp", address)
	if err != nil {
		return found(Problem, "Check the name and its addresses in the DNS, and that the proxy runs; "+
			"run cairn doctor elsewhere if only this machine cannot reach it.",
			"%s cannot be reached: %v.", address, err)
	}
	defer func() { _ = wire.Close() }()
	// The chain is verified below, to report what is wrong with it and how long it is valid.
	conn := tls.Client(wire, &tls.Config{
		ServerName: host, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: true, // #nosec G402 -- verified below
	})
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return found(Problem, "Make the proxy speak TLS 1.2 or 1.3 at this address.",
			"%s does not speak TLS: %v.", address, err)
	}
	certs := conn.ConnectionState().PeerCertificates
	rest := x509.NewCertPool()
	for _, c := range certs[1:] {
		rest.AddCert(c)
	}
	chains, err := certs[0].Verify(x509.VerifyOptions{
		DNSName: host, Roots: x.RootCAs, Intermediates: rest, CurrentTime: x.Now(),
	})
	if err != nil {
		do := "Give the proxy a certificate for " + host +
			" with the whole chain, from an authority that browsers trust."
		if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is && invalid.Reason == x509.Expired {
			do = renew
			if x.Now().Before(certs[0].NotBefore) {
				do = "Set the clock of this machine by NTP (timedatectl set-ntp true): the certificate is not valid " +
					"yet."
			}
		}
		return found(Problem, do, "Browsers refuse the certificate of %s: %v.", address, err)
	}
	var end time.Time // of the chain that is valid longest; the root does not count
	for _, chain := range chains {
		first := chain[0].NotAfter
		for _, c := range chain[:max(1, len(chain)-1)] {
			if c.NotAfter.Before(first) {
				first = c.NotAfter
			}
		}
		if first.After(end) {
			end = first
		}
	}
	days := int(end.Sub(x.Now()).Hours() / 24)
	until := end.UTC().Format(time.RFC3339)
	text := fmt.Sprintf("The certificate of %s is valid for %d days, until %s.", address, days, until)
	switch {
	case days < problemDays:
		return found(Problem, renew, "%s", text)
	case days < warningDays:
		return found(Warning, renew, "%s", text)
	}
	return ok("%s", text)
}

func publicAddress(ctx context.Context, x *examination) Finding {
	seen, err := httpd.AskSeen(ctx, x.client, x.checked.IssuerString, x.secret, http.Header{"Cookie": {"doctor=1"}})
	if errors.Is(err, httpd.ErrOtherService) {
		if f, is := otherAnswer(ctx, x); is {
			return f
		}
	}
	switch {
	case errors.Is(err, httpd.ErrOtherService) && x.publishesOurKey(ctx):
		return found(Problem, "Let the proxy pass on requests to "+x.checked.Issuer.Path+"/doctor, which are answered "+
			"to cairn doctor alone, with their query and headers, and cache nothing.",
			"%s has the key of this installation, but the proxy does not pass /doctor on: %v.",
			x.checked.IssuerString, err)
	case errors.Is(err, httpd.ErrOtherService):
		return found(Problem, "Point the name and the proxy at this service, write the address of the service into "+
			"--issuer (SERVICE_OIDC_ISSUER), and restart a service of an earlier version.",
			"%s: %v.", x.checked.IssuerString, err)
	case err != nil:
		return found(Problem, "Start the service, and check the name in the DNS, the certificate "+
			"and where the proxy sends requests.", "%s cannot be reached: %v.", x.checked.IssuerString, err)
	}
	x.reached, x.seen = true, seen
	if f, is := keptBack(ctx, x); is {
		return f
	}
	return ok("%s leads to this installation.", x.checked.IssuerString)
}

// publishesOurKey reports whether the key set at the public address has the key that signs here.
func (x *examination) publishesOurKey(ctx context.Context) bool {
	_, body, err := x.ask(ctx, http.MethodGet, jwksPath, nil)
	return err == nil && len(x.keys) > 0 && x.missingKey(body) == ""
}

// leastOpenFiles is enough for a club: each browser and each application keeps a connection open.
const leastOpenFiles = 4096

func openFiles(_ context.Context, x *examination) Finding { return filesLeft(x.seen.OpenFiles) }

func filesLeft(limit uint64) Finding {
	switch {
	case limit == 0:
		return skipped("The limit of the service is not known.")
	case limit < leastOpenFiles:
		return found(Warning, "Set LimitNOFILE=65536 in the unit of the service, or ulimit -n 65536 before it starts.",
			"The service may have %d files and connections open at once: the next visitor gets no answer.", limit)
	}
	return ok("The service may have %d files and connections open at once.", limit)
}

// cache looks for a proxy that answers pages again: people would see those of others. Every answer of the
// service has another request id.
func cache(ctx context.Context, x *examination) Finding {
	for _, path := range []string{"/login/", "/account/", "/api/me", "/healthz"} {
		var ids [2]string
		for i := range ids {
			res, _, err := x.ask(ctx, http.MethodGet, path, nil)
			if err != nil {
				return unreached(err)
			}
			ids[i] = res.Header.Get("X-Request-Id")
		}
		if ids[0] != "" && ids[0] == ids[1] {
			x.cached = true
			return found(Problem, "Turn the cache of the proxy off for this name, as with proxy_cache off; in "+
				"nginx, and empty it.",
				"%s is answered from a cache: people see the pages of others.", x.checked.IssuerString+path)
		}
	}
	return ok("Pages are not answered from a cache.")
}

const discoveryPath, jwksPath = "/.well-known/openid-configuration", "/.well-known/jwks.json"

const passWellKnown = "Let the proxy pass on requests below /.well-known/, and Content-Encoding back; only " +
	"/.well-known/acme-challenge/ may be its own."

// issuer compares the issuer byte for byte, as applications do (OpenID Connect Discovery section 4.3).
func issuer(ctx context.Context, x *examination) Finding {
	const do = "Restart cairn serve with the issuer of these settings, and let no proxy rewrite answers."
	res, body, err := x.ask(ctx, http.MethodGet, discoveryPath, nil)
	if err != nil {
		return unreached(err)
	}
	var document map[string]any
	if err := json.Unmarshal(body, &document); res.StatusCode != http.StatusOK || err != nil {
		return found(Problem, passWellKnown, "The discovery document cannot be read: %s.", res.Status)
	}
	if document["issuer"] != x.checked.IssuerString {
		return found(Problem, do, "The discovery document at %s names the issuer %q: applications refuse it.",
			x.checked.IssuerString, document["issuer"])
	}
	for _, name := range slices.Sorted(maps.Keys(document)) {
		address, is := document[name].(string)
		if is && !strings.HasPrefix(address, x.checked.IssuerString) {
			return found(Problem, do, "In the discovery document %s is %q, which is not below the issuer.",
				name, address)
		}
	}
	if client, base, err := atListener(x.checked); err == nil {
		own, text, err := x.askWith(ctx, client, http.MethodGet, base+discoveryPath, nil)
		if err == nil && own.StatusCode == http.StatusOK && !bytes.Equal(text, body) {
			return found(Warning, "Let no proxy rewrite answers (no sub_filter in nginx); if this is another "+
				"instance, restart it with these settings.", "The discovery document at %s is not what the service "+
				"answers at --listen.", x.checked.IssuerString)
		}
	}
	return ok("The discovery document names the issuer %s.", x.checked.IssuerString)
}

const (
	wrongClock = 5 * time.Minute
	looseClock = 30 * time.Second
)

// clock compares the clock with Date (RFC 9110 section 6.6.1), which the server nearest to browsers
// writes.
func clock(ctx context.Context, x *examination) Finding {
	if x.cached {
		return skipped("A cache answers, with times of its own: see cache.")
	}
	before := x.Now()
	if ahead := x.health.Newest.Sub(before); ahead > wrongClock {
		return found(Warning, setClock+" If it was wrong then, it is right now: sessions of that time last longer, "+
			"and this finding goes away with time.",
			"The newest entry of the audit log is %s ahead of this machine's clock.", ahead.Round(time.Minute))
	}
	res, _, err := x.ask(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return unreached(err)
	}
	at, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return skipped("The answers have no Date.")
	}
	after := x.Now()
	// Date was written between the two, and has whole seconds.
	off := max(0, before.Truncate(time.Second).Sub(at), at.Sub(after))
	text := fmt.Sprintf("The clocks of this machine and of the public address differ by %s", off.Round(time.Second))
	const do = "Set both by NTP: timedatectl set-ntp true. Applications whose clock differs refuse tokens."
	switch {
	case off > wrongClock:
		return found(Problem, do, "%s.", text)
	case off > looseClock:
		return found(Warning, do, "%s.", text)
	}
	return ok("%s.", text)
}

func httpsRedirect(ctx context.Context, x *examination) Finding {
	host := x.checked.Issuer.Hostname()
	if port := x.checked.Issuer.Port(); port != "" {
		return skipped("The issuer names the port %s: the port of plain http is not known.", port)
	}
	name := host
	if strings.Contains(host, ":") {
		name = "[" + host + "]"
	}
	address := "http://" + name + x.checked.Issuer.Path + "/login/"
	res, _, err := x.askURL(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ok("Nothing answers at %s.", address)
	}
	target := res.Header.Get("Location")
	toHTTPS := target == "https://"+name || strings.HasPrefix(target, "https://"+name+"/")
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400 && toHTTPS:
		return ok("%s leads to https.", address)
	case res.StatusCode >= 400:
		return ok("%s is refused: %s.", address, res.Status)
	}
	return found(Warning, "Let the proxy answer plain http only with a redirect (301 or 308) "+
		"to the same address with https.", "%s answers %s and does not lead to https.", address, res.Status)
}

const leastHSTS = 180 * 24 * 3600 // seconds

func hsts(ctx context.Context, x *examination) Finding {
	const do = "Let the proxy pass on the header Strict-Transport-Security of the service."
	res, _, err := x.ask(ctx, http.MethodGet, "/login/", nil)
	if err != nil {
		return unreached(err)
	}
	value := res.Header.Get("Strict-Transport-Security")
	for directive := range strings.SplitSeq(value, ";") {
		name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
		n, err := strconv.ParseInt(strings.Trim(seconds, `"`), 10, 64)
		if strings.EqualFold(name, "max-age") && err == nil && n >= leastHSTS {
			return ok("Browsers are told to use https: %s.", value)
		}
	}
	return found(Warning, do, "Browsers are not told to use https for at least half a year: "+
		"Strict-Transport-Security is %q.", value)
}

// sessionCookie checks the attributes of the cookies. It signs nobody out: without a session the
// service only clears the cookies, with the attributes with which it sets them.
func sessionCookie(ctx context.Context, x *examination) Finding {
	const do = "Let the proxy pass Set-Cookie on unchanged: without proxy_cookie_path, proxy_cookie_domain, " +
		"proxy_cookie_flags and the like."
	res, _, err := x.ask(ctx, http.MethodPost, "/api/auth/logout", nil)
	if err != nil {
		return unreached(err)
	}
	if res.StatusCode != http.StatusOK {
		return found(Problem, "Let the proxy pass on POST requests to /api/.",
			"Signing out without a session answers %s.", res.Status)
	}
	if x.seen.NoCookie {
		return found(Problem, "Let the proxy pass Cookie on unchanged.",
			"Cookies of browsers do not arrive at the service: nobody can sign in.")
	}
	domains := map[string]string{x.checked.CookieName: x.checked.CookieDomain, x.checked.LoginCookieName: ""}
	for name, domain := range domains {
		if name == "" {
			continue
		}
		i := slices.IndexFunc(res.Cookies(), func(c *http.Cookie) bool { return c.Name == name })
		if i < 0 {
			return found(Problem, do, "The cookie %s does not arrive: nobody can sign in.", name)
		}
		if wrong := cookieFault(res.Cookies()[i], domain, x.checked.HTTPS); wrong != "" {
			return found(Problem, do, "The cookie %s %s.", name, wrong)
		}
	}
	return ok("The cookie %s has the attributes that it should.", x.checked.CookieName)
}

// cookieFault returns what is wrong with a cookie, or "". domain is the domain that it should have.
func cookieFault(c *http.Cookie, domain string, https bool) string {
	suffix, _ := publicsuffix.PublicSuffix(c.Domain)
	switch {
	case https && !c.Secure:
		return "has lost Secure: it goes over plain http, and browsers refuse the name"
	case !c.HttpOnly:
		return "has lost HttpOnly: scripts can read it"
	case c.SameSite != http.SameSiteLaxMode && c.SameSite != http.SameSiteStrictMode:
		return "has lost SameSite: other sites' pages send it"
	case c.Path != "/":
		return fmt.Sprintf("has the path %q: browsers refuse the name, or do not send it everywhere", c.Path)
	case c.Domain != "" && c.Domain == suffix:
		return fmt.Sprintf("has the domain %q, a public suffix: browsers refuse it", c.Domain)
	case c.Domain != domain:
		return fmt.Sprintf("has the domain %q, and the setting is %q", c.Domain, domain)
	}
	return ""
}

// cacheFault returns what is wrong with the headers of a public document for a cache or a verifier,
// or "".
func (x *examination) cacheFault(ctx context.Context, path string, res *http.Response, want string) (string, error) {
	tag := res.Header.Get("ETag")
	switch {
	case !strings.Contains(res.Header.Get("Cache-Control"), want):
		return fmt.Sprintf("Cache-Control is %q and lacks %s", res.Header.Get("Cache-Control"), want), nil
	case tag == "":
		return "it has no ETag", nil
	}
	again, _, err := x.ask(ctx, http.MethodGet, path, http.Header{"If-None-Match": {tag}})
	if err == nil && again.StatusCode != http.StatusNotModified {
		return fmt.Sprintf("a request with If-None-Match is answered with %s", again.Status), nil
	}
	return "", err
}

const passHeaders = "Let the proxy pass ETag, Cache-Control, If-None-Match and Prefer on unchanged, and cache nothing."

// keySet compares the published keys, with which other applications verify, with the keys of the files.
func keySet(ctx context.Context, x *examination) Finding {
	address := x.checked.IssuerString + jwksPath
	res, body, err := x.ask(ctx, http.MethodGet, jwksPath, nil)
	if err != nil {
		return unreached(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(body, &set); res.StatusCode != http.StatusOK || err != nil {
		return found(Problem, passWellKnown, "%s is not a key set: %s.", address, res.Status)
	}
	missing, own := x.missingKey(body), x.keySetAtListener(ctx)
	differ, err := x.keySetsDiffer(ctx, body)
	switch {
	case err != nil:
		return unreached(err)
	case differ:
		return found(Problem, "Give every instance the same private-key-file and additional-key-file, and restart "+
			"those that have others: half of all tokens are refused.",
			"%s answers different key sets in turn: instances with different keys are behind this name.", address)
	case own != nil && !bytes.Equal(own, body):
		return found(Problem, "Turn the cache of the proxy off for this name and empty it; "+
			"if this is another instance, restart every one with these keys.",
			"%s is not what the service answers at --listen: applications do not see a change of the keys.", address)
	case missing != "":
		return found(Problem, "Restart cairn serve, every instance of it, with these keys; name the key that signed "+
			"until now in additional-key-file first, or everybody is signed out (docs/keys.md).",
			"%s does not have the key %s of the settings.", address, missing)
	}
	wrong, err := x.cacheFault(ctx, jwksPath, res, "max-age")
	if err != nil {
		return unreached(err)
	}
	if wrong == "" {
		wrong = cachedLong(res.Header.Values("Cache-Control"))
	}
	if wrong != "" {
		return found(Warning, passHeaders, "%s: %s.", address, wrong)
	}
	return ok("%s has every key of the settings.", address)
}

// keySetAsks is how often the key set is asked for: of two instances in turn, each answers.
const keySetAsks = 6

// keySetsDiffer reports whether the public address has another key set at another time, each on a connection of its
// own.
func (x *examination) keySetsDiffer(ctx context.Context, first []byte) (bool, error) {
	t := x.transport.Clone()
	t.DisableKeepAlives = true
	client := &http.Client{Transport: t, Timeout: requestTimeout, CheckRedirect: noRedirect}
	for range keySetAsks {
		res, body, err := x.askWith(ctx, client, http.MethodGet, x.checked.IssuerString+jwksPath, nil)
		if err != nil {
			return false, err
		}
		if res.StatusCode == http.StatusOK && !bytes.Equal(body, first) {
			return true, nil
		}
	}
	return false, nil
}

// longestCached is how long a key set may be cached, in seconds: the service says 300.
const longestCached = 3600

// cachedLong returns what is wrong with a lifetime in caches, or "".
func cachedLong(control []string) string {
	for directive := range strings.SplitSeq(strings.Join(control, ","), ",") {
		name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
		n, err := strconv.ParseInt(strings.Trim(seconds, `"`), 10, 64)
		lifetime := strings.EqualFold(name, "max-age") || strings.EqualFold(name, "s-maxage")
		if lifetime && (err != nil || n > longestCached) {
			return fmt.Sprintf("%s lets caches keep it for more than an hour, so applications do not see a new key",
				strings.TrimSpace(directive))
		}
	}
	return ""
}

// missingKey returns the id of the first key of the settings that a key set lacks, or "".
func (x *examination) missingKey(body []byte) string {
	var set jose.JSONWebKeySet
	_ = json.Unmarshal(body, &set) // then it has none
	for _, key := range x.keys {
		ours, _ := key.Public().Key.(interface{ Equal(crypto.PublicKey) bool }) // as in the standard library
		if !slices.ContainsFunc(set.Key(key.KeyID), func(k jose.JSONWebKey) bool { return ours.Equal(k.Key) }) {
			return key.KeyID
		}
	}
	return ""
}

// keySetAtListener returns the key set without the proxy, nil if it cannot be read there.
func (x *examination) keySetAtListener(ctx context.Context) []byte {
	client, base, err := atListener(x.checked)
	if err != nil {
		return nil
	}
	res, body, err := x.askWith(ctx, client, http.MethodGet, base+jwksPath, nil)
	var set jose.JSONWebKeySet
	if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(body, &set) != nil || len(set.Keys) == 0 {
		return nil
	}
	return body
}

func statusList(ctx context.Context, x *examination) Finding {
	versions, err := x.store.StatusVersions(ctx)
	if err != nil {
		return unreadable(err)
	}
	if len(versions) == 0 {
		return skipped("There is no status list before somebody has signed in.")
	}
	path := "/oauth2/status/" + strconv.Itoa(slices.Max(slices.Collect(maps.Keys(versions))))
	address := x.checked.IssuerString + path
	res, body, err := x.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return unreached(err)
	}
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	isJWT := media == "application/statuslist+jwt" && bytes.Count(body, []byte(".")) == 2
	if res.StatusCode != http.StatusOK || !isJWT {
		return found(Problem, "Let the proxy pass on requests below /oauth2/status/.",
			"%s is not a status list: %s.", address, res.Status)
	}
	wrong, err := x.cacheFault(ctx, path, res, "no-cache")
	if err == nil && wrong == "" {
		return x.heldRequest(ctx, path, res.Header.Get("ETag"))
	}
	if err != nil {
		return unreached(err)
	}
	if wrong != "" {
		return found(Warning, passHeaders, "%s: %s.", address, wrong)
	}
	return ok("%s can be read.", address)
}

// heldRequest asks for a change of a status list and waits as long as applications do.
func (x *examination) heldRequest(ctx context.Context, path, tag string) Finding {
	address, hold := x.checked.IssuerString+path, cmp.Or(x.Hold, longestHold)
	client := *x.client
	client.Timeout = hold + requestTimeout
	header := http.Header{
		"If-None-Match": {tag}, "Prefer": {"wait=" + strconv.Itoa(int(hold.Seconds()))},
	}
	began := time.Now()
	res, _, err := x.askWith(ctx, &client, http.MethodGet, address, header)
	waited := time.Since(began)
	ended := err != nil || res.StatusCode >= http.StatusInternalServerError && res.Header.Get(requestID) == ""
	switch {
	case errors.Is(err, errTooMany):
		return unreached(err)
	case ended && waited > hold/4:
		return found(Warning, "Let the proxy wait for an answer for a minute: proxy_read_timeout 60s; in nginx, "+
			"timeout server 60s in HAProxy.", "%s: a request that waits %s for changes was ended after %s, so "+
			"applications learn of revoked sessions later.", address, hold, waited.Round(100*time.Millisecond))
	case err != nil:
		return unreached(err)
	case res.Header.Get("Preference-Applied") == "":
		return found(Warning, passHeaders, "%s: a request with Prefer: wait is not held, so applications learn of "+
			"revoked sessions later.", address)
	}
	return ok("%s can be read, and requests that wait for changes are held.", address)
}

// longestHold is how long the service holds a request for changes of a status list.
const longestHold = 25 * time.Second

// requestID is a header of every answer of the service. A proxy that answers itself has none.
const requestID = "X-Request-Id"

// errTooMany is the error for a request that a limit of the service refused.
var errTooMany = errors.New("429 Too Many Requests")
