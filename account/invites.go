package account

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account/web"
)

func (s *Service) mountInvites(m *mux.Router) {
	s.Handle(m, "/api/invites", web.Methods{"GET": s.RequireSession(s.apiInvites), "POST": s.RequireSession(s.apiCreateInvite)})
	s.Handle(m, "/api/invites/{code}", web.Methods{"DELETE": s.RequireSession(s.apiDeleteInvite)})
}

// inviteEntry is an invite as its owner lists it.
type inviteEntry struct {
	Code      string     `json:"code"` // in groups of four
	URL       string     `json:"url"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	Used      bool       `json:"used"`
	UsedBy    *string    `json:"used_by"` // handle
	UsedAt    *time.Time `json:"used_at"`
}

type inviteList struct {
	Invites   []inviteEntry `json:"invites"`
	Remaining *int          `json:"remaining"` // null: no limit
}

type inviteCreated struct {
	OK        bool      `json:"ok"`
	Code      string    `json:"code"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Service) apiInvites(w http.ResponseWriter, r *http.Request) {
	u := IdentityFrom(r.Context()).User
	remaining, err := s.invitesLeft(r.Context(), u)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	out := inviteList{Invites: []inviteEntry{}}
	if remaining >= 0 {
		out.Remaining = &remaining
	}
	s.streamJSON(w, r, out, "invites", func(add func(entries ...any) error) error {
		return s.eachInvite(r.Context(), u, func(page []Invite) error {
			for _, e := range s.inviteEntries(page) {
				if err := add(e); err != nil {
					return err
				}
			}
			return add()
		})
	})
}

func (s *Service) inviteEntries(invites []Invite) []inviteEntry {
	out := make([]inviteEntry, 0, len(invites))
	for _, i := range invites {
		e := inviteEntry{
			Code: i.Shown(), URL: s.InviteURL(i), CreatedAt: i.CreatedAt.UTC(), ExpiresAt: i.ExpiresAt.UTC(),
			Used: !i.UsedAt.IsZero(), UsedAt: TimeOrNull(i.UsedAt), UsedBy: textOrNull(i.UsedBy),
		}
		out = append(out, e)
	}
	return out
}

// pageOfInvites is how many invites are read at once.
const pageOfInvites = 200

// eachInvite calls do with a user's invites, newest first, page by page.
func (s *Service) eachInvite(ctx context.Context, u User, do func(page []Invite) error) error {
	for q := (InviteQuery{Sub: u.Sub, Limit: pageOfInvites}); ; {
		page, err := s.store.Invites(ctx, q)
		if err != nil {
			return fmt.Errorf("list invites: %w", err)
		}
		if err := do(page); err != nil || len(page) < q.Limit {
			return err
		}
		q.After = page[len(page)-1].Place()
	}
}

// invitesLeft is how many more invites a user may make; -1 is without limit.
func (s *Service) invitesLeft(ctx context.Context, u User) (int, error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return 0, err
	}
	left := settings.inviteLimit(u)
	if left < 0 {
		return -1, nil
	}
	now := s.now()
	err = s.eachInvite(ctx, u, func(page []Invite) error {
		for _, i := range page {
			if i.Open(now) || !i.UsedAt.IsZero() {
				left--
			}
		}
		return nil
	})
	return max(0, left), err
}

func (s *Service) apiCreateInvite(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Note string `json:"note"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		s.Fail(w, r, err)
		return
	}
	i, err := s.CreateInvite(r.Context(), IdentityFrom(r.Context()).User, in.Note)
	if err != nil {
		s.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusCreated, inviteCreated{OK: true, Code: i.Shown(), URL: s.InviteURL(i), ExpiresAt: i.ExpiresAt})
}

func (s *Service) apiDeleteInvite(w http.ResponseWriter, r *http.Request) {
	if err := s.deleteInvite(r.Context(), IdentityFrom(r.Context()).User, mux.Vars(r)["code"]); err != nil {
		s.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) deleteInvite(ctx context.Context, u User, typed string) error {
	code := canonicalCode(typed, inviteCodeLength)
	if code == "" {
		return ErrInviteNotFound
	}
	if err := s.store.DeleteInvite(ctx, u.Sub, code); err != nil {
		return fmt.Errorf("delete invite: %w", err)
	}
	web.Note(ctx, "invite_deleted")
	return nil
}

// TimeOrNull is how answers write a time that may never have been.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
