package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// ResetCodeLifetime is how long a password reset code can be used.
const ResetCodeLifetime = 24 * time.Hour

// ResetCode is a fresh code; it is shown once and stored hashed.
type ResetCode struct {
	Code      string // canonical
	ExpiresAt time.Time
	Hash      []byte
}

// NewResetCode draws a code of 130 bits.
func NewResetCode(now time.Time) ResetCode {
	c := newCode(resetCodeLength)
	return ResetCode{Code: c, ExpiresAt: now.UTC().Truncate(time.Second).Add(ResetCodeLifetime), Hash: hashOf(c)}
}

// Shown is the code in groups, as people read and copy it.
func (c ResetCode) Shown() string { return grouped(c.Code) }

// ResetURL is the link that opens the reset page of the issuer with handle and
// code filled in.
func ResetURL(issuer, handle string, c ResetCode) string {
	return issuer + "/reset-password/?" + url.Values{"handle": {handle}, "code": {c.Code}}.Encode()
}

// ResetURL is the link to this service's page.
func (s *Service) ResetURL(handle string, c ResetCode) string { return ResetURL(s.URL(""), handle, c) }

// Reset is what a person enters to set a new password.
type Reset struct {
	Handle   string `json:"handle"`
	Code     string `json:"code"`
	Password string `json:"password"`
}

// errUnknownReset is ErrInvalidResetCode for what could be a guess: it counts
// against the limits. A second click with a code that was good a moment ago, and
// that the first one has spent since, does not.
var errUnknownReset = fmt.Errorf("%w: not the code of this handle", ErrInvalidResetCode)

// ResetPassword spends a code. It neither signs in nor lifts a suspension; a
// refused password does not burn the code.
func (s *Service) ResetPassword(r *http.Request, in Reset) error {
	ctx := r.Context()
	in.Handle = withoutAt(in.Handle)
	handle, code, err := s.checkReset(r, in)
	if err != nil {
		if errors.Is(err, errUnknownReset) {
			web.Note(ctx, "reset_refused")
		}
		return err
	}
	hash, err := s.hashNew(ctx, in.Password, handle)
	if err != nil {
		return err
	}
	u, err := s.userNamed(ctx, handle)
	if err != nil {
		return err
	}
	a := ActorFor(r, User{Handle: handle}).Own(s.now(), "password.reset", "").with(s.notices(ctx, u, MailPasswordChanged)...)
	return web.Noted(ctx, "password_reset", s.store.ResetPassword(ctx, handle, hashOf(code), hash, s.now(), a))
}

// checkReset gives its verdict on a code, within the limits.
func (s *Service) checkReset(r *http.Request, in Reset) (handle, code string, err error) {
	ctx := r.Context()
	address := web.LimitKey{Name: web.LimitReset, Key: web.ClientAddress(r)}
	if err := s.limits.Blocked(ctx, address); err != nil {
		return "", "", err
	}
	if handle, err = s.handleOf(ctx, in.Handle); err != nil {
		return "", "", err
	}
	limits := []web.LimitKey{address, {Name: web.LimitResetAccount, Key: accountKey(handle), Exempt: func(refusal error) error {
		u, err := s.userNamed(ctx, handle)
		s.recordLimited(r, u, "password.limited", refusal)
		return cmp.Or(err, refusal)
	}}}
	err = s.limits.Guess(ctx, limits, errUnknownReset, func() error {
		code = canonicalCode(in.Code, resetCodeLength)
		if code == "" {
			return errUnknownReset
		}
		valid, err := s.store.ResetCodeValid(ctx, handle, hashOf(code), s.now())
		switch {
		case err != nil:
			return err
		case valid:
			s.shownCodes.add(handle, code, s.now())
			return nil
		case s.shownCodes.has(handle, code, s.now()):
			return ErrInvalidResetCode
		}
		return errUnknownReset
	})
	return handle, code, err
}

// handleOf is the handle of the account that was named by it or by its verified
// address. What names none is returned in a form that is nobody's handle.
func (s *Service) handleOf(ctx context.Context, typed string) (string, error) {
	if handle, err := CanonicalHandle(typed); err == nil {
		return handle, nil
	}
	nobody := "@" + accountKey(typed)
	if !strings.Contains(typed, "@") {
		return nobody, nil
	}
	u, err := s.userNamed(ctx, typed)
	return cmp.Or(u.Handle, nobody), err
}

// shownMemory is how long a code is known to have been good.
const shownMemory = 15 * time.Minute

// shownCodes are the good codes that people have shown here lately. Without them a
// second click that comes when the first one has spent the code looks like a guess.
type shownCodes struct {
	mu sync.Mutex
	at map[string]time.Time // by the hash of handle and code
}

func (c *shownCodes) add(handle, code string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.at, func(_ string, at time.Time) bool { return now.Sub(at) > shownMemory })
	if c.at == nil {
		c.at = map[string]time.Time{}
	}
	c.at[string(hashOf(handle+" "+code))] = now
}

func (c *shownCodes) has(handle, code string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.at[string(hashOf(handle+" "+code))]
	return ok && now.Sub(at) <= shownMemory
}

func (s *Service) apiResetPassword(w http.ResponseWriter, r *http.Request) error {
	var in Reset
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	if err := s.ResetPassword(r, in); errors.Is(err, ErrInvalidResetCode) {
		return s.withContact(r.Context(), ErrInvalidResetCode, "The handle and the code do not go together, or the code is used or expired. Ask an administrator for a new one. Contact: {contact}")
	} else if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// resetPage shows the form, filled in from the link. It says nothing about the
// code: looking is not an attempt.
func (s *Service) resetPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	page := templates.ResetPassword{Code: canonicalCode(q.Get("code"), resetCodeLength)}
	page.Continue, _ = s.continuation(r, q)
	if h, err := CanonicalHandle(q.Get("handle")); err == nil {
		page.Handle = h
	}
	return s.showReset(w, r, http.StatusOK, page)
}

func (s *Service) showReset(w http.ResponseWriter, r *http.Request, status int, page templates.ResetPassword) error {
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	page.MinPassword, page.Contact, page.Mail = settings.MinPassword, settings.Contact, s.MailEnabled()
	s.Show(w, r, status, page)
	return nil
}

func (s *Service) resetForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	f := r.PostForm
	next, _ := s.continuation(r, f)
	in := Reset{Handle: f.Get("handle"), Code: f.Get("code"), Password: f.Get("password")}
	err := s.ResetPassword(r, in)
	if err == nil {
		return s.showReset(w, r, http.StatusOK, templates.ResetPassword{Done: true, Continue: next})
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	return s.showReset(w, r, p.Status, templates.ResetPassword{
		Handle: cut(in.Handle, 64), Code: cut(in.Code, 64), Error: p.Detail, ErrorCode: p.Code, Continue: next,
	})
}

// changePasswordPage is where password managers look for the form (W3C "A
// Well-Known URL for Changing Passwords").
func (s *Service) changePasswordPage(w http.ResponseWriter, r *http.Request) error {
	return s.Redirect(w, r, "/account/security#password")
}
