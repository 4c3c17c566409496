// Package backupfile owns the form of a backup: one file, a gzipped tar of a manifest, a
// SQLite database, and what else belongs to an installation, for which tar xzf is enough.
// With a [Key] the whole is encrypted in the form of age (age-encryption.org/v1).
//
// A plain file ends with an empty gzip member, whose comment is the SHA-256 of all before
// it: every byte is covered, also those of which gzip and tar keep no checksum.
//
// It leaves to others: what is in the database, and where files come from and go to.
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

// Format is the version of the form that this package writes, and the last that it reads.
const Format = 1

// Names of the members.
const (
	manifestName = "manifest.json"
	Database     = "cairn.db"
	Config       = "cairn.yaml"
	Keys         = "keys/" // begins the names of key files
)

// workFactor of scrypt: a second of a processor for each passphrase that is tried.
var workFactor = 18

// maxWorkFactor is for a program to come. A file that asks for more could take all memory of
// the machine: this is 1 GiB.
const maxWorkFactor = 20

// MinPassphrase is the least length of a passphrase in bytes.
const MinPassphrase = 12

var (
	// ErrDamaged means that the file is not as it was written.
	ErrDamaged = errors.New("the backup is damaged or cut short: use another one")
	// ErrPassphrase means that the passphrase is wrong.
	ErrPassphrase = errors.New("the passphrase is wrong")
	// ErrIdentity means that the backup is encrypted to another recipient.
	ErrIdentity = errors.New("it is encrypted to another recipient: give the file with that one's identity")
	// ErrNoBackup means that the file is something else.
	ErrNoBackup = errors.New("this is not a backup of cairn")
)

// Identity opens an encrypted backup.
type Identity = age.Identity

// Key encrypts one backup, and opens it again.
type Key struct {
	recipients []age.Recipient
	identity   Identity
}

// NewKey encrypts to a recipient, age1..., or under a passphrase; without either it is nil. The identity of a recipient
// is elsewhere, so the backup is also encrypted to one that only the Key has, which opens it once more to check it.
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
		to.SetWorkFactor(workFactor)
		own, err := age.NewScryptIdentity(passphrase)
		return &Key{recipients: []age.Recipient{to}, identity: own}, err
	}
	return nil, nil //nolint:nilnil // not encrypted
}

// Unlock opens the backup that was encrypted with the key.
func (k *Key) Unlock(bool) ([]Identity, error) { return []Identity{k.identity}, nil }

// PassphraseIdentity opens what is encrypted under a passphrase. ErrPassphrase.
func PassphraseIdentity(passphrase string) ([]Identity, error) {
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, ErrPassphrase // it is empty
	}
	identity.SetMaxWorkFactor(maxWorkFactor)
	return []Identity{identity}, nil
}

// ParseIdentities reads a file of identities, as age-keygen writes it.
func ParseIdentities(text []byte) ([]Identity, error) {
	identities, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("this is not a file of age identities: such a file has a line that begins with AGE-SECRET-KEY-1")
	}
	return identities, nil
}

// GenerateIdentity returns a file with a new identity, and its recipient.
func GenerateIdentity() (text, recipient string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	recipient = identity.Recipient().String()
	return "# public key: " + recipient + "\n" + identity.String() + "\n", recipient, nil
}

// Unlock finds what opens an encrypted backup. passphrase reports whether it is encrypted under one.
type Unlock func(passphrase bool) ([]Identity, error)

// Manifest says what is in a backup.
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

// File is a member beside the manifest.
type File struct {
	Name    string `json:"name"`
	Setting string `json:"setting,omitempty"` // that named a key file
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`

	Path string `json:"-"` // where it is: for Write its source, of Read where it was put
}

// Create writes a backup into f, whose files lie at their paths, encrypted unless key is nil. It adds sizes and sums
// to the manifest.
func Create(ctx context.Context, f io.Writer, m *Manifest, key *Key) (err error) {
	f = writerUntil{ctx, f}
	m.Format = Format
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
	// The hashes and random ids that most of it is made of get no smaller with more effort.
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
	return &tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: m.Created, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
}

// trailer is an empty gzip member with a sum in its comment.
func trailer(sum []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Comment = "sha256 " + hex.EncodeToString(sum)
	_ = z.Close() // into memory
	return b.Bytes()
}

// Open reads a backup from the disk, each byte of it, and puts its files into a folder
// under the names of the members. unlock is called only for an encrypted one.
func Open(ctx context.Context, f *os.File, folder string, unlock Unlock) (*Manifest, error) {
	return open(ctx, f, folder, unlock, true)
}

// Check is Open without writing the database, which only has to have the sum that the
// manifest says.
func Check(ctx context.Context, f *os.File, folder string, unlock Unlock) (*Manifest, error) {
	return open(ctx, f, folder, unlock, false)
}

func open(ctx context.Context, f *os.File, folder string, unlock Unlock, database bool) (*Manifest, error) {
	begin := make([]byte, 64)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var r io.Reader = readerUntil{ctx, f}
	switch {
	case bytes.HasPrefix(begin[:n], []byte("age-encryption.org/")):
		passphrase := bytes.Contains(begin[:n], []byte("\n-> scrypt "))
		identities, err := unlock(passphrase)
		if err != nil {
			return nil, err
		}
		if r, err = age.Decrypt(r, identities...); err != nil {
			if _, wrong := errors.AsType[*age.NoIdentityMatchError](err); wrong && passphrase {
				return nil, fmt.Errorf("%w, or its first lines are damaged", ErrPassphrase)
			} else if wrong {
				return nil, ErrIdentity
			}
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
	case bytes.HasPrefix(begin[:n], []byte{0x1f, 0x8b}):
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

// checkTrailer compares the sum at the end of a plain file.
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

// errRead marks an error of reading the backup, not of writing what is in it.
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
	if m.Format != Format {
		return nil, fmt.Errorf("the backup has form %d, and this program reads %d: use version %s of cairn", m.Format, Format, m.Program)
	}
	for i := range m.Files {
		if err := m.Files[i].extract(t, folder, database || m.Files[i].Name != Database); err != nil {
			return nil, err
		}
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the last file: %w", errRead, errors.Join(err))
	}
	// The sums of gzip and age are at their ends.
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
		return fmt.Errorf("%w: %s is not as the manifest says", errRead, f.Name)
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
		return fmt.Errorf("%w: %s is not as the manifest says", errRead, f.Name)
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

// writerUntil and readerUntil end with a context.
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
