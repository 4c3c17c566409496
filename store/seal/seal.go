// Package seal keeps values secret in the database that the service must be able to read: the secrets of
// authenticator apps, the codes of invites, and the stored secrets. With a data key they are sealed. A row of the table
// secrets records that they are and with which key, so an instance with another key, or none, writes nothing that the
// others could not read.
//
// It knows which columns these are; what is in them, and who reads it, package store says.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// keySize is the length of a data key in bytes.
const keySize = 32

// ErrKey means that sealed values cannot be read or written, because no data key is configured
// or it is the wrong one. An error that wraps it says what to do, and also wraps
// account.ErrUnavailable.
var ErrKey = errors.New("the database is sealed with a data key")

// keyError says why the data key is missing or wrong, and what to do.
type keyError struct{ why error }

func (e keyError) Error() string { return ErrKey.Error() + ": " + e.why.Error() }

// Is reports whether target is ErrKey.
func (keyError) Is(target error) bool { return target == ErrKey }

// Unwrap makes it a failure of the database for the clients of the service.
func (keyError) Unwrap() error { return account.ErrUnavailable }

var (
	errNoKey = keyError{errors.New("name its file as data-key-file (SERVICE_DATA_KEY_FILE); " +
		"if it is lost, restore a backup with --new-data-key")}
	errOtherKey = keyError{errors.New("data-key-file (SERVICE_DATA_KEY_FILE) has another key: " +
		"name the right file; if it is lost, restore a backup with --new-data-key")}
)

const (
	// A sealed value is sealedPrefix, the id of the key, a dot, and nonce and ciphertext in
	// base64url. No plain value starts with sealedPrefix.
	sealedPrefix = "sealed.1."
	// hashPrefix starts the keyed hash of an invite's code. No code has lower-case letters.
	hashPrefix = "hash.1."
	// keyRow names the row of secrets that holds the id of the data key.
	keyRow = "data-key"
)

// Key seals values and opens them.
type Key struct {
	id   string // identifies the key and reveals nothing about it
	aead cipher.AEAD
	mac  []byte // for the hashes of codes
}

func newKey(key []byte) (*Key, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the data key has %d bytes instead of %d", len(key), keySize)
	}
	derive := func(purpose string) []byte {
		derived, _ := hkdf.Key(sha256.New, key, nil, "cairn data key "+purpose, 32) // fails only for longer ones
		return derived
	}
	block, err := aes.NewCipher(derive("values"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Key{hex.EncodeToString(derive("id")[:6]), aead, derive("codes")}, err
}

// Sealer seals and opens with the configured data key, if there is one.
type Sealer struct {
	read func() (*Key, error) // nil: none is configured
}

// New returns a Sealer with the key that read returns, which is called once, when it is needed. nil: there is none.
func New(read func() ([]byte, error)) Sealer {
	if read == nil {
		return Sealer{}
	}
	return Sealer{sync.OnceValues(func() (*Key, error) {
		key, err := read()
		if err != nil {
			return nil, err
		}
		return newKey(key)
	})}
}

// Configured reports whether there is a data key.
func (s Sealer) Configured() bool { return s.read != nil }

// boundTo returns the associated data of a value: a sealed value opens only in its own row and
// column.
func boundTo(column, row string) []byte { return []byte(column + "\x00" + row) }

func (k *Key) prefix() string { return sealedPrefix + k.id + "." }

// Seal seals a value of a column, named with its table, in the row with that key. With a nil
// Key the value stays plain.
func (k *Key) Seal(column, row, value string) string {
	if k == nil {
		return value
	}
	return k.prefix() + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, []byte(value),
		boundTo(column, row)))
}

// Hash returns what stands for the code of an invite in a sealed database.
func (k *Key) Hash(code string) string {
	m := hmac.New(sha256.New, k.mac)
	m.Write([]byte(code))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// Open is the inverse of Key.Seal. It returns a plain value unchanged.
func (s Sealer) Open(column, row, value string) (string, error) {
	if !strings.HasPrefix(value, sealedPrefix) {
		return value, nil
	}
	k, err := s.configured()
	if err != nil {
		return "", err
	}
	text, ours := strings.CutPrefix(value, k.prefix())
	if !ours {
		return "", errOtherKey
	}
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		sealed, err = k.aead.Open(nil, nil, sealed, boundTo(column, row))
	}
	if err != nil {
		return "", fmt.Errorf("the sealed value of %s was altered or belongs to another row", column)
	}
	return string(sealed), nil
}

// configured returns the data key of the options. ErrKey if there is none.
func (s Sealer) configured() (*Key, error) {
	if s.read == nil {
		return nil, errNoKey
	}
	k, err := s.read()
	if err != nil {
		return nil, keyError{err}
	}
	return k, nil
}

