package account

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// Purposes of the sealed values in links of mails, which are also the names of their
// pages. A link opens a page with a button: what follows links in mails spends nothing.
const (
	purposeVerify = "verify-email"
	purposeUndo   = "undo-email"
	purposeNotMe  = "not-me"
)

type verifyLink struct {
	Sub   string `json:"sub"`
	Email string `json:"email"`
	Asked int64  `json:"asked"`
}

type undoLink struct {
	ID string `json:"id"`
}

type notMeLink struct {
	Sub     string `json:"sub"`
	Session string `json:"sid"`
}

// ErrOtherAccount: see verifyLinked.
var errOtherAccount = web.NewProblem(403, "other_account", "You are signed in to another account than the one that this link is for. Sign out, then open the link again.")

// mailLink seals v into a link to the page of the purpose.
func (s *Service) mailLink(purpose string, v any, label string) (*templates.MailLink, error) {
	sealed, err := s.seal.Seal(purpose, v)
	if err != nil {
		return nil, err
	}
	return &templates.MailLink{Label: label, URL: s.URL("/" + purpose + "/?" + url.Values{"link": {sealed}}.Encode())}, nil
}

// linked is what a link of a mail leads to.
type linked struct {
	page templates.LinkPage
	do   func(w http.ResponseWriter) error // behind the button
	next string                            // where it leads afterwards; empty: the page itself
}

// linkPage shows the page of a link, linkForm does what its button says.
func (s *Service) linkPage(purpose string, find func(r *http.Request, sealed string) (linked, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return s.followLink(w, r, purpose, r.URL.Query().Get("link"), find)
	}
}

func (s *Service) linkForm(purpose string, find func(r *http.Request, sealed string) (linked, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.ReadForm(w, r); err != nil {
			return err
		}
		return s.followLink(w, r, purpose, r.PostForm.Get("link"), find)
	}
}

func (s *Service) followLink(w http.ResponseWriter, r *http.Request, purpose, sealed string, find func(r *http.Request, sealed string) (linked, error)) error {
	l, err := find(r, sealed)
	if err == nil && r.Method == http.MethodPost && !l.page.Done {
		if err = l.do(w); err == nil && l.next != "" {
			return s.Redirect(w, r, l.next)
		}
		l.page.Done = true
	}
	l.page.Name, l.page.Link = purpose, sealed
	if err != nil {
		p, err := web.Refusal(w, r, err)
		if err != nil {
			return err
		}
		s.Show(w, r, p.Status, templates.LinkPage{Name: purpose, Error: p.Detail, ErrorCode: p.Code})
		return nil
	}
	s.Show(w, r, http.StatusOK, l.page)
	return nil
}

// open reads a sealed link. ErrInvalidLink.
func (s *Service) openLink(purpose, sealed string, v any) error {
	if s.seal.Open(purpose, sealed, v) != nil {
		return ErrInvalidLink
	}
	return nil
}

// linkedUser is the user a link is about. ErrInvalidLink.
func (s *Service) linkedUser(r *http.Request, sub string) (User, error) {
	u, err := s.store.UserBySub(r.Context(), sub)
	if errors.Is(err, ErrUserNotFound) {
		err = ErrInvalidLink
	}
	return u, err
}

// verifyLinked is behind the link that verifies an address. Who is signed in to another
// account is refused: they would verify their own address for somebody else's account.
func (s *Service) verifyLinked(r *http.Request, sealed string) (linked, error) {
	var v verifyLink
	if err := s.openLink(purposeVerify, sealed, &v); err != nil {
		return linked{}, err
	}
	u, err := s.linkedUser(r, v.Sub)
	if err != nil {
		return linked{}, err
	}
	// Whose account it is, the mail says too: who verifies an address has to know for whom.
	page := templates.LinkPage{Handle: u.Handle, Email: maskedEmail(v.Email)}
	switch id, err := s.Current(r); {
	case err == nil && id.User.Sub != u.Sub:
		return linked{}, errOtherAccount
	case err == nil:
		page.Email = v.Email
	case !errors.Is(err, ErrNotAuthenticated):
		return linked{}, err
	}
	page.Done = u.Email == v.Email && u.EmailVerified
	asked := time.Unix(v.Asked, 0).UTC()
	if !page.Done && (u.Email != v.Email || !u.EmailAskedAt.Equal(asked) || !s.verifiable(u)) {
		return linked{}, ErrInvalidLink
	}
	return linked{page: page, do: func(http.ResponseWriter) error { return s.verifyEmail(r, u, asked) }}, nil
}

// undoLinked is behind the link in the mail to the address before a change.
func (s *Service) undoLinked(r *http.Request, sealed string) (linked, error) {
	var v undoLink
	if err := s.openLink(purposeUndo, sealed, &v); err != nil {
		return linked{}, err
	}
	change, err := s.store.EmailChange(r.Context(), v.ID, s.now())
	if err != nil {
		return linked{}, err
	}
	u, err := s.linkedUser(r, change.Sub)
	if err != nil {
		return linked{}, err
	}
	return linked{page: templates.LinkPage{Email: maskedEmail(change.Email)}, do: func(w http.ResponseWriter) error {
		ctx := r.Context()
		a := ActorFor(r, User{}).Audit(s.now(), "email.undo", "", "")
		if u.Email != change.Email { // perhaps it is the former address that is in wrong hands
			a = a.with(s.notices(ctx, u, MailEmailChanged, "undone", "true")...)
		}
		if err := s.store.UndoEmailChange(ctx, v.ID, s.now(), a); err != nil {
			return err
		}
		web.Note(ctx, "email_undone")
		return nil
	}}, nil
}

// notMeLinked is behind the link in the notice of a sign-in: it ends that session, and
// asks for a new password. It signs nobody in.
func (s *Service) notMeLinked(r *http.Request, sealed string) (linked, error) {
	var v notMeLink
	if err := s.openLink(purposeNotMe, sealed, &v); err != nil {
		return linked{}, err
	}
	u, err := s.linkedUser(r, v.Sub)
	if err != nil {
		return linked{}, err
	}
	next := "/forgot-password/?" + url.Values{"handle": {u.Handle}}.Encode()
	return linked{page: templates.LinkPage{Handle: u.Handle}, next: next, do: func(http.ResponseWriter) error {
		a := ActorFor(r, u).Own(s.now(), "session.not_me", v.Session)
		err := s.store.EndSession(r.Context(), u.Sub, v.Session, s.now(), a)
		if errors.Is(err, ErrSessionNotFound) {
			return nil // it has ended
		}
		return web.Noted(r.Context(), "session_not_me", err)
	}}, nil
}
