package admin

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) revokeInvite(w http.ResponseWriter, r *http.Request) error {
	return web.NoContent(w, s.users.RevokeInvite(r.Context(), s.accounts.Caller(r), mux.Vars(r)["code"]))
}

// revokeBranch revokes the open invites of a user and of all below them in the tree.
func (s *Service) revokeBranch(w http.ResponseWriter, r *http.Request, in struct {
	Handle string `json:"handle"`
}) error {
	u, err := s.users.User(r.Context(), in.Handle)
	if err != nil {
		return err
	}
	n, err := s.users.RevokeBranch(r.Context(), s.accounts.Caller(r), u)
	return web.Answer(w, http.StatusOK, struct {
		OK      bool `json:"ok"`
		Revoked int  `json:"revoked"`
	}{true, n}, err)
}

func branchRow(b account.Branch) templates.BranchRow {
	u := b.User
	return templates.BranchRow{
		Handle: u.Handle, DisplayName: u.DisplayName, InvitedBy: u.InvitedBy, Suspended: u.Suspended(),
		LastLoginAt: u.LastLoginAt, Invited: b.Invited, Active: b.Active, Open: b.Open,
		Note: b.By.Note, JoinedBy: b.By.CreatedAt,
	}
}

func branchRows(list []account.Branch) []templates.BranchRow {
	out := make([]templates.BranchRow, len(list))
	for i, b := range list {
		out[i] = branchRow(b)
	}
	return out
}

func (s *Service) invitesPage(w http.ResponseWriter, r *http.Request) error {
	under, page := r.URL.Query().Get("under"), templates.AdminInvites{Answer: answerTo(r)}
	return s.showInvitesPage(w, r, http.StatusOK, under, page)
}

// showInvitesPage shows one level of the tree with the open invites: those of the person, at the root all.
func (s *Service) showInvitesPage(
	w http.ResponseWriter, r *http.Request, status int, under string, page templates.AdminInvites,
) error {
	ctx := r.Context()
	p, err := readPage(r)
	if err != nil {
		return err
	}
	var u account.User
	if under != "" {
		if u, err = s.users.User(ctx, under); err != nil {
			return err
		}
		row := branchRow(account.Branch{User: u})
		page.Under = &row
	}
	branches, err := s.users.Branches(ctx, u, p.key, p.limit+1)
	if err != nil {
		return err
	}
	if len(branches) > p.limit {
		branches = branches[:p.limit]
		page.Next = s.nextPage(r, web.Cursor(branches[p.limit-1].User.Handle))
	}
	page.Branches, page.Once, page.Mail = branchRows(branches), rand.Text(), s.accounts.MailEnabled()
	if under == "" {
		if err := s.joinRequests(r, &page); err != nil {
			return err
		}
	}
	if err := s.openInvites(r, u, &page); err != nil {
		return err
	}
	s.accounts.Show(w, r, status, page)
	return nil
}

// shownOpen is how many open invites a page lists.
const shownOpen = 50

func (s *Service) openInvites(r *http.Request, of account.User, page *templates.AdminInvites) error {
	const most = 1_000_000
	skip := 0
	if at := r.URL.Query().Get("skip"); at != "" {
		var err error
		if skip, err = strconv.Atoi(at); err != nil || skip < 0 || skip > most {
			return account.ErrInvalidCursor
		}
	}
	list, err := s.users.OpenInvites(r.Context(), of, skip, shownOpen+1)
	if err != nil {
		return err
	}
	if len(list) > shownOpen {
		list = list[:shownOpen]
		page.NextOpen = "/admin/invites?" + underQuery(of.Handle) + "skip=" + strconv.Itoa(skip+shownOpen) + "#open"
	}
	page.Open = s.openInviteRows(r, list)
	return nil
}

// underQuery begins the query of a branch's page, "" for the root.
func underQuery(handle string) string {
	if handle == "" {
		return ""
	}
	return "under=" + url.QueryEscape(handle) + "&"
}

func (s *Service) openInviteRows(r *http.Request, list []account.Invite) (rows []templates.OpenInviteRow) {
	for _, i := range list {
		i = i.For(s.accounts.Caller(r), s.users.Now())
		rows = append(rows, templates.OpenInviteRow{
			Code: i.Shown(), By: i.Inviter, Note: i.Note, MailedTo: i.MailedTo, CreatedAt: i.CreatedAt,
			ExpiresAt: i.ExpiresAt, InviteUse: i.Use(),
		})
	}
	return rows
}

// revokeForm revokes the invite in the field code, which was listed on the page of the branch in
// the field of if there is one, or all open invites of the branch in the field under.
func (s *Service) revokeForm(w http.ResponseWriter, r *http.Request) error {
	ctx, by := r.Context(), s.accounts.Caller(r)
	if under := r.PostForm.Get("under"); under != "" {
		u, err := s.users.User(ctx, under)
		if err != nil {
			return err
		}
		n, err := s.users.RevokeBranch(ctx, by, u)
		if err != nil {
			return err
		}
		done := templates.LanguageOf(ctx).Text("{count} open invites are revoked.", "count", n)
		answer := templates.Answer{Section: "revoke", Notice: done}
		return s.showInvitesPage(w, r, http.StatusOK, under, templates.AdminInvites{Answer: answer})
	}
	of := ""
	if handle, err := account.CanonicalHandle(r.PostForm.Get("of")); err == nil {
		of = handle
	}
	err := s.users.RevokeInvite(ctx, by, r.PostForm.Get("code"))
	if err == nil {
		return s.accounts.Redirect(w, r, "/admin/invites?"+underQuery(of)+"notice=invite-revoked#open")
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	answer := templates.Answer{Section: "open", Error: p.Detail, ErrorCode: p.Code}
	return s.showInvitesPage(w, r, p.Status, of, templates.AdminInvites{Answer: answer})
}
