package roster

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
)

// Initialize sets up an empty store: the settings, new secrets, and the first
// administrator, who may have any handle and has every flag.
func Initialize(
	ctx context.Context, st account.Store, h *password.Hasher, settings account.Settings, first account.NewUser,
	now time.Time,
) (account.User, error) {
	settings.NextSteps = true
	first.AnyHandle, first.Flags, first.Language = true, slices.Clone(settings.Flags), settings.Language
	u, err := account.CreateUser(ctx, h, settings, first, now)
	if err != nil {
		return account.User{}, err
	}
	secrets := map[string][]byte{
		account.SecretInstallation: randomBytes(48),
		// Text, because it goes into an environment file.
		account.SecretJWT: []byte(base64.RawURLEncoding.EncodeToString(randomBytes(48))),
	}
	if _, err := st.Initialize(ctx, settings, secrets); err != nil {
		return account.User{}, fmt.Errorf("store settings and secrets: %w", err)
	}
	if err := st.CreateUser(ctx, u,
		account.Operator().Audit(u.CreatedAt, account.AddUser, u.Handle, "first administrator")); err != nil {
		return account.User{}, fmt.Errorf("create the administrator: %w", err)
	}
	return u, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}
