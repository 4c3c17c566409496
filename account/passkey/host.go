package passkey

import (
	"cmp"
	"context"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// CheckPasskeys notes the host of passkeys that an earlier version added, which was that of the
// issuer, and returns those of other hosts.
func (s *Service) CheckPasskeys(ctx context.Context) (account.PasskeysElsewhere, error) {
	if s.party != nil {
		if err := s.accounts.Store().StampPasskeys(ctx, s.hosts[0]); err != nil {
			return account.PasskeysElsewhere{}, err
		}
	}
	return s.accounts.Store().PasskeysElsewhere(ctx, s.hosts)
}

// rpID returns the relying party id of a passkey.
func (p Party) rpID(k account.Passkey) string { return cmp.Or(k.RPID, p.hosts[0]) }

// UsablePasskeys returns those of the keys that browsers use here.
func (s *Service) UsablePasskeys(keys []account.Passkey) []account.Passkey {
	return slices.DeleteFunc(slices.Clone(keys), func(k account.Passkey) bool {
		return !s.accounts.PasskeyUsable(k.RPID)
	})
}

// OlderPasskeys returns the relying party id of passkeys from before passkey-host was set or changed,
// or "" if there are none. A browser asks for the passkeys of one id at a time.
func (s *Service) OlderPasskeys(ctx context.Context) (string, error) {
	if s.party == nil {
		return "", nil
	}
	return s.olderHost.Get(ctx, "")
}

// PasskeyOrigins returns the other origins whose pages may use the passkeys (Web Authentication Level 3
// section 5.11).
func (s *Service) PasskeyOrigins() []string { return s.origins }

// NoPasskeys returns why none of the user's passkeys works here, or nil.
func (s *Service) NoPasskeys(f account.Factors) *web.Problem {
	switch {
	case f.Passkeys == 0 || s.accounts.CountUsablePasskeys(f) > 0:
		return nil
	case s.party == nil:
		return s.unavailable
	}
	return account.ErrPasskeysUnavailable.With("Your passkeys are for another address of this service. Use a " +
		"recovery code or ask an administrator, then add a passkey here.")
}
