package site

import (
	"net/http"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Site) invitesPage(r *http.Request, m templates.Member) (templates.Page, error) {
	u := IdentityFrom(r.Context()).User
	remaining, err := s.InvitesLeft(r.Context(), u)
	if err != nil {
		return nil, err
	}
	// Only the latest: /api/invites and the export have all.
	invites, err := s.Store().Invites(r.Context(), account.InviteQuery{Sub: u.Sub, Limit: account.PageOfInvites})
	if err != nil {
		return nil, err
	}
	page, now := templates.AccountInvites{Member: m, InvitesRemaining: remaining, Mail: s.MailEnabled(),
		Note: text.Cut(r.PostForm.Get("note"), maxShown), Email: text.Cut(r.PostForm.Get("email"), maxShown)}, s.Now()
	for _, i := range invites {
		used := !i.UsedAt.IsZero()
		page.Invites = append(page.Invites, templates.InviteRow{
			Code: i.Shown(), URL: s.InviteURL(i), Note: i.Note, MailedTo: i.MailedTo, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
			Used: used, UsedAt: i.UsedAt, UsedBy: i.UsedBy, Expired: !used && !i.Open(now),
		})
	}
	return page, nil
}

// invitePage shows an open invite of the person, to be printed.
func (s *Site) invitePage(w http.ResponseWriter, r *http.Request) error {
	code, m := account.CanonicalInviteCode(r.URL.Query().Get("code")), s.member(r)
	i, err := s.Store().Invite(r.Context(), code)
	if err == nil && (i.CreatedBy != IdentityFrom(r.Context()).User.Sub || !i.Open(s.Now())) {
		err = account.ErrInviteNotFound
	}
	if err != nil {
		return err
	}
	s.Show(w, r, http.StatusOK,
		templates.AccountInviteSlip{Member: m, Code: i.Shown(), URL: s.InviteURL(i), Note: i.Note,
			ExpiresAt: i.ExpiresAt})
	return nil
}

type inviteList struct {
	Invites   web.List `json:"invites"`   // there may be many
	Remaining *int     `json:"remaining"` // null: no limit
}

type inviteCreated struct {
	OK        bool      `json:"ok"`
	Code      string    `json:"code"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (s *Site) apiInvites(w http.ResponseWriter, r *http.Request) error {
	u := IdentityFrom(r.Context()).User
	remaining, err := s.InvitesLeft(r.Context(), u)
	if err != nil {
		return err
	}
	out := inviteList{Invites: s.ListInvites(r.Context(), u, func(i account.Invite) any { return s.InviteEntry(i) })}
	if remaining >= 0 {
		out.Remaining = &remaining
	}
	return web.StreamJSON(w, s.Now, out)
}

func (s *Site) apiCreateInvite(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Note  string `json:"note"`
		Email string `json:"email"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	i, err := s.CreateInvite(r.Context(), s.Caller(r), in.Note, in.Email)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated,
		inviteCreated{OK: true, Code: i.Shown(), URL: s.InviteURL(i), ExpiresAt: i.ExpiresAt})
}

func (s *Site) inviteForm(_ http.ResponseWriter, r *http.Request) error {
	_, err := s.CreateInvite(r.Context(), s.Caller(r), r.PostForm.Get("note"), r.PostForm.Get("email"))
	return err
}

func (s *Site) deleteInvite(_ http.ResponseWriter, r *http.Request) error {
	return s.DeleteInvite(r.Context(), s.Caller(r), parameter(r, "code"))
}