// Key returns the key with which the database is sealed, nil if it is not. ErrKey.
func (s Sealer) Key(db *gorm.DB) (*Key, error) {
	var row struct{ Value []byte }
	err := db.Raw("SELECT value FROM secrets WHERE name = ?", keyRow).Find(&row).Error
	if err != nil || row.Value == nil {
		return nil, err
	}
	k, err := s.configured()
	if err == nil && k.id != string(row.Value) {
		err = errOtherKey
	}
	return k, err
}

// In is Sealer.Key in a transaction.
func (s Sealer) In(tx *engine.Tx) *Key {
	if tx.Failed() {
		return nil
	}
	k, err := s.Key(tx.DB)
	tx.Refuse(err)
	return k
}

// Sealed reports whether the database is sealed. ErrKey if the configured key is not its key.
func (s Sealer) Sealed(ctx context.Context, d *engine.DB) (bool, error) {
	k, err := s.Key(engine.Conn(ctx, d))
	return k != nil, fail("look for the data key", err)
}

// Mark marks the database as sealed with the configured key.
func (s Sealer) Mark(tx *engine.Tx) *Key {
	k, err := s.configured()
	if tx.Refuse(err); tx.Failed() {
		return nil
	}
	tx.Exec("INSERT INTO secrets (name, value) VALUES (?, ?)", keyRow, []byte(k.id))
	return k
}

// InviteCodes returns the values that invites.code may have for a code: its hash, and the code
// itself until it is sealed. A hash is not accepted as a code.
func (s Sealer) InviteCodes(db *gorm.DB, code string) ([]string, error) {
	k, err := s.Key(db)
	var keys []string
	if !strings.HasPrefix(code, hashPrefix) {
		keys = append(keys, code)
	}
	if k != nil {
		keys = append(keys, k.Hash(code))
	}
	return keys, err
}

// InvitePlace returns the value of invites.code, which orders a list, of the invite with this code.
func (s Sealer) InvitePlace(db *gorm.DB, code string) (string, error) {
	keys, err := s.InviteCodes(db, code)
	if err != nil || len(keys) < 2 {
		return code, err
	}
	var there []string
	err = db.Raw("SELECT code FROM invites WHERE code IN ?", keys).Find(&there).Error
	return append(there, keys[1])[0], err
}

// sealBatch is how many rows one transaction of SealAll seals.
const sealBatch = 500

// SealAll seals all plain values with the configured data key and returns how many they were. first is part of the
// transaction that marks the database. Other
// instances that have the key may run meanwhile. If it is interrupted, sealed values stay sealed,
// the rest can still be read, and another call continues. ErrKey.
func (s Sealer) SealAll(ctx context.Context, d *engine.DB, first func(*engine.Tx)) (sealed int64, err error) {
	err = engine.Write(ctx, d, "seal the stored secrets", func(tx *engine.Tx) {
		sealed = 0
		k := s.In(tx)
		if k == nil {
			k = s.Mark(tx)
			first(tx)
		}
		var rows []struct {
			Name  string
			Value []byte
		}
		tx.Find(&rows, "SELECT name, value FROM secrets WHERE name <> ?", keyRow)
		for _, r := range rows {
			if strings.HasPrefix(string(r.Value), sealedPrefix) {
				continue
			}
			sealed++
			SetSecret(tx, k, r.Name, r.Value)
		}
	})
	if err != nil {
		return 0, err
	}
	apps, err := s.sealRows(ctx, d, "seal authenticator apps",
		"SELECT sub AS place, secret AS value FROM totp WHERE sub > ? AND secret NOT LIKE '"+sealedPrefix+`%'
			ORDER BY sub LIMIT ?`,
		func(tx *engine.Tx, k *Key, r plainRow) int64 {
			secret := k.Seal(TOTPSecret, r.Place, r.Value)
			return tx.Exec("UPDATE totp SET secret = ? WHERE sub = ? AND secret = ?", secret, r.Place, r.Value)
		})
	if err != nil {
		return sealed + apps, err
	}
	invites, err := s.sealRows(ctx, d, "seal invites",
		"SELECT code AS place, code AS value FROM invites WHERE code > ? AND "+plainInvite+" ORDER BY code LIMIT ?",
		func(tx *engine.Tx, k *Key, r plainRow) int64 {
			hash := k.Hash(r.Value)
			code := k.Seal(InviteCode, hash, r.Value)
			return tx.Exec("UPDATE invites SET code = ?, sealed_code = ? WHERE code = ?", hash, code, r.Place)
		})
	if err == nil {
		// The log still has the plain values; the file has only traces in unused space.
		err = d.Checkpoint(ctx)
	}
	return sealed + apps + invites, err
}

// plainRow is a value to seal, and the key of its row.
type plainRow struct{ Place, Value string }

