// Package person is what people do with their own account: they sign in and out, join, change and recover it. Each
// operation takes a context, who asks (account.Caller) and values.
//
// It leaves to others: the words, the rules and the acts (package account), passkeys (package passkey), what
// administrators do (package roster), what mails say (package letter), pages and JSON endpoints (package site) and
// the verification of the session token (package session, which other applications import too).
package person

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/account/picture"
	"github.com/cairn-id/cairn/account/session"
	"github.com/cairn-id/cairn/account/statuslist"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Options configure a Service. Store, Issuer, Secret, Key, Hasher, Limits, Pages and StatusTTL are
// required.
type Options struct {
	Store  account.Store
	Issuer string // the issuer exactly as configured, without a trailing slash
	Secret []byte // the shared HS256 secret, at least 32 bytes
	// Key is the installation's secret, at least 32 bytes and never the shared secret. The keys for
	// values that travel through a browser or a mail are derived from it.
	Key []byte
	// Keys are the signing keys: the first one signs, all verify. Without any, session tokens are
	// signed with HS256.
	Keys            []jose.JSONWebKey
	Signer          jose.OpaqueSigner // signs in the place of the first key; nil: the key itself
	CookieName      string            // full name, with its __Host- or __Secure- prefix
	CookieDomain    string            // empty: host-only
	LoginCookieName string            // empty unless CookieDomain is set
	// PasskeyHosts are the relying party ids of the passkeys that browsers use here, first the host of the
	// issuer; none without passkeys: see package account/passkey.
	PasskeyHosts []string
	StatusTTL    time.Duration // of the status lists, whole seconds
	Unbound      bool          // sessions are not bound to their devices; nor are they without https
	Hasher       *password.Hasher
	Limits       *web.Limits
	Pages        *templates.Renderer
	Mail         bool             // mails are sent: see package account/letter
	Now          func() time.Time // nil means time.Now
	Log          *slog.Logger     // nil means slog.Default
}

// Service applies the rules and serves the account endpoints. It is safe for
// concurrent use.
type Service struct {
	// StatusLists answer under /oauth2/status/.
	StatusLists *statuslist.Lists

	account.Base

	site         *web.Site
	minter       *minter
	verifier     *session.Verifier
	proven       provenTokens
	cookies      cookieNames
	proofs       []sessionProof
	hasher       *password.Hasher
	seal         *web.Sealer
	passkeyHosts []string // see Options
	emailKey     []byte   // of the codes that verify addresses
	inviteKey    []byte   // see onceCode
	deviceKey    []byte   // of the marks of known devices, and of what bound sessions are made of
	typedKey     []byte   // of what was typed, in the log
	log          *slog.Logger
	settings     *web.Cache[account.Settings]
	refusals     *web.Cache[password.Work] // what a wrong password costs
	visits       visits
	pictures     *picture.Desk
	binding      bool // of sessions to their devices
	deviceLimits *web.Limits
}

// sealLifetimes maps the purposes of sealed values to their lifetimes.
var sealLifetimes = map[string]time.Duration{
	PurposeVerify: account.VerificationLifetime, PurposeUndo: account.UndoLifetime, PurposeCancel: account.UndoLifetime,
	PurposeNotMe:           account.NotMeLifetime,
	signInSeal:             SignInStepLifetime,
	totpSeal:               account.FreshFor,
	account.PurposePasskey: account.PasskeyTime,
	// A sign-in page may be left open.
	PurposeReturn: 30 * 24 * time.Hour, PurposePage: 30 * 24 * time.Hour,
	PurposeAgain:  time.Minute,
	PurposeJoin:   joinLinkLifetime,
	purposeInvite: account.MaxInviteDays * 24 * time.Hour,
}

