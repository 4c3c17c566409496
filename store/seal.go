package store

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
	"time"

	"gorm.io/gorm"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/store/engine"
)

// With a data key, values that the service must be able to read are sealed in the database: the
// secrets of authenticator apps, the codes of invites, and the stored secrets. A row of the table
// secrets records that they are sealed and with which key, so an instance with another key, or
// none, writes nothing that the others could not read.

// dataKeySize is the length of a data key in bytes.
const dataKeySize = 32

// ErrDataKey means that sealed values cannot be read or written, because no data key is configured
// or it is the wrong one. An error that wraps it says what to do, and also wraps
// account.ErrUnavailable.
var ErrDataKey = errors.New("the database is sealed with a data key")

// dataKeyError says why the data key is missing or wrong, and what to do.
type dataKeyError struct{ why error }

func (e dataKeyError) Error() string { return ErrDataKey.Error() + ": " + e.why.Error() }

// Is reports whether target is ErrDataKey.
func (dataKeyError) Is(target error) bool { return target == ErrDataKey }

// Unwrap makes it a failure of the database for the clients of the service.
func (dataKeyError) Unwrap() error { return account.ErrUnavailable }

var (
	errNoDataKey = dataKeyError{errors.New("name its file as data-key-file (SERVICE_DATA_KEY_FILE); " +
		"if it is lost, restore a backup with --new-data-key")}
	errOtherDataKey = dataKeyError{errors.New("data-key-file (SERVICE_DATA_KEY_FILE) has another key: " +
		"name the right file; if it is lost, restore a backup with --new-data-key")}
)

const (
	// A sealed value is sealedPrefix, the id of the key, a dot, and nonce and ciphertext in
	// base64url. No plain value starts with sealedPrefix.
	sealedPrefix = "sealed.1."
	// hashPrefix starts the keyed hash of an invite's code. No code has lower-case letters.
	hashPrefix = "hash.1."
	// dataKeyRow names the row of secrets that holds the id of the data key.
	dataKeyRow = "data-key"
)

// dataKey seals values and opens them.
type dataKey struct {
	id   string // identifies the key and reveals nothing about it
	aead cipher.AEAD
	mac  []byte // for the hashes of codes
}

