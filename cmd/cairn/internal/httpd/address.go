package httpd

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// clientAddress returns the address of the peer, or, if the peer is a trusted proxy, the last
// address in X-Forwarded-For that is not a trusted proxy: strangers wrote everything left of it.
func clientAddress(r *http.Request, proxies []netip.Prefix) (addr netip.Addr, trusted bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	addr = peer.Addr().Unmap().WithZone("")
	isProxy := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if !isProxy(addr) {
		return addr, false
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		a, ok := hopAddress(strings.TrimSpace(hop))
		if !ok {
			break
		}
		addr = a
		if !isProxy(addr) {
			break
		}
	}
	return addr, true
}

// hopAddress parses an address in X-Forwarded-For, to which some proxies add a port:
// 192.0.2.1, 192.0.2.1:5555, 2001:db8::1, [2001:db8::1] or [2001:db8::1]:5555.
func hopAddress(hop string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(hop); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(hop, "["); ok {
		hop, _ = strings.CutSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(hop)
	return a.Unmap().WithZone(""), err == nil
}