// New makes a Service; it fails on options that cannot work.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	site, err := web.NewSite(o.Issuer, o.Pages, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Service{
		site:    site,
		cookies: cookieNames{Session: o.CookieName, Domain: o.CookieDomain, Login: o.LoginCookieName},
		hasher:  o.Hasher, log: o.Log,
		pictures:     picture.NewDesk(),
		binding:      strings.HasPrefix(o.Issuer, "https:") && !o.Unbound,
		deviceLimits: web.NewLimits(deviceLimits, nil, o.Now, o.Log),
	}
	s.proofs, s.passkeyHosts = s.sessionProofs(), o.PasskeyHosts
	s.settings = web.NewCache(settingsTTL, o.Now,
		func(ctx context.Context, _ string) (account.Settings, error) { return o.Store.Settings(ctx) })
	s.refusals = web.NewCache(time.Minute, o.Now, func(ctx context.Context, _ string) (password.Work, error) {
		return o.Hasher.RefusalWork(func(after string) (string, error) { return o.Store.ForeignHash(ctx, after) })
	})
	s.Base = account.NewBase(seenStore{o.Store, &s.visits}, o.Now).WithMail(o.Mail).WithLimits(o.Limits)
	if s.seal, err = web.NewSealer(o.Key, sealLifetimes, o.Now); err != nil {
		return nil, err
	}
	for purpose, key := range map[string]*[]byte{
		"cairn email code": &s.emailKey, "cairn invite code": &s.inviteKey, "cairn device": &s.deviceKey,
		"cairn typed": &s.typedKey,
	} {
		if *key, err = hkdf.Key(sha256.New, o.Key, nil, purpose, 32); err != nil {
			return nil, fmt.Errorf("derive key: %w", err)
		}
	}
	if s.minter, err = newMinter(o.Issuer, o.Secret, o.Keys, o.Signer); err != nil {
		return nil, err
	}
	s.StatusLists, err = statuslist.New(statuslist.Options{
		Site: site, Store: o.Store, Key: s.minter.key, KeyID: s.minter.keyID, TTL: o.StatusTTL, Now: o.Now, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	s.verifier = &session.Verifier{Issuer: o.Issuer, Secret: o.Secret, Now: o.Now, CookieName: o.CookieName}
	if len(o.Keys) > 0 {
		s.verifier.Keys = session.NewStaticKeySet(o.Keys...)
	}
	if err := s.verifier.Check(); err != nil {
		return nil, fmt.Errorf("session verifier: %w", err)
	}
	return s, nil
}

// cookieNames are the full names of the cookies of a session, and the domain of the first.
type cookieNames struct {
	Session string
	Domain  string // empty: host-only
	Login   string // empty without a cookie domain
}

// What the doors of the service (package account/site) need of it.

// Web returns the address of the service, by which its doors answer.
func (s *Service) Web() *web.Site { return s.site }

// Cookies returns the names of the cookies of a session.
func (s *Service) Cookies() cookieNames { return s.cookies }

// Log returns the logger.
func (s *Service) Log() *slog.Logger { return s.log }

// Sealer returns what seals values that travel through a browser.
func (s *Service) Sealer() *web.Sealer { return s.seal }

// begin is Begin for an operation of the caller on their own account.
func (s *Service) begin(
	ctx context.Context, c account.Caller, act account.Act, detail string, data ...string,
) (account.Audit, error) {
	return s.Begin(ctx, c, act, c.User, detail, data...)
}

// boundedNotices returns the notices of an act that can be repeated at will, within the limit of
// mails: the first ones inform, and more would fill the mailbox. If the limit cannot be read, they
// are sent.
func (s *Service) boundedNotices(
	ctx context.Context, u account.User, kind string, data ...string,
) ([]account.Mail, error) {
	mails, err := s.Notices(ctx, u, kind, data...)
	if err != nil || len(mails) == 0 {
		return nil, err
	}
	if wait, err := s.Limits().Take(ctx, web.LimitMail, kind+":"+u.Sub); err == nil && wait > 0 {
		return nil, nil
	}
	return mails, nil
}
