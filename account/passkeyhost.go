package account

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account/web"
)

// PasskeyHosts returns the relying party ids of passkeys that browsers use at an issuer: its host and
// the parents of that (Web Authentication Level 3 section 4, RP ID).
func PasskeyHosts(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	hosts := []string{u.Hostname()}
	for host := u.Hostname(); ; {
		_, parent, found := strings.Cut(host, ".")
		if !found {
			return hosts
		}
		hosts, host = append(hosts, parent), parent
	}
}

// PasskeysElsewhere counts the passkeys that belong to other hosts than the issuer's, which no
// browser offers here.
type PasskeysElsewhere struct {
	Passkeys, Members int
	// LockedOut members have no password and no other passkey: only a recovery code lets them in.
	LockedOut int
}

// String returns a sentence without its full stop, or "" if there are none.
func (p PasskeysElsewhere) String() string {
	if p.Passkeys == 0 {
		return ""
	}
	out := fmt.Sprintf("%d passkeys of %d members belong to another host", p.Passkeys, p.Members)
	if p.LockedOut > 0 {
		out += fmt.Sprintf("; %d of these members have no other way in than a recovery code", p.LockedOut)
	}
	return out
}

// CheckPasskeys notes the host of passkeys that an earlier version added, which was that of the
// issuer, and returns those of other hosts.
func (s *Service) CheckPasskeys(ctx context.Context) (PasskeysElsewhere, error) {
	if s.passkeys.party != nil {
		if err := s.store.StampPasskeys(ctx, s.passkeys.hosts[0]); err != nil {
			return PasskeysElsewhere{}, err
		}
	}
	return s.store.PasskeysElsewhere(ctx, s.passkeys.hosts)
}

// usable reports whether browsers use passkeys of the relying party id here.
func (p passkeys) usable(rpID string) bool {
	return p.party != nil && slices.Contains(p.hosts, cmp.Or(rpID, p.hosts[0]))
}

// rpID returns the relying party id of a passkey.
func (p passkeys) rpID(k Passkey) string { return cmp.Or(k.RPID, p.hosts[0]) }

// UsablePasskeys returns those of the keys that browsers use here.
func (s *Service) UsablePasskeys(keys []Passkey) []Passkey {
	return slices.DeleteFunc(slices.Clone(keys), func(k Passkey) bool { return !s.passkeys.usable(k.RPID) })
}

// OlderPasskeys returns the relying party id of passkeys from before passkey-host was set or changed,
// or "" if there are none. A browser asks for the passkeys of one id at a time.
func (s *Service) OlderPasskeys(ctx context.Context) (string, error) {
	if s.passkeys.party == nil {
		return "", nil
	}
	return s.olderHost.Get(ctx, "")
}

// PasskeyOrigins returns the other origins whose pages may use the passkeys (Web Authentication Level 3
// section 5.11).
func (s *Service) PasskeyOrigins() []string { return s.passkeys.origins }

// NoPasskeys returns why none of the user's passkeys works here, or nil.
func (s *Service) NoPasskeys(f Factors) *web.Problem {
	switch {
	case f.Passkeys == 0 || s.usableCount(f) > 0:
		return nil
	case s.passkeys.party == nil:
		return s.passkeys.unavailable
	}
	return ErrPasskeysUnavailable.With("Your passkeys were made for another address of this service. Use a recovery " +
		"code, or ask an administrator, then add a passkey here.")
}

func (s *Service) usableCount(f Factors) (n int) {
	for _, host := range f.PasskeyHosts {
		if s.passkeys.usable(host) {
			n++
		}
	}
	return n
}
