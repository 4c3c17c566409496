// Package account owns the words of an installation's people: users, their access flags, sessions, passwords,
// factors, invites, reset codes, preferences and settings, the rules about them, the acts, and the storage (Store).
//
// It leaves to others: how things are stored (package store implements Store), what people do with their own account
// (package person), what administrators do (package roster), pages and JSON endpoints (package site) and OpenID
// Connect (package provider).
package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Base is what every operation stands on: the storage, the clock, and whether users are told by mail. A
// Service has one, and so has the administration (package account/roster).
type Base struct {
	store Store
	clock func() time.Time
	mail  bool // whether users are told
	// limits bounds the acts of a session; nil: not at all.
	limits *web.Limits
}

// NewBase returns a Base without mail. A nil now means time.Now.
func NewBase(store Store, now func() time.Time) Base {
	if now == nil {
		now = time.Now
	}
	return Base{store: store, clock: now}
}

// WithMail sets whether users are notified by mail of changes to their accounts.
func (b Base) WithMail(enabled bool) Base {
	b.mail = enabled
	return b
}

// WithLimits sets the rate limits.
func (b Base) WithLimits(limits *web.Limits) Base {
	b.limits = limits
	return b
}

// Limits returns the rate limits.
func (b Base) Limits() *web.Limits { return b.limits }

// Store returns the storage. What writes an account begins with Begin.
func (b Base) Store() Store { return b.store }

// AllOrNone calls do with a Base whose operations are one transaction: see BulkStore.
func (b Base) AllOrNone(ctx context.Context, doing string, do func(Base) error) error {
	return b.store.AllOrNone(ctx, doing, func(in Store) error {
		b := b
		b.store = in
		return do(b)
	})
}

// Now returns the current time in whole UTC seconds, the precision of the store.
func (b Base) Now() time.Time { return b.clock().UTC().Truncate(time.Second) }

// Zone returns the time zone of the club, in which a date is a last day: that of the settings, or of the server.
func (b Base) Zone(ctx context.Context) *time.Location {
	settings, _ := b.store.Settings(ctx) // before init they have none
	return settings.Zone(b.clock().Location())
}

// MailEnabled reports whether mails are sent: where not, none are put into Audit.Mails.
func (b Base) MailEnabled() bool { return b.mail }

// errUnknownAct is a fault of the program: an act without a row of the policy.
var errUnknownAct = errors.New("an act without a policy")

// Begin starts an operation on the account of u. It checks that the caller has given the proof that
// the act requires, and returns the audit row with what the act ends and the mails that notify the
// owner. detail must not contain a secret or a code; data are pairs for the mails.
// ErrReauthenticationRequired, ErrAdminRequired.
func (b Base) Begin(
	ctx context.Context, by Caller, act Act, u User, detail string, data ...string,
) (Audit, error) {
	err := b.Allow(by, act)
	if err == nil {
		err = b.CountAct(ctx, by, act)
	}
	if err != nil {
		return Audit{}, err
	}
	row := by.Audit(b.Now(), act, u.Handle, detail)
	row.Since = b.Now().Add(-Recently)
	if act.Told == "" {
		return row, nil
	}
	if by.User.Sub != u.Sub {
		ctx = templates.WithLanguage(ctx, nil) // the language of the request is somebody else's
	}
	mails, err := b.Notices(ctx, u, act.Told, data...)
	return row.With(mails...), err
}

// administratorActs is how many times as many acts an administrator may do as a member.
const administratorActs = 10

// uncounted are acts that the limit of acts neither counts nor refuses: an owner does them against a thief. Nor does
// it what opens a session, or is proven by a code or link.
var uncounted = []string{
	SignOut.Action, EndSession.Action, EndOtherSessions.Action, EndUserSession.Action, EndUserSessions.Action,
	ChangePassword.Action, RemoveFactor.Action,
}

// CountAct counts an act of the caller's session in the limit of acts, once a request, so that nobody drowns the
// audit log. Begin does it. ErrRateLimited.
func (b Base) CountAct(ctx context.Context, by Caller, act Act) error {
	open := act.Proof == ProofSignIn || act.Proof == ProofCode || slices.Contains(uncounted, act.Action)
	if by.Session.ID == "" || open || !web.FirstAct(ctx) {
		return nil
	}
	times := 1
	if by.User.Has(FlagAdmin) {
		times = administratorActs
	}
	wait, err := b.limits.TakeTimes(ctx, web.LimitActs, by.Session.ID, times)
	if err == nil && wait > 0 {
		err = web.RateLimited(wait)
	}
	return err
}

// Allow returns ErrReauthenticationRequired if the caller has not given the proof that the act
// requires, ErrAdminRequired if they are no administrator and have to be one. The store asks again, in
// the transaction of the act: see Audit.Bound.
func (b Base) Allow(by Caller, act Act) error {
	switch act.Proof {
	case ProofSession, ProofSignIn, ProofCode: // the operation itself asks for these
		return nil
	case ProofAdministrator:
		if !by.operator && !by.User.Has(FlagAdmin) {
			return ErrAdminRequired
		}
		fallthrough
	case ProofFresh:
		if by.Fresh(b.Now()) {
			return nil
		}
		return ErrReauthenticationRequired
	case ProofPassword:
		if !by.User.SecondFactor && !by.User.Passwordless() || by.Fresh(b.Now()) {
			return nil
		}
		return ErrReauthenticationRequired
	case ProofOperator:
		if by.operator {
			return nil
		}
		return ErrReauthenticationRequired
	}
	return errUnknownAct
}

// ChangeSettings checks and stores a change. Other settings stay, even if another process changes
// them at the same time. The error is a *Problem that names each wrong member.
func (b Base) ChangeSettings(ctx context.Context, by Caller, change SettingsChange) (Settings, error) {
	row, err := b.Begin(ctx, by, UpdateSettings, User{Handle: "settings"}, "")
	if err != nil {
		return Settings{}, err
	}
	v, err := b.store.AmendSettings(ctx, change.To, row)
	if err != nil {
		return v, fmt.Errorf("change settings: %w", err)
	}
	return v, nil
}
