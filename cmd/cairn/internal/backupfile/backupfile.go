// Package backupfile owns the format of a backup: one file, a gzipped tar of a manifest, a SQLite
// database, and the other files of an installation. tar xzf unpacks it. With a [Key] the file is
// encrypted in the format of age (age-encryption.org/v1).
//
// A plain file ends with an empty gzip member whose comment is the SHA-256 of everything before it.
// So every byte is covered, even those without a checksum in gzip and tar.
//
// It leaves to others the content of the database, and where files come from and go to.
package backupfile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"filippo.io/age"
)

// format is the version of the format that this package writes, and the only one that it reads.
const format = 1

const manifestName = "manifest.json"

// WorkFactor is the work factor of scrypt: each guess at a passphrase takes a processor one second.
// Only tests change it.
var WorkFactor = 18

// maxWorkFactor limits the work factor of a file that is read, and leaves room for a later version
// to raise WorkFactor. It takes 1 GiB of memory; a larger one could exhaust the machine's.
const maxWorkFactor = 20

// MinPassphrase is the minimum length of a passphrase in bytes.
const MinPassphrase = 12

var (
	// ErrDamaged means that the file has changed since it was written.
	ErrDamaged = errors.New("the backup is damaged or cut short: use another one")
	// ErrPassphrase means that the passphrase is wrong.
	ErrPassphrase = errors.New("the passphrase is wrong")
	// errIdentity means that the backup is encrypted to another recipient.
	errIdentity = errors.New("it is encrypted to another recipient: give the file with that recipient's identity")
	// ErrNoBackup means that the file is not a backup.
	ErrNoBackup = errors.New("this is not a backup of cairn")
)

// Identity decrypts a backup.
type Identity = age.Identity

// Key encrypts and decrypts one backup.
type Key struct {
	recipients []age.Recipient
	identity   Identity
}

// NewKey returns a key that encrypts to a recipient, age1..., or with a passphrase; without either
// it returns nil. The recipient's identity is not at hand to check the backup, so it is also
// encrypted to an identity that only the Key has.
func NewKey(recipient, passphrase string) (*Key, error) {
	switch {
	case recipient != "":
		to, err := age.ParseX25519Recipient(recipient)
		if err != nil {
			return nil, err
		}
		own, err := age.GenerateX25519Identity()
		if err != nil {
			return nil, err
		}
		return &Key{recipients: []age.Recipient{to, own.Recipient()}, identity: own}, nil
	case passphrase != "":
		to, err := age.NewScryptRecipient(passphrase)
		if err != nil {
			return nil, err
		}
		to.SetWorkFactor(WorkFactor)
		own, err := age.NewScryptIdentity(passphrase)
		return &Key{recipients: []age.Recipient{to}, identity: own}, err
	}
	return nil, nil //nolint:nilnil // not encrypted
}

// Unlock returns the identity for the backup that was encrypted with the key. It is an [Unlock].
func (k *Key) Unlock(bool) ([]Identity, error) { return []Identity{k.identity}, nil }

// PassphraseIdentity returns the identity of a passphrase, or ErrPassphrase if it is empty.
func PassphraseIdentity(passphrase string) ([]Identity, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, ErrPassphrase
	}
	identity.SetMaxWorkFactor(maxWorkFactor)
	return []Identity{identity}, nil
}

// ParseIdentities parses a file of identities in the format of age-keygen.
func ParseIdentities(text []byte) ([]Identity, error) {
	identities, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("this is not a file of age identities: " +
			"such a file has a line that begins with AGE-SECRET-KEY-1")
	}
	return identities, nil
}

// GenerateIdentity returns the text of a file with a new identity, and its recipient.
func GenerateIdentity() (text, recipient string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	recipient = identity.Recipient().String()
	return "# public key: " + recipient + "\n" + identity.String() + "\n", recipient, nil
}

// Unlock returns identities to decrypt a backup. passphrase reports whether it is encrypted with one.
type Unlock func(passphrase bool) ([]Identity, error)

// Manifest lists the content of a backup.
type Manifest struct {
	Format  int              `json:"format"`
	Program string           `json:"program"` // version of the program that made it
	Created time.Time        `json:"created"`
	Changed time.Time        `json:"changed"` // the newest row of the audit log
	Issuer  string           `json:"issuer"`
	Dialect string           `json:"dialect"` // of the database that was copied
	Schema  int64            `json:"schema"`
	Rows    map[string]int64 `json:"rows"` // by table
	Files   []File           `json:"files"`
}