func newDataKey(key []byte) (*dataKey, error) {
	if len(key) != dataKeySize {
		return nil, fmt.Errorf("the data key has %d bytes instead of %d", len(key), dataKeySize)
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
	return &dataKey{hex.EncodeToString(derive("id")[:6]), aead, derive("codes")}, err
}

// boundTo returns the associated data of a value: a sealed value opens only in its own row and
// column.
func boundTo(column, row string) []byte { return []byte(column + "\x00" + row) }

func (k *dataKey) prefix() string { return sealedPrefix + k.id + "." }

// seal seals a value of a column, named with its table, in the row with that key. With a nil
// dataKey the value stays plain.
func (k *dataKey) seal(column, row, value string) string {
	if k == nil {
		return value
	}
	return k.prefix() + base64.RawURLEncoding.EncodeToString(k.aead.Seal(nil, nil, []byte(value),
		boundTo(column, row)))
}

func (k *dataKey) hash(code string) string {
	m := hmac.New(sha256.New, k.mac)
	m.Write([]byte(code))
	return hashPrefix + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// open is the inverse of seal. It returns a plain value unchanged.
func (s *Store) open(column, row, value string) (string, error) {
	if !strings.HasPrefix(value, sealedPrefix) {
		return value, nil
	}
	k, err := s.configuredKey()
	if err != nil {
		return "", err
	}
	text, ours := strings.CutPrefix(value, k.prefix())
	if !ours {
		return "", errOtherDataKey
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

// configuredKey returns the data key of the options. ErrDataKey if there is none.
func (s *Store) configuredKey() (*dataKey, error) {
	if s.dataKey == nil {
		return nil, errNoDataKey
	}
	k, err := s.dataKey()
	if err != nil {
		return nil, dataKeyError{err}
	}
	return k, nil
}

// sealer returns the key with which the database is sealed, nil if it is not. ErrDataKey.
func (s *Store) sealer(db *gorm.DB) (*dataKey, error) {
	var row struct{ Value []byte }
	err := db.Raw("SELECT value FROM secrets WHERE name = ?", dataKeyRow).Find(&row).Error
	if err != nil || row.Value == nil {
		return nil, err
	}
	k, err := s.configuredKey()
	if err == nil && k.id != string(row.Value) {
		err = errOtherDataKey
	}
	return k, err
}

// sealerIn is sealer in a transaction.
func (s *Store) sealerIn(tx *engine.Tx) *dataKey {
	if tx.Failed() {
		return nil
	}
	k, err := s.sealer(tx.DB)
	tx.Refuse(err)
	return k
}

// Sealed reports whether the database is sealed. ErrDataKey if the configured key is not its key.
func (s *Store) Sealed(ctx context.Context) (bool, error) {
	k, err := s.sealer(s.conn(ctx))
	return k != nil, fail("look for the data key", err)
}

// markSealed marks the database as sealed with the configured key.
func (s *Store) markSealed(tx *engine.Tx) *dataKey {
	k, err := s.configuredKey()
	if tx.Refuse(err); tx.Failed() {
		return nil
	}
	tx.Exec("INSERT INTO secrets (name, value) VALUES (?, ?)", dataKeyRow, []byte(k.id))
	return k
}

// inviteKeys returns the values that invites.code may have for a code: its hash, and the code
// itself until it is sealed. A hash is not accepted as a code.
func (s *Store) inviteKeys(db *gorm.DB, code string) ([]string, error) {
	k, err := s.sealer(db)
	var keys []string
	if !strings.HasPrefix(code, hashPrefix) {
		keys = append(keys, code)
	}
	if k != nil {
		keys = append(keys, k.hash(code))
	}
	return keys, err
}

// invitePlace returns the value of invites.code, which orders a list, of the invite with this code.
func (s *Store) invitePlace(ctx context.Context, code string) (string, error) {
	keys, err := s.inviteKeys(s.conn(ctx), code)
	if err != nil || len(keys) < 2 {
		return code, err
	}
	var there []string
	err = s.conn(ctx).Raw("SELECT code FROM invites WHERE code IN ?", keys).Find(&there).Error
	return append(there, keys[1])[0], err
}

// sealBatch is how many rows one transaction of Seal seals.
const sealBatch = 500

// Seal seals all plain values with the configured data key and returns how many they were. Other
// instances that have the key may run meanwhile. If it is interrupted, sealed values stay sealed,
// the rest can still be read, and another call continues. ErrDataKey.
func (s *Store) Seal(ctx context.Context, a account.Audit) (sealed int64, err error) {
	err = s.write(ctx, "seal the stored secrets", func(tx *engine.Tx) {
		sealed = 0
		k := s.sealerIn(tx)
		if k == nil {
			k = s.markSealed(tx)
			insertAudit(tx, a)
		}
		var rows []struct {
			Name  string
			Value []byte
		}
		tx.Find(&rows, "SELECT name, value FROM secrets WHERE name <> ?", dataKeyRow)
		for _, r := range rows {
			if strings.HasPrefix(string(r.Value), sealedPrefix) {
				continue
			}
			sealed++
			setSecret(tx, k, r.Name, r.Value)
		}
	})
	if err != nil {
		return 0, err
	}
	apps, err := s.sealRows(ctx, "seal authenticator apps",
		"SELECT sub AS place, secret AS value FROM totp WHERE sub > ? AND secret NOT LIKE '"+sealedPrefix+`%'
			ORDER BY sub LIMIT ?`,
		func(tx *engine.Tx, k *dataKey, r plainRow) int64 {
			secret := k.seal(totpSecret, r.Place, r.Value)
			return tx.Exec("UPDATE totp SET secret = ? WHERE sub = ? AND secret = ?", secret, r.Place, r.Value)
		})
	if err != nil {
		return sealed + apps, err
	}
	invites, err := s.sealRows(ctx, "seal invites",
		"SELECT code AS place, code AS value FROM invites WHERE code > ? AND "+plainInvite+" ORDER BY code LIMIT ?",
		func(tx *engine.Tx, k *dataKey, r plainRow) int64 {
			hash := k.hash(r.Value)
			code := k.seal(inviteCode, hash, r.Value)
			return tx.Exec("UPDATE invites SET code = ?, sealed_code = ? WHERE code = ?", hash, code, r.Place)
		})
	if err == nil {
		// The log still has the plain values; the file has only traces in unused space.
		err = s.Checkpoint(ctx)
	}
	return sealed + apps + invites, err
}

// plainRow is a value to seal, and the key of its row.
type plainRow struct{ Place, Value string }

// sealRows seals in batches the rows that the query plain finds after a key.
func (s *Store) sealRows(
	ctx context.Context, doing, plain string, seal func(*engine.Tx, *dataKey, plainRow) int64,
) (sealed int64, err error) {
	after := ""
	for {
		var rows []plainRow
		var done int64
		err := s.write(ctx, doing, func(tx *engine.Tx) {
			rows, done = nil, 0
			k := s.sealerIn(tx)
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
	totpSecret  = "totp.secret"
	inviteCode  = "invites.sealed_code"
	secretValue = "secrets.value"
)

func setSecret(tx *engine.Tx, k *dataKey, name string, value []byte) {
	sealed := []byte(k.seal(secretValue, name, string(value)))
	tx.Exec("UPDATE secrets SET value = ? WHERE name = ?", sealed, name)
}

// PlainValues counts the values that are not sealed.
func (s *Store) PlainValues(ctx context.Context) (n int64, err error) {
	err = s.conn(ctx).Raw(`SELECT (SELECT count(*) FROM secrets WHERE NOT EXISTS (SELECT 1 FROM secrets
		WHERE name = ?))
		+ (SELECT count(*) FROM totp WHERE secret NOT LIKE '`+sealedPrefix+`%')
		+ (SELECT count(*) FROM invites WHERE `+plainInvite+") AS plain", dataKeyRow).Find(&n).Error
	return n, fail("count plain values", err)
}

// LostValues are the values that are lost with an old data key.
type LostValues struct {
	AuthenticatorApps []string `json:"authenticator_apps"` // handles of their users
	OpenInvites       int      `json:"open_invites"`
	Secrets           []string `json:"secrets"` // generated again
}

// replaceDataKey makes the configured data key that of the database, whose key is lost.
func (s *Store) replaceDataKey(tx *engine.Tx, now time.Time) (lost LostValues) {
	k, err := s.configuredKey()
	if tx.Refuse(err); tx.Failed() {
		return lost
	}
	notSealed := errors.New("the database is not sealed: there is no data key to replace")
	tx.Expect(tx.Exec("UPDATE secrets SET value = ? WHERE name = ?", []byte(k.id), dataKeyRow), notSealed)
	tx.Find(&lost.Secrets, "SELECT name FROM secrets WHERE name <> ? ORDER BY name", dataKeyRow)
	for _, name := range lost.Secrets {
		setSecret(tx, k, name, newSecret())
	}
	// What is plain, because sealing was interrupted, is not lost.
	const sealedApps = "secret LIKE '" + sealedPrefix + "%'"
	tx.Find(&lost.AuthenticatorApps, `SELECT u.handle FROM totp t JOIN users u ON u.sub = t.sub
		WHERE t.`+sealedApps+" ORDER BY u.handle")
	tx.Find(&lost.OpenInvites, `SELECT count(*) FROM invites
		WHERE sealed_code <> '' AND used_at = 0 AND expires_at > ?`, toUnix(now))
	execAll(tx,
		"DELETE FROM totp WHERE "+sealedApps,
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
	)
	return lost
}

// newSecret is a secret of 48 random bytes as text, which an environment file takes.
func newSecret() []byte {
	b := make([]byte, 48)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return []byte(base64.RawURLEncoding.EncodeToString(b))
}

func execAll(tx *engine.Tx, statements ...string) {
	for _, statement := range statements {
		tx.Exec(statement)
	}
}