// sealRows seals in batches the rows that the query plain finds after a key.
func (s Sealer) sealRows(
	ctx context.Context, d *engine.DB, doing, plain string, seal func(*engine.Tx, *Key, plainRow) int64,
) (sealed int64, err error) {
	after := ""
	for {
		var rows []plainRow
		var done int64
		err := engine.Write(ctx, d, doing, func(tx *engine.Tx) {
			rows, done = nil, 0
			k := s.In(tx)
			tx.Find(&rows, plain, after, sealBatch)
			for _, r := range rows {
				done += seal(tx, k, r)
			}
		})
		if err != nil {
			return sealed, err
		}
		sealed += done
		if len(rows) < sealBatch {
			return sealed, nil
		}
		after = rows[len(rows)-1].Place
	}
}

// plainInvite is the condition that an invite has a code that is neither sealed nor lost.
const plainInvite = "sealed_code = '' AND code NOT LIKE '" + hashPrefix + "%'"

// Columns with sealed values.
const (
	TOTPSecret   = "totp.secret"
	InviteCode   = "invites.sealed_code"
	StoredSecret = "secrets.value"
)

// SetSecret replaces a stored secret.
func SetSecret(tx *engine.Tx, k *Key, name string, value []byte) {
	sealed := []byte(k.Seal(StoredSecret, name, string(value)))
	tx.Exec("UPDATE secrets SET value = ? WHERE name = ?", sealed, name)
}

// PlainValues counts the values that are not sealed.
func PlainValues(ctx context.Context, d *engine.DB) (n int64, err error) {
	err = engine.Conn(ctx, d).Raw(`SELECT (SELECT count(*) FROM secrets WHERE NOT EXISTS (SELECT 1 FROM secrets
		WHERE name = ?))
		+ (SELECT count(*) FROM totp WHERE secret NOT LIKE '`+sealedPrefix+`%')
		+ (SELECT count(*) FROM invites WHERE `+plainInvite+") AS plain", keyRow).Find(&n).Error
	return n, fail("count plain values", err)
}

// LostValues are the values that are lost with an old data key.
type LostValues struct {
	AuthenticatorApps []string `json:"authenticator_apps"` // handles of their users
	OpenInvites       int      `json:"open_invites"`
	Secrets           []string `json:"secrets"` // generated again
}

// Replace makes the configured data key that of the database, whose key is lost.
func (s Sealer) Replace(tx *engine.Tx, now time.Time) (lost LostValues) {
	k, err := s.configured()
	if tx.Refuse(err); tx.Failed() {
		return lost
	}
	notSealed := errors.New("the database is not sealed: there is no data key to replace")
	tx.Expect(tx.Exec("UPDATE secrets SET value = ? WHERE name = ?", []byte(k.id), keyRow), notSealed)
	tx.Find(&lost.Secrets, "SELECT name FROM secrets WHERE name <> ? ORDER BY name", keyRow)
	for _, name := range lost.Secrets {
		SetSecret(tx, k, name, NewSecret())
	}
	// What is plain, because sealing was interrupted, is not lost.
	const sealedApps = "secret LIKE '" + sealedPrefix + "%'"
	tx.Find(&lost.AuthenticatorApps, `SELECT u.handle FROM totp t JOIN users u ON u.sub = t.sub
		WHERE t.`+sealedApps+" ORDER BY u.handle")
	tx.Find(&lost.OpenInvites, `SELECT count(*) FROM invites
		WHERE sealed_code <> '' AND used_at = 0 AND expires_at > ?`, engine.ToUnix(now))
	for _, statement := range []string{
		"DELETE FROM totp WHERE " + sealedApps,
		// As the removal of a factor does for one user.
		`UPDATE users SET second_factor = false WHERE second_factor
			AND NOT EXISTS (SELECT 1 FROM totp WHERE sub = users.sub) AND NOT EXISTS (SELECT 1 FROM passkeys
			WHERE sub = users.sub)`,
		"DELETE FROM recovery_codes WHERE sub IN (SELECT sub FROM users WHERE NOT second_factor)",
		"DELETE FROM former_recovery_codes",
		"DELETE FROM invites WHERE sealed_code <> '' AND used_at = 0 AND used = 0",
		"UPDATE invites SET used_at = expires_at, uses = used WHERE sealed_code <> '' AND used_at = 0",
		// Those that were used stay: they count, and say who came. Their codes are lost.
		"UPDATE invites SET sealed_code = '' WHERE sealed_code <> ''",
	} {
		tx.Exec(statement)
	}
	return lost
}

// NewSecret is a secret of 48 random bytes as text, which an environment file takes.
func NewSecret() []byte {
	b := make([]byte, 48)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return []byte(base64.RawURLEncoding.EncodeToString(b))
}

// fail makes a failure of the database account.ErrUnavailable.
func fail(doing string, err error) error { return engine.Fail(doing, err, account.ErrUnavailable) }
