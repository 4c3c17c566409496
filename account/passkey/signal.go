package passkey

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/templates"
)

// signal returns a signal of Web Authentication Level 3 section 5.1.10.
func signal(name string, options map[string]any) templates.Signal {
	text, _ := json.Marshal(options) // of strings alone
	return templates.Signal{Name: name, Options: string(text)}
}

func userID(u account.User) string { return base64.RawURLEncoding.EncodeToString([]byte(u.Sub)) }

// ForgetPasskey returns the signal that the device may forget a refused credential, as the browser sent
// it, unless it is stored: another request may have stored it, and one of another host is kept.
func (s *Service) ForgetPasskey(ctx context.Context, credential []byte) ([]templates.Signal, error) {
	var sent struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(credential, &sent); err != nil || s.party == nil {
		return nil, nil
	}
	id, err := passkeyID(sent.ID)
	if err != nil {
		return nil, nil
	}
	if _, _, err := s.accounts.Store().Passkey(ctx, id); !errors.Is(err, account.ErrPasskeyNotFound) {
		return nil, err
	}
	return []templates.Signal{signal("UnknownCredential",
		map[string]any{"rpId": s.party.Config.RPID, "credentialId": sent.ID})}, nil
}

// AcceptedPasskeys returns the signals that these are all passkeys of a user.
func (s *Service) AcceptedPasskeys(u account.User, keys []account.Passkey) (signals []templates.Signal) {
	if s.party == nil {
		return nil
	}
	rpIDs := []string{s.party.Config.RPID, s.hosts[0]}
	for _, k := range s.UsablePasskeys(keys) {
		rpIDs = append(rpIDs, s.rpID(k))
	}
	slices.Sort(rpIDs)
	for _, rpID := range slices.Compact(rpIDs) {
		ids := []string{}
		for _, k := range keys {
			if s.rpID(k) == rpID {
				ids = append(ids, k.ShownID())
			}
		}
		signals = append(signals, signal("AllAcceptedCredentials",
			map[string]any{"rpId": rpID, "userId": userID(u), "allAcceptedCredentialIds": ids}))
	}
	return signals
}

// PasskeyDetails returns the signal of the names that a user has now.
func (s *Service) PasskeyDetails(u account.User) []templates.Signal {
	if s.party == nil {
		return nil
	}
	return []templates.Signal{signal("CurrentUserDetails", map[string]any{"rpId": s.party.Config.RPID,
		"userId": userID(u), "name": u.Handle, "displayName": u.DisplayName})}
}
