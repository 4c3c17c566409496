package account

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Passkey is a WebAuthn credential of a user.
type Passkey struct {
	ID             []byte // credential id, at most 1023 bytes (Web Authentication Level 3 section 5.8.3)
	Sub            string
	RPID           string // relying party id; empty: the host of the issuer, see PasskeyStore
	Name           string
	PublicKey      []byte // COSE
	AAGUID         []byte // of the model of the authenticator
	Transports     []string
	Attachment     string // platform, cross-platform or empty
	SignCount      uint32
	BackupEligible bool // may be copied to other devices
	BackupState    bool // has been
	CreatedAt      time.Time
	LastUsedAt     time.Time // zero: never
}

// MaxPasskeys is how many passkeys a user has at most.
const MaxPasskeys = 20

// PurposePasskey is the purpose of sealed challenges. PasskeyTime is their lifetime, the usual default of
// browsers.
const (
	PurposePasskey = "passkey"
	PasskeyTime    = 5 * time.Minute
)

func (k Passkey) ShownID() string { return base64.RawURLEncoding.EncodeToString(k.ID) }

// Method returns the authentication method (RFC 8176) of the passkey.
func (k Passkey) Method() string {
	if k.BackupEligible {
		return MethodSoftwareKey
	}
	return MethodHardwareKey
}

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

// PasskeyStore keeps passkeys.
type PasskeyStore interface {
	// Passkeys lists those of a user, oldest first, never nil.
	Passkeys(ctx context.Context, sub string) ([]Passkey, error)
	// Passkey returns a passkey by its credential id, with its user. ErrPasskeyNotFound.
	Passkey(ctx context.Context, id []byte) (Passkey, User, error)
	// StampPasskeys sets the relying party id of passkeys that have none.
	StampPasskeys(ctx context.Context, rpID string) error
	// PasskeysElsewhere counts the passkeys of other relying party ids than the given ones.
	PasskeysElsewhere(ctx context.Context, rpIDs []string) (PasskeysElsewhere, error)
	// OlderPasskeyHost returns that of the relying party ids, besides the present one, which most
	// passkeys have, or "".
	OlderPasskeyHost(ctx context.Context, rpIDs []string, present string) (string, error)
	// AddPasskey adds p and reports whether it is the first factor: see NewFactor. ErrPasskeyExists, ErrPasskeyLimit
	// when the user has limit.
	AddPasskey(ctx context.Context, p Passkey, limit int, n NewFactor) (first bool, err error)
	// RenamePasskey renames a passkey of the user. ErrPasskeyNotFound.
	RenamePasskey(ctx context.Context, sub string, id []byte, name string, a Audit) error
	// RemovePasskey removes a passkey of the user: see OldFactor. ErrPasskeyNotFound.
	RemovePasskey(ctx context.Context, sub string, id []byte, o OldFactor) error
	// UsePasskey stores SignCount, BackupState and LastUsedAt of p. If the count is not higher than
	// the stored one, and not both are zero, it writes the audit row and returns true.
	// ErrPasskeyNotFound.
	UsePasskey(ctx context.Context, p Passkey, a Audit) (wentBack bool, err error)
}

// FirstPasskey is the passkey with which somebody joins, in the place of a password.
type FirstPasskey struct {
	Passkey Passkey
	Codes   []RecoveryCode

	Shown []string // the codes
}
