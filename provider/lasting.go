package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
)

// lasting is a set of the ways in which access outlives the session that gives it. Whoever gets
// hold of a session must not make it last: it needs a fresh proof, once for each client, and a request
// that must not show a page gets what does not last.
type lasting uint8

const (
	lastsOffline lasting = 1 << iota // offline_access
	lastsOnDevice
	lastsLonger // the access token lives longer than AccessTokenLifetime
)

var lastingNames = map[lasting]string{
	lastsOffline: "offline_access", lastsOnDevice: "a device", lastsLonger: "an access token of more than an hour",
}

// String names the ways, for explain.
func (l lasting) String() string {
	var names []string
	for _, way := range []lasting{lastsOffline, lastsOnDevice, lastsLonger} {
		if l&way != 0 {
			names = append(names, lastingNames[way])
		}
	}
	return strings.Join(names, ", ")
}

// lastingOf returns the ways in which a grant lasts. Only that of a device has no redirect URI.
func lastingOf(c *Client, scopes, resources []string, redirectURI string, list apis) (l lasting) {
	if slices.Contains(scopes, "offline_access") {
		l |= lastsOffline
	}
	if redirectURI == "" {
		l |= lastsOnDevice
	}
	if len(resources) == 0 && c.AccessLifetime > AccessTokenLifetime {
		l |= lastsLonger
	}
	for _, a := range list {
		if a.Lifetime > AccessTokenLifetime && slices.Contains(resources, a.URI) {
			l |= lastsLonger
		}
	}
	return l
}

// readLasting adds to the state what the grant would last by, and what of it the session has not been given for the
// client. A session with a fresh proof may have all of it, so nothing is read then.
func (rs *rules) readLasting(ctx context.Context, q *authzState) error {
	q.lasts = lastingOf(q.client, q.granted, q.resources, q.redirectURI, q.apis)
	if q.newLasting = q.lasts; q.identity == nil || !q.needsProof() {
		return nil
	}
	living, err := rs.storage.LivingGrants(ctx, q.identity.User.Sub, q.identity.Session.ID, q.client.ID, rs.now())
	if err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	for _, g := range living {
		lasts := lastingOf(q.client, g.Scopes, g.Resources, g.RedirectURI, q.apis)
		if !g.Longer { // the lifetimes were shorter when it was made
			lasts &^= lastsLonger
		}
		q.newLasting &^= lasts
	}
	if q.newLasting&lastsOffline != 0 && slices.Contains(q.prompts, "none") {
		const offline = "offline_access"
		isOffline := func(s string) bool { return s == offline }
		q.granted = slices.DeleteFunc(slices.Clone(q.granted), isOffline)
		q.agreed = slices.DeleteFunc(slices.Clone(q.agreed), isOffline)
		q.lasts, q.newLasting = q.lasts&^lastsOffline, q.newLasting&^lastsOffline
	}
	return nil
}

// needsProof reports whether the grant would last in a way that needs a fresh proof, and the session
// has none.
func (q authzState) needsProof() bool {
	return q.newLasting != 0 && !account.Caller{}.In(q.identity.User, q.identity.Session).Fresh(q.now)
}
