package account

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/cairn-id/cairn/templates"
)

// Ways to continue a sign-in after the password.
const (
	FactorTOTP         = "totp"
	FactorPasskey      = "passkey"
	FactorRecoveryCode = "recovery_code"
)

// FactorChoice is the kind of the choice that a second step is asked, among MadeFactors.
const FactorChoice = "second_step"

// Ids of MadeFactors: FactorTOTP, RecoveryCodesID, or PasskeyIDPrefix and the id of a passkey.
const (
	RecoveryCodesID = "recovery_codes"
	PasskeyIDPrefix = "passkey:"
)

// MadeFactor is a factor or a set of recovery codes, as the lists have it from which some are removed.
type MadeFactor struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"` // FactorPasskey, FactorTOTP, FactorRecoveryCode, or FactorChoice
	Name      string    `json:"name"` // of a passkey, or empty
	CreatedAt time.Time `json:"created_at"`
}

// FactorNames returns the kinds and names of factors, each on a line, for the audit log and for mails.
func FactorNames(list []MadeFactor) string {
	var lines []string
	for _, f := range list {
		lines = append(lines, strings.TrimSpace(f.Kind+" "+f.Name))
	}
	return strings.Join(lines, "\n")
}

// factorSet has factors to remove.
type factorSet struct {
	Passkeys    [][]byte
	TOTP, Codes bool
}

// Count returns how many they are; recovery codes are one.
func (n factorSet) Count() int {
	count := len(n.Passkeys)
	for _, one := range []bool{n.TOTP, n.Codes} {
		if one {
			count++
		}
	}
	return count
}

// FactorsNamed returns the factors with these ids of MadeFactors. ErrFactorsNamed.
func FactorsNamed(ids []string) (n factorSet, err error) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		switch raw, bad := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(id, PasskeyIDPrefix)); {
		case id == FactorTOTP:
			n.TOTP = true
		case id == RecoveryCodesID:
			n.Codes = true
		case bad != nil:
			return n, ErrFactorsNamed
		default:
			n.Passkeys = append(n.Passkeys, raw)
		}
	}
	return n, nil
}

// FactorRowsOf returns the rows of factors for pages.
func FactorRowsOf(list []MadeFactor) []templates.FactorRow {
	rows := make([]templates.FactorRow, 0, len(list))
	for _, f := range list {
		rows = append(rows, templates.FactorRow{ID: f.ID, Kind: f.Kind, Name: f.Name, CreatedAt: f.CreatedAt})
	}
	return rows
}

// FactorStore keeps second factors. User.SecondFactor is the choice of a second step, which is off without an
// authenticator app and a passkey. Recovery codes are created and deleted with it.
type FactorStore interface {
	// Factors returns the second factors of a user.
	Factors(ctx context.Context, sub string) (Factors, error)
	// RecentFactors lists the factors that NamedFactors may select, oldest first, never nil. keep is the session of the
	// request.
	RecentFactors(ctx context.Context, sub, keep string, now time.Time) ([]MadeFactor, error)
	// HasPasskey reports whether a user has a passkey of one of the relying party ids.
	HasPasskey(ctx context.Context, sub string, rpIDs []string) (bool, error)
	// SetSecondStep sets User.SecondFactor: see NewFactor. ErrNoStep without a factor, or without a password;
	// ErrStepOfApp while there is an authenticator app. ErrReauthenticationRequired as for NewFactor, and if the
	// session has proven no factor, or another request was first.
	SetSecondStep(ctx context.Context, sub string, on bool, n NewFactor) error
	// AddTOTP adds an authenticator app and reports whether it set User.SecondFactor: see NewFactor. ErrFactorExists.
	AddTOTP(ctx context.Context, sub string, t TOTP, n NewFactor) (first bool, err error)
	// UseTOTP stores the time step of a code and reports whether it was later than that of any
	// earlier code (RFC 6238 section 5.2).
	UseTOTP(ctx context.Context, sub string, step int64, now time.Time) (bool, error)
	// RemoveTOTP removes the authenticator app: see OldFactor. ErrFactorNotFound.
	RemoveTOTP(ctx context.Context, sub string, o OldFactor) error
	// ReplaceRecoveryCodes replaces the recovery codes. ErrFactorNotFound if the user has no second
	// factor. ErrReauthenticationRequired as for NewFactor.
	ReplaceRecoveryCodes(ctx context.Context, sub string, codes []RecoveryCode, now time.Time, a Audit) error
	// RecoveryCode returns the unused code of a user with the name or the hash, or the zero value, and
	// how many unused codes there are.
	RecoveryCode(ctx context.Context, sub, name string, hash []byte) (code RecoveryCode, left int, err error)
	// UseRecoveryCode spends a code by its hash, and reports whether it was valid.
	UseRecoveryCode(ctx context.Context, sub string, hash []byte, now time.Time, a Audit) (bool, error)
	// ResetFactors removes all second factors and recovery codes, ends every session and
	// revokes every grant of the user. ErrUserNotFound.
	ResetFactors(ctx context.Context, sub string, now time.Time, a Audit) error
	// SpendOnce reports whether it is the first call with the hash, before the expiry, of something
	// that may be used once.
	SpendOnce(ctx context.Context, hash []byte, expires time.Time) (bool, error)
}

// NewFactor describes how to add a second factor in one transaction. Unless WayIn is set, it sets User.SecondFactor;
// that stores the hashes of recovery codes, and Audit.Ends applies. With the first one, sessions lose
// MethodMultiFactor, because they proved another factor.
//
// ErrReauthenticationRequired if the user has chosen a second step that
// the session has not proven. ErrUserNotFound.
type NewFactor struct {
	Codes []RecoveryCode // nil: User.SecondFactor is known to be set
	// WayIn adds a passkey that leaves User.SecondFactor as it is. End ends what Audit.Ends says all the same.
	WayIn, End bool
	Now        time.Time
	Audit      Audit
}

// OldFactor describes how to remove a second factor in one transaction. The last one takes
// User.SecondFactor and the recovery codes with it. Audit.Ends applies; sessions that a removed passkey opened end in
// any case. ErrFactorDemanded if no remaining factor would satisfy Demanded. ErrLastWayIn if a user without a password
// would have no passkey. ErrReauthenticationRequired as for NewFactor.
type OldFactor struct {
	RPIDs    []string // see PasskeyHosts: a user without a password keeps a passkey of one of these
	Demanded string   // an authentication context class: "", ACRTwoFactors or ACRPhishingResistant (a passkey)
	Now      time.Time
	Audit    Audit
}

// Factors are the second factors of a user.
type Factors struct {
	TOTP          *TOTP // nil: none
	Passkeys      int
	PasskeyHosts  []string // the relying party id of each
	RecoveryCodes int      // that are left
	CodesMadeAt   time.Time
}

// TOTP is an authenticator app (RFC 6238): SHA-1, six digits, 30 seconds.
type TOTP struct {
	Secret     string // base32
	LastStep   int64  // time step of the last accepted code
	CreatedAt  time.Time
	LastUsedAt time.Time // zero: only when it was added
}

// RecoveryCode is a stored recovery code. Its first group is the name; the hash is argon2id of the
// other 60 bits, which a copy of the database must not give away. Those of earlier versions have no
// name, and the hash is SHA-256 of 80 or 130 bits.
type RecoveryCode struct {
	Name string
	Hash []byte
}
