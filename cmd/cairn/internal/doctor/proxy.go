package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/cairn-id/cairn/cmd/cairn/internal/httpd"
)

// forged is what a visitor could write into X-Forwarded-For (RFC 5737 section 3).
var forged = netip.MustParseAddr("192.0.2.66")

// visitorAddress asks the service for whom it takes the sender of a request that lies about its address.
func visitorAddress(ctx context.Context, x *examination) Finding {
	seen, err := httpd.AskSeen(ctx, x.client, x.checked.IssuerString, x.secret, http.Header{"X-Forwarded-For": {forged.String()}})
	if err != nil {
		return unreached(err)
	}
	return judgeAddress(seen, x.checked.HTTPS && x.checked.TLS == nil, isOwn)
}

// isOwn tells whether an address is of this machine.
func isOwn(a netip.Addr) bool {
	addresses, _ := net.InterfaceAddrs()
	return a.IsLoopback() || slices.ContainsFunc(addresses, func(own net.Addr) bool {
		p, err := netip.ParsePrefix(own.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}

// judgeAddress is told by proxied that nobody but a proxy can have sent the request on.
func judgeAddress(seen httpd.Seen, proxied bool, own func(netip.Addr) bool) Finding {
	const (
		appends = "Let the proxy append or set the visitor's address: proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; in nginx."
		names   = "Write the address of the proxy into trusted-proxy in cairn.yaml and restart cairn serve."
	)
	hops := seen.ForwardedFor
	// What follows the forged address was written by proxies, the first of it by the one that the visitor reached.
	written := hops
	if i := slices.Index(hops, forged.String()); i >= 0 {
		written = hops[i+1:]
	}
	said := fmt.Sprintf("The service takes this request, which comes from %s with X-Forwarded-For %q, for one of %s", seen.Peer, hops, seen.Client)
	switch {
	case !seen.Trusted && (proxied || len(written) > 0):
		return found(Problem, names, "%s: all visitors have the address of the proxy, and one who guesses passwords locks everybody out.", said)
	case !seen.Trusted:
		return ok("%s: what a visitor writes does not count.", said)
	case len(hops) == 0:
		return found(Problem, appends, "%s: the proxy hands on no address, and all visitors have its own.", said)
	case len(written) == 0:
		return found(Problem, appends, "%s: the proxy hands on what a visitor writes, and every visitor chooses the address that the limits count.", said)
	}
	visitor, err := netip.ParseAddr(trimPort(written[0]))
	visitor = visitor.Unmap()
	switch {
	case err != nil:
		return found(Problem, appends, "%s: the proxy wrote %q, which is no address.", said, written[0])
	case seen.Client == visitor:
		return ok("%s: what a visitor writes does not count.", said)
	case seen.Client != forged:
		return found(Warning, "Write the addresses of the first proxy too into trusted-proxy in cairn.yaml and restart cairn serve.",
			"%s: the proxy nearest to the visitor saw %s, and the one after it is not trusted.", said, visitor)
	case own(visitor):
		return ok("The proxy writes %s, an address of this machine, which trusted-proxy covers: visitors from elsewhere count by their own.", visitor)
	}
	return found(Warning, "Narrow trusted-proxy in cairn.yaml to the proxies, and see in the log which address a visitor from outside has.",
		"%s: trusted-proxy covers %s, which the proxy takes for the visitor's, and who comes from there chooses the address that the limits count.", said, visitor)
}

func trimPort(hop string) string {
	if host, _, err := net.SplitHostPort(hop); err == nil {
		return host
	}
	return hop
}

// forwardedHeaders sees that what a visitor writes about host and scheme changes nothing: a proxy or cache in between may
// believe what the service ignores.
func forwardedHeaders(ctx context.Context, x *examination) Finding {
	const foreign = "doctor.invalid"
	lies := http.Header{"X-Forwarded-Host": {foreign}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Port": {"1"}, "Forwarded": {"host=" + foreign + ";proto=http"}, "X-Original-Host": {foreign}}
	for _, path := range []string{"/", "/login/", discoveryPath} {
		plain, body, err := x.ask(ctx, http.MethodGet, path, nil)
		if err != nil {
			return unreached(err)
		}
		lied, other, err := x.ask(ctx, http.MethodGet, path, lies)
		if err != nil {
			return unreached(err)
		}
		if lied.StatusCode != plain.StatusCode || lied.Header.Get("Location") != plain.Header.Get("Location") || path == discoveryPath && len(x.keys) > 0 && string(other) != string(body) {
			return found(Problem, "Let the proxy drop or overwrite X-Forwarded-Host, X-Forwarded-Proto and Forwarded of visitors, and make no redirect of them.",
				"%s answers %s to a request with a forged X-Forwarded-Host and X-Forwarded-Proto (Location %q), and %s without (Location %q).",
				x.checked.IssuerString+path, lied.Status, lied.Header.Get("Location"), plain.Status, plain.Header.Get("Location"))
		}
	}
	return ok("A forged X-Forwarded-Host, X-Forwarded-Proto or Forwarded changes nothing.")
}
