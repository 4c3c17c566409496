package site

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
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
	settings, err := s.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	typed := func(name string) string { return text.Cut(r.PostForm.Get(name), maxShown) }
	apps, err := s.AppsFor(r.Context(), u)
	if err != nil {
		return nil, err
	}
	page, now := templates.AccountInvites{Member: m, InvitesRemaining: remaining, Mail: s.MailEnabled(),
		Note: typed("note"), Email: typed("email"), Uses: typed("uses"), Days: typed("days"), Domain: typed("domain"),
		MaxUses: settings.InviteMaxUses, MaxDays: settings.InviteMaxDays, AccountEnds: typed("account_ends"),
		Once: rand.Text(), Apps: entry.WithHome(apps)}, s.Now()
	chosen := cmp.Or(typed("app"), r.URL.Query().Get("app"))
	if slices.ContainsFunc(page.Apps, func(app templates.AppRow) bool { return app.ClientID == chosen }) {
		page.App = chosen
	}
	flags := settings.InviteFlags
	if u.Has(account.FlagAdmin) {
		flags, page.MaxUses, page.MaxDays = settings.Flags, account.MaxInviteUses, account.MaxInviteDays
	}
	err = s.MayJoin(r.Context(), settings)
	if page.Closed = errors.Is(err, account.ErrRegistrationFull); err != nil && !page.Closed {
		return nil, err
	}
	page.UsualDays = min(int(account.InviteLifetime/(24*time.Hour)), settings.InviteMaxDays)
	described := settings.In(templates.LanguageOf(r.Context())).FlagDescriptions
	for _, f := range flags {
		page.Flags = append(page.Flags, templates.FlagRow{Name: f, Description: described[f],
			Default: slices.Contains(r.PostForm["flag"], f), Ends: typed("ends." + f)})
	}
	for _, i := range invites {
		i, used := i.For(s.Caller(r), now), !i.UsedAt.IsZero()
		page.Invites = append(page.Invites, templates.InviteRow{
			Code: i.Shown(), URL: account.LeadingTo(s.InviteURL(i), page.App), Note: i.Note, MailedTo: i.MailedTo,
			CreatedAt: i.CreatedAt,
			ExpiresAt: i.ExpiresAt, Used: used, UsedAt: i.UsedAt, UsedBy: i.UsedBy, Expired: !i.Open(now),
			InviteUse: i.Use(), Joined: i.Joined,
		})
	}
	return page, nil
}

// invitePage shows an open invite of the person, to be printed.
func (s *Site) invitePage(w http.ResponseWriter, r *http.Request) error {
	code, m := account.CanonicalInviteCode(r.URL.Query().Get("code")), s.member(r)
	i, err := s.Store().Invite(r.Context(), code)
	u := IdentityFrom(r.Context()).User
	if err == nil && (i.CreatedBy != u.Sub || !i.Open(s.Now())) {
		err = account.ErrInviteNotFound
	}
	if err != nil {
		return err
	}
	settings, err := s.Settings(r.Context())
	if err != nil {
		return err
	}
	use := i.Use()
	if !use.AccountEnds.IsZero() {
		use.AccountEnds = use.AccountEnds.In(s.Zone(r.Context())).Add(-time.Second) // on the last day
	}
	s.Show(w, r, http.StatusOK,
		templates.AccountInviteSlip{Member: m, Code: i.Shown(), Note: i.Note,
			URL:  account.LeadingTo(s.InviteURL(i), text.Cut(r.URL.Query().Get("app"), account.MaxClientID)),
			Left: i.Uses - i.Used, InviteUse: use,
			ExpiresAt: i.ExpiresAt.In(templates.Zone(u.Profile.Zoneinfo, settings.TimeZone))})
	return nil
}

// typedNumber returns the number in a field, nil for an empty one, and 0, which is refused, for other text.
func typedNumber(typed string) *int {
	typed = strings.TrimSpace(typed)
	if typed == "" {
		return nil
	}
	n, _ := strconv.Atoi(typed)
	return &n
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
	by, now := s.Caller(r), s.Now()
	out := inviteList{Invites: s.ListInvites(r.Context(), u, func(i account.Invite) any {
		return entry.InviteOf(i.For(by, now), s.InviteURL)
	})}
	if remaining >= 0 {
		out.Remaining = &remaining
	}
	return web.StreamJSON(w, s.Now, out)
}

func (s *Site) apiCreateInvite(w http.ResponseWriter, r *http.Request) error {
	var in account.InviteTerms
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	i, err := s.CreateInvite(r.Context(), s.Caller(r), in)
	return web.Answer(w, http.StatusCreated,
		inviteCreated{OK: true, Code: i.Shown(), URL: s.InviteURL(i), ExpiresAt: i.ExpiresAt}, err)
}

func (s *Site) inviteForm(_ http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	flags := slices.Clone(f["flag"])
	for i, name := range flags {
		if ends := strings.TrimSpace(f.Get("ends." + name)); ends != "" {
			flags[i] += "@" + ends
		}
	}
	_, err := s.CreateInvite(r.Context(), s.Caller(r), account.InviteTerms{Note: f.Get("note"), Email: f.Get("email"),
		Flags: flags, Uses: typedNumber(f.Get("uses")), Days: typedNumber(f.Get("days")), Domain: f.Get("domain"),
		AccountEnds: f.Get("account_ends"), Once: f.Get("once"), App: text.Cut(f.Get("app"), account.MaxClientID)})
	return err
}

func (s *Site) deleteInvite(_ http.ResponseWriter, r *http.Request) error {
	return s.DeleteInvite(r.Context(), s.Caller(r), parameter(r, "code"))
}
