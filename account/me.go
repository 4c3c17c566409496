package account

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

func (s *Service) mountMe(m *mux.Router) {
	signedIn := s.RequireSession
	s.Handle(m, "/api/me", web.Methods{"GET": signedIn(s.apiMe), "PATCH": signedIn(s.apiPatchMe), "DELETE": signedIn(s.apiDeleteMe)})
	s.Handle(m, "/api/me/password", web.Methods{"PUT": signedIn(s.apiPutPassword)})
	s.Handle(m, "/api/me/prefs", web.Methods{"GET": signedIn(s.apiPreferences), "PUT": signedIn(s.apiPutPreferences)})
	s.Handle(m, "/api/me/sessions", web.Methods{"GET": signedIn(s.apiSessions)})
	s.Handle(m, "/api/me/sessions/end-others", web.Methods{"POST": signedIn(s.apiEndOtherSessions)})
	s.Handle(m, "/api/me/sessions/{id}", web.Methods{"DELETE": signedIn(s.apiEndSession)})
	s.Handle(m, "/api/me/apps", web.Methods{"GET": signedIn(s.apiApps)})
	s.Handle(m, "/api/me/apps/{client_id}", web.Methods{"DELETE": signedIn(s.apiRemoveApp)})
	s.Handle(m, "/api/me/export", web.Methods{"GET": signedIn(s.apiExport)})
}

// me is a user as they see themselves.
type me struct {
	Sub           string          `json:"sub"`
	Handle        string          `json:"handle"`
	DisplayName   string          `json:"display_name"`
	Email         string          `json:"email"` // empty: none
	EmailVerified bool            `json:"email_verified"`
	Flags         map[string]bool `json:"flags"`
	CreatedAt     time.Time       `json:"created_at"`
	Session       meSession       `json:"session"`
	shownProfile                  // the claims that are set
}

type meSession struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) describeMe(r *http.Request, u User, row Session) (me, error) {
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return me{}, err
	}
	return me{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, EmailVerified: u.EmailVerified,
		Flags: flags, CreatedAt: u.CreatedAt.UTC(),
		Session:      meSession{ID: row.ID, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()},
		shownProfile: shown(u.Profile),
	}, nil
}

func (s *Service) apiMe(w http.ResponseWriter, r *http.Request) {
	id := IdentityFrom(r.Context())
	s.answerMe(w, r, id.User, id.Session)
}

func (s *Service) answerMe(w http.ResponseWriter, r *http.Request, u User, row Session) {
	out, err := s.describeMe(r, u, row)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, out)
}

func (s *Service) apiPutPassword(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Current string `json:"current_password"`
		New     string `json:"new_password"`
	}
	err := web.ReadJSON(w, r, &in)
	if err == nil {
		err = s.ChangePassword(r, in.Current, in.New)
	}
	if err != nil {
		if p, _ := web.ProblemOf(err); p.Code == "weak_password" {
			p.Errors[0].Pointer = "/new_password"
			err = p
		}
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// ChangePassword sets a new password of the signed-in user, who proves the old
// one, and ends their other sessions. ErrInvalidCredentials, ErrWeakPassword.
func (s *Service) ChangePassword(r *http.Request, current, password string) error {
	ctx, id := r.Context(), IdentityFrom(r.Context())
	u, err := s.verifyPassword(r, id.User, current)
	if err != nil {
		return err
	}
	settings, err := s.Settings(ctx)
	if err != nil {
		return err
	}
	if err := CheckPassword(password, u.Handle, settings.MinPassword); err != nil {
		return err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	if err := s.store.ChangePassword(ctx, u.Sub, u.PasswordHash, hash, id.Session.ID, s.now()); err != nil {
		return fmt.Errorf("change password: %w", err)
	}
	web.Note(ctx, "password_changed")
	return nil
}

func (s *Service) apiDeleteMe(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Password string `json:"password"`
	}
	err := web.ReadJSON(w, r, &in)
	if err == nil {
		err = s.deleteMe(w, r, in.Password)
	}
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) deleteMe(w http.ResponseWriter, r *http.Request, password string) error {
	ctx := r.Context()
	u, err := s.verifyPassword(r, IdentityFrom(ctx).User, password)
	if err != nil {
		return err
	}
	// Their address is personal data: the audit row goes without it.
	a := Audit{At: s.now(), Actor: u.Handle, Action: "user.delete", Target: u.Handle, RequestID: web.RequestID(ctx)}
	if err := s.store.DeleteUser(ctx, u.Sub, s.now(), a); err != nil && !errors.Is(err, ErrUserNotFound) {
		return fmt.Errorf("delete own account: %w", err)
	}
	s.clearCookies(w)
	web.Note(ctx, "account_deleted")
	return nil
}

func (s *Service) apiPatchMe(w http.ResponseWriter, r *http.Request) {
	c, err := ReadUserChange(w, r, ownMember)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	u, err := s.changeProfile(r, c)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	s.answerMe(w, r, u, IdentityFrom(r.Context()).Session)
}