// File is a file in a backup, other than the manifest.
type File struct {
	Name    string `json:"name"`
	Setting string `json:"setting,omitempty"` // the setting that named a key file
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`

	Path string `json:"-"` // the source for Create; the destination after Open
}

// Create writes a backup of the files at their paths to f, encrypted unless key is nil. It adds
// sizes and checksums to the manifest.
func Create(ctx context.Context, f io.Writer, m *Manifest, key *Key) (err error) {
	f = writerUntil{ctx, f}
	m.Format = format
	for i := range m.Files {
		if err := m.Files[i].measure(); err != nil {
			return err
		}
	}
	if key != nil {
		sealed, err := age.Encrypt(f, key.recipients...)
		if err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = sealed.Close()
			}
		}()
		f = sealed
	}
	sum := sha256.New()
	// Most of the data are hashes and random ids, which a better level does not compress further.
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, sum), gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := m.pack(tar.NewWriter(z)); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err = f.Write(trailer(sum.Sum(nil)))
	return err
}

func (f *File) measure() error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, file); err != nil {
		return err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

func (m *Manifest) pack(t *tar.Writer) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := t.WriteHeader(m.header(manifestName, int64(len(text)))); err != nil {
		return err
	}
	if _, err := t.Write(text); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := t.WriteHeader(m.header(f.Name, f.Size)); err != nil {
			return err
		}
		file, err := os.Open(f.Path)
		if err != nil {
			return err
		}
		_, err = io.Copy(t, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return t.Close()
}

func (m *Manifest) header(name string, size int64) *tar.Header {
	return &tar.Header{
		Name: name, Size: size, Mode: 0o600, ModTime: m.Created, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
}

// trailer returns an empty gzip member with a checksum in its comment.
func trailer(sum []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Comment = "sha256 " + hex.EncodeToString(sum)
	_ = z.Close() // a bytes.Buffer cannot fail
	return b.Bytes()
}

// Open reads every byte of a backup from the disk, and puts its files into a folder under their
// names. It calls unlock only for an encrypted backup.
func Open(ctx context.Context, f *os.File, folder string, unlock Unlock) (*Manifest, error) {
	return open(ctx, f, folder, unlock, true)
}

// Check is like Open but does not write the database. It only compares its checksum with the manifest.
func Check(ctx context.Context, f *os.File, folder string, unlock Unlock) (*Manifest, error) {
	return open(ctx, f, folder, unlock, false)
}

func open(ctx context.Context, f *os.File, folder string, unlock Unlock, database bool) (*Manifest, error) {
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var r io.Reader = readerUntil{ctx, f}
	switch {
	case bytes.HasPrefix(head[:n], []byte("age-encryption.org/")):
		passphrase := bytes.Contains(head[:n], []byte("\n-> scrypt "))
		identities, err := unlock(passphrase)
		if err != nil {
			return nil, err
		}
		if r, err = age.Decrypt(r, identities...); err != nil {
			if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong && passphrase {
				return nil, fmt.Errorf("%w, or its first lines are damaged", ErrPassphrase)
			} else if wrong {
				return nil, errIdentity
			}
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
	case bytes.HasPrefix(head[:n], []byte{0x1f, 0x8b}):
		if err := checkTrailer(f); err != nil {
			return nil, err
		}
	default:
		return nil, ErrNoBackup
	}
	m, err := unpack(r, folder, database)
	if errors.Is(err, errRead) && ctx.Err() == nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return m, err
}

// checkTrailer checks the checksum at the end of a plain file.
func checkTrailer(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := int64(len(trailer(make([]byte, sha256.Size))))
	if info.Size() < length {
		return ErrDamaged
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, info.Size()-length); err != nil {
		return err
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if !bytes.Equal(end, trailer(sum.Sum(nil))) {
		return ErrDamaged
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// errRead marks an error of reading the backup, as opposed to one of writing its files.
var errRead = errors.New("read")

const maxManifest = 1 << 20

func unpack(r io.Reader, folder string, database bool) (*Manifest, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	t := tar.NewReader(z)
	h, err := t.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	if h.Name != manifestName {
		return nil, ErrNoBackup
	}
	text, err := io.ReadAll(io.LimitReader(t, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	if m.Format != format {
		return nil, fmt.Errorf("the backup has format %d, and this program reads %d: use version %s of cairn",
			m.Format, format, m.Program)
	}
	for i := range m.Files {
		if err := m.Files[i].extract(t, folder, database || m.Files[i].Name != Database); err != nil {
			return nil, err
		}
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the last file: %w", errRead, errors.Join(err))
	}
	// Read to the end, where gzip and age have their checksums.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return nil, fmt.Errorf("%w: %w", errRead, err)
	}
	if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == Database }) {
		return nil, ErrNoBackup
	}
	return m, nil
}

func (f *File) extract(t *tar.Reader, folder string, write bool) error {
	h, err := t.Next()
	if err != nil {
		return fmt.Errorf("%w: %w", errRead, err)
	}
	if h.Name != f.Name || h.Size != f.Size || !filepath.IsLocal(f.Name) {
		return fmt.Errorf("%w: %s differs from the manifest", errRead, f.Name)
	}
	sum := sha256.New()
	if write {
		f.Path = filepath.Join(folder, f.Name)
		err = f.write(io.TeeReader(reading{t}, sum))
	} else {
		_, err = io.Copy(sum, reading{t})
	}
	if err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s differs from the manifest", errRead, f.Name)
	}
	return nil
}

func (f *File) write(content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// writerUntil and readerUntil fail once their context has ended.
type writerUntil struct {
	ctx context.Context
	io.Writer
}

func (w writerUntil) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(b)
}

type readerUntil struct {
	ctx context.Context
	io.Reader
}

func (r readerUntil) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// reading marks the errors of a reader with errRead.
type reading struct{ io.Reader }

func (r reading) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errRead, err)
	}
	return n, err
}
