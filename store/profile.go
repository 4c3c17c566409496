package store

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-id/cairn/account"
)

// profileText is how a profile is stored: JSON, nothing for an empty one.
func profileText(p account.Profile) (string, error) {
	if p == (account.Profile{}) {
		return "", nil
	}
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode profile: %w", err)
	}
	return string(b), nil
}
