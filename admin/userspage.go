package admin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/site"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

func (s *Service) usersPage(w http.ResponseWriter, r *http.Request) error {
	return s.showUsersPage(w, r, http.StatusOK, templates.AdminUsers{Answer: answerTo(r)})
}

func (s *Service) showUsersPage(w http.ResponseWriter, r *http.Request, status int, page templates.AdminUsers) error {
	list, err := s.usersOf(r)
	if err != nil {
		return err
	}
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	q := list.query
	page.Filter = templates.UserFilter{
		Query: q.Query, Flag: q.Flag, Sort: q.Sort,
		InvitedBy: q.InvitedBy, Inactive: strings.TrimSpace(r.URL.Query().Get("inactive")),
		Suspended: q.Suspended, NeverSignedIn: q.NeverSignedIn, NoSecondFactor: q.NoSecondFactor,
		Ending: strings.TrimSpace(r.URL.Query().Get("ending")), App: q.App,
	}
	apps, err := s.accounts.AppsFor(r.Context(), site.IdentityFrom(r.Context()).User)
	if err != nil {
		return err
	}
	page.ByMail, page.Apps = s.accounts.MailEnabled(), entry.WithHome(apps)
	page.Flags, page.Next = settings.Flags, s.nextPage(r, list.Next)
	page.Total, page.AtLeast = list.Total, !list.Exact
	if !list.Exact && list.Total == 0 {
		page.Total = -1
	}
	page.AllAtOnce = list.Exact && list.Total <= roster.MaxAtOnce
	page.Query = filters(r).Encode()
	page.CSV = "/admin/users.csv?" + selection(r, userFilters).Encode()
	if page.Section != "add" {
		page.New.Flags = settings.DefaultFlags
	}
	page.Users = rowsOf(list.Users)
	s.accounts.Show(w, r, status, page)
	return nil
}

var userFilters = []string{"query", "flag", "suspended", "ending", "never_signed_in", "no_second_factor", "invited_by",
	"inactive", "app", "sort"}

// usersCSV answers with all selected people as CSV (RFC 4180), which the list of people to add reads too.
func (s *Service) usersCSV(w http.ResponseWriter, r *http.Request) error {
	q, err := s.userQuery(r.URL.Query())
	if err != nil {
		return err
	}
	columns := []string{"handle", "display_name", "email", "email_verified", "flags", "suspended", "ends", "created_at",
		"last_login_at", "invited_by"}
	row := account.Audit{Target: "people", Detail: selection(r, userFilters).Encode()}
	return s.export(w, r, account.ExportUsers, row, "people.csv", contentCSV, func(to *bufio.Writer) error {
		if err := record(to, slices.Clone(columns)...); err != nil {
			return err
		}
		return s.users.EachUser(r.Context(), q, func(u account.User) error {
			m, err := roster.Exported(u)
			if err != nil {
				return err
			}
			if m["invited_by"] = u.InvitedBy; !u.LastLoginAt.IsZero() {
				m["last_login_at"] = u.LastLoginAt.UTC().Format(time.RFC3339)
			}
			fields := make([]string, len(columns))
			for i, name := range columns {
				fields[i] = m[name]
			}
			return record(to, fields...)
		})
	})
}

// nextPage returns the local path of the page after the requested one, or "" if there is none.
func (s *Service) nextPage(r *http.Request, cursor string) string {
	if cursor == "" {
		return ""
	}
	q := filters(r)
	q.Set("cursor", cursor)
	return strings.TrimPrefix(r.URL.EscapedPath(), s.accounts.Path("")) + "?" + q.Encode()
}

// filters returns the parameters of a request that select what is listed.
func filters(r *http.Request) url.Values {
	q := r.URL.Query()
	for name := range q {
		if q.Get(name) == "" || name == "notice" {
			q.Del(name)
		}
	}
	return q
}

// addForm adds a user and shows their page with the code, which is shown only once.
func (s *Service) addForm(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	n := account.NewUser{
		Handle: f.Get("handle"), DisplayName: f.Get("display_name"), Email: f.Get("email"),
		Flags: append([]string{}, f["flag"]...), App: text.Cut(f.Get("app"), account.MaxClientID),
	}
	u, c, err := s.users.Add(r.Context(), s.accounts.Caller(r), n)
	if err == nil && c.Hash == nil {
		return s.accounts.Redirect(w, r, noticeOn(u, "added-by-mail"))
	}
	if err == nil {
		page := templates.AdminUser{Welcome: true, ResetCode: c.Shown(),
			ResetURL: account.LeadingTo(s.accounts.ResetURL(u.Handle, c), n.App)}
		return s.showUserPage(w, r, http.StatusOK, u, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	page := templates.AdminUsers{
		Faults: p.ByField(), App: n.App,
		New: templates.NewPerson{Handle: n.Handle, DisplayName: n.DisplayName, Email: n.Email, Flags: n.Flags},
	}
	if errors.Is(p, account.ErrHandleTaken) {
		page.Faults["handle"] = p.Detail
	}
	page.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), "add", p.Detail, p.Code, page.Faults)
	return s.showUsersPage(w, r, p.Status, page)
}

// notices are the messages that a page can show after a form, with the section of the form. The
// query selects one; it never supplies text.
var notices = map[string]struct {
	section string
	text    templates.Text
}{
	"profile-saved":  {"profile", "The profile is saved."},
	"flags-saved":    {"access", "The access is saved."},
	"added-by-mail":  {"password", "The account is created. We have emailed the link to choose a password."},
	"unlocked":       {"password", "Sign-in is unlocked."},
	"session-ended":  {"sessions", "The device is signed out."},
	"sessions-ended": {"sessions", "The person is signed out everywhere."},
	"end-saved":      {"ends", "The expiry date is saved."},
	"suspended":      {"end", "The account is suspended and signed out everywhere."},
	"factors-reset":  {"factors", "The second factors are removed. The person is signed out everywhere."},
	"unsuspended":    {"end", "The suspension is lifted."},
	"deleted":        {"", "The account is deleted."},
	"invite-revoked": {"open", "The invite is revoked."},
	"join-accepted":  {"requests", "We have sent the link to join."},
	"join-refused":   {"requests", "We have sent the answer and deleted the request."},
	"test-mail":      {"service", "We have sent the test email. It can take a minute."},
	"logo-saved":     {"logo", "The club picture is saved."},
	"logo-removed":   {"logo", "The club picture is removed."},

	"dark-logo-saved":   {"dark-logo", "The club picture is saved."},
	"dark-logo-removed": {"dark-logo", "The club picture is removed."},

	"general":  {"general", "The settings are saved."},
	"flags":    {"flags", "The settings are saved."},
	"joining":  {"joining", "The settings are saved."},
	"advanced": {"advanced", "The settings are saved."},
	"security": {"security", "The settings are saved."},
}

func answerTo(r *http.Request) templates.Answer {
	n := notices[r.URL.Query().Get("notice")]
	return templates.Answer{Section: n.section, Notice: templates.LanguageOf(r.Context()).Text(n.text)}
}

func rowOf(u account.User) templates.AdminUserRow {
	return templates.AdminUserRow{
		Sub: u.Sub, Handle: u.Handle, DisplayName: u.DisplayName, Email: u.Email, Flags: u.Flags,
		Suspended: u.Suspended(), Ended: u.Ended(), EndsAt: nextEnd(u),
		CreatedAt: u.CreatedAt, LastLoginAt: u.LastLoginAt, InvitedBy: u.InvitedBy,
	}
}

// nextEnd returns when the account or the first of its flags ends; zero: never, or it has ended.
func nextEnd(u account.User) time.Time {
	if u.Suspended() {
		return time.Time{}
	}
	next := u.EndsAt
	for _, at := range u.FlagEnds {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

func (s *Service) userPage(w http.ResponseWriter, r *http.Request, u account.User) error {
	return s.showUserPage(w, r, http.StatusOK, u, templates.AdminUser{Answer: answerTo(r)})
}

func (s *Service) showUserPage(
	w http.ResponseWriter, r *http.Request, status int, u account.User, page templates.AdminUser,
) error {
	id := site.IdentityFrom(r.Context())
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	access, err := s.users.Access(r.Context(), u)
	if err != nil {
		return err
	}
	if page.Section != "profile" || page.Error == "" {
		profile := &page.Profile
		profile.Waiting = u.Pending.Email
		profile.DisplayName, profile.Email, profile.EmailVerified = u.DisplayName, u.Email, u.EmailVerified
	}
	for _, name := range attributeNames(settings, u) {
		a := templates.Attribute{Name: name, Value: u.Profile.Attributes[name]}
		if typed := r.PostForm; typed.Has(a.Field()) {
			a.Value = typed.Get(a.Field())
		}
		page.Profile.Attributes = append(page.Profile.Attributes, a)
	}
	branches, err := s.users.Branches(r.Context(), u, "", shownInvited)
	if err != nil {
		return err
	}
	history, err := s.users.AuditLog(r.Context(), account.AuditQuery{Person: u.Handle, Limit: shownHistory})
	if err != nil {
		return err
	}
	if err := s.describeFactors(r, &page, u); err != nil {
		return err
	}
	page.Invited, page.History = branchRows(branches), s.auditRows(r.Context(), history)
	open, err := s.users.OpenInvites(r.Context(), u, 0, shownOpen+1)
	if err != nil {
		return err
	}
	page.MoreOpen = len(open) > shownOpen
	page.Open = s.openInviteRows(r, open[:min(len(open), shownOpen)])
	page.LockedUntil = u.Locked(s.users.Now())
	page.SuspendedAt, page.SuspendReason = u.SuspendedAt, u.SuspendReason
	forms := s.formsOf(r.Context(), settings, u)
	if page.Section != "ends" || page.Error == "" {
		page.Ends = forms["ends"].Get("ends")
	}
	page.FlagEnds, page.Shown = map[string]string{}, map[string]string{}
	for section, form := range forms {
		page.Shown[section] = web.Shown(form)
	}
	page.KnownFlags = slices.Clone(settings.Flags)
	page.FlagDescriptions = settings.In(templates.LanguageOf(r.Context())).FlagDescriptions
	for _, f := range u.Flags {
		if !slices.Contains(settings.Flags, f) { // removed from the settings, and kept by who had it
			page.KnownFlags = append(page.KnownFlags, f)
		}
	}
	for _, f := range page.KnownFlags {
		page.FlagEnds[f] = forms["access"].Get(endField + f)
		if typed := r.PostForm; typed.Has(endField + f) {
			page.FlagEnds[f] = typed.Get(endField + f)
		}
	}
	page.User, page.Self, page.Picture = rowOf(u), u.Sub == id.User.Sub, s.accounts.PhotoOf(u)
	if page.Section == "access" && page.Error != "" {
		page.User.Flags = r.PostForm["flag"]
	}
	sessions, more := site.ShownSessions(r, access.Sessions)
	page.Sessions, page.MoreSessions = entry.SessionRows(sessions, id.Session.ID, access.Passkeys), more
	page.Apps = entry.AppRows(access.Apps)
	s.accounts.Show(w, r, status, page)
	return nil
}

// Lengths of the lists on a user's page.
const (
	shownInvited = 20
	shownHistory = 6
)

// formsOf returns the fields of the forms of a user's page as they are stored, by section.
func (s *Service) formsOf(ctx context.Context, settings account.Settings, u account.User) map[string]url.Values {
	profile := url.Values{"display_name": {u.DisplayName}, "email": {u.Email}, "email_verified": box(u.EmailVerified)}
	for _, name := range attributeNames(settings, u) {
		profile.Set(account.AttributePrefix+name, u.Profile.Attributes[name])
	}
	access, zone := url.Values{"flag": u.Flags}, s.users.Zone(ctx)
	for _, f := range slices.Concat(settings.Flags, u.Flags) {
		access.Set(endField+f, account.LastDay(u.FlagEnds[f], zone))
	}
	ends := url.Values{"ends": {account.LastDay(u.EndsAt, zone)}}
	return map[string]url.Values{"profile": profile, "access": access, "ends": ends}
}

// box returns the field of a single box.
func box(ticked bool) []string {
	if ticked {
		return []string{"true"}
	}
	return nil
}

// rebased takes into a form of a user's page what others have changed since it was shown; see web.Rebase.
func (s *Service) rebased(r *http.Request, section string, u account.User) (shown url.Values, err error) {
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return nil, err
	}
	return web.Rebase(r.PostForm, s.formsOf(r.Context(), settings, u)[section], "flag"), nil
}

// formAction performs the action of a form for a user. It returns the address to redirect to, or
// "" if it has answered.
type formAction func(w http.ResponseWriter, r *http.Request, u account.User) (string, error)

// form reads the form of a section of the user's page and runs its action. If the action is
// refused, it shows the page with the reason.
func (s *Service) form(section string, do formAction) web.Handler {
	return s.ofUser(func(w http.ResponseWriter, r *http.Request, u account.User) error {
		if err := web.ReadForm(w, r, "flag", "known", "remove_factor", "void_given", "undo"); err != nil {
			return err
		}
		next, err := do(w, r, u)
		switch {
		case err == nil && next == "":
			return nil
		case err == nil:
			return s.accounts.Redirect(w, r, next)
		}
		p, err := web.Refusal(w, r, err)
		if err != nil || p.Status == http.StatusNotFound {
			return cmp.Or(err, error(p))
		}
		page := templates.AdminUser{Faults: p.ByField()}
		f := r.PostForm
		switch {
		case p.Code == "not_confirmed":
			page.Faults["confirm"] = p.Detail
		case section == "end" && errors.Is(p, account.ErrInvalidText):
			page.Faults["reason"] = p.Detail
		case section == "ends" && p.Status == http.StatusBadRequest:
			page.Faults["ends"] = p.Detail
		}
		page.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), section, p.Detail, p.Code, page.Faults)
		page.Profile.DisplayName, page.Profile.Email = f.Get("display_name"), f.Get("email")
		page.Profile.EmailVerified = f.Has("email_verified")
		page.Reason, page.Tell, page.Confirm = f.Get("reason"), f.Has("tell_reason"), f.Get("confirm")
		page.Ends = f.Get("ends")
		return s.showUserPage(w, r, p.Status, u, page)
	})
}

func noticeOn(u account.User, notice string) string {
	return "/admin/users/" + url.PathEscape(u.Handle) + "?notice=" + notice + "#" + notices[notice].section
}

// profileForm changes only what differs from the stored state, as flagsForm does. The email
// address is changed together with its verified mark: an administrator verifies only an address
// that they see, and replaces none that they have not seen.
func (s *Service) profileForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	shown, err := s.rebased(r, "profile", u)
	if err != nil {
		return "", err
	}
	name, email := r.PostForm.Get("display_name"), strings.TrimSpace(r.PostForm.Get("email"))
	verified := r.PostForm.Has("email_verified")
	if email == "" && u.EmailVerified {
		verified = false // the mark was for the removed address
	}
	c := account.UserChange{}
	if name != u.DisplayName {
		c["display_name"] = name
	}
	if email != u.Email || verified != u.EmailVerified {
		if shown != nil && shown.Get("email") != u.Email {
			return "", web.ErrOutdated
		}
		c["email"], c["email_verified"] = email, strconv.FormatBool(verified)
	}
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return "", err
	}
	for _, name := range attributeNames(settings, u) {
		field := account.AttributePrefix + name
		value := strings.TrimSpace(r.PostForm.Get(field))
		if r.PostForm.Has(field) && value != u.Profile.Attributes[name] {
			c[field] = value
		}
	}
	_, err = s.users.Amend(r.Context(), s.accounts.Caller(r), u, c)
	return noticeOn(u, "profile-saved"), err
}

// attributeNames returns the names of the attributes that the settings declare or the user has.
func attributeNames(v account.Settings, u account.User) []string {
	names := slices.AppendSeq(slices.Clone(v.Attributes), maps.Keys(u.Profile.Attributes))
	slices.Sort(names)
	return slices.Compact(names)
}

func (s *Service) suspendForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	reason, tell := r.PostForm.Get("reason"), r.PostForm.Has("tell_reason")
	_, bad := account.CheckReason(reason)
	if bad == nil && u.Sub != s.accounts.Caller(r).User.Sub { // what would be refused is not asked about
		did, err := s.did(r, u)
		if err == nil {
			err = s.accounts.AskedOf(r, account.Suspend, did, "handle", u.Handle)
		}
		if err != nil {
			return "", err
		}
	}
	return noticeOn(u, "suspended"), s.undoing(r, u, func(users *roster.Administration, by account.Caller) error {
		return users.Suspend(r.Context(), by, u, reason, tell)
	})
}

// did lists what an administrator did in the last seven days.
func (s *Service) did(r *http.Request, u account.User) ([]templates.ActRow, error) {
	list, err := s.users.RecentActs(r.Context(), u)
	return roster.ActRows(list), err
}

// askedOf asks before an act that takes the power from an administrator who did something in the last seven days.
func (s *Service) askedOf(r *http.Request, act account.Act, u account.User) error {
	did, err := s.did(r, u)
	if err != nil || len(did) == 0 || u.Sub == s.accounts.Caller(r).User.Sub {
		return err
	}
	act.Question = "@{handle} is an administrator. Continue?"
	return s.accounts.AskedOf(r, act, did, "handle", u.Handle)
}

// undoing does an act against a user and undoes what the form ticks of what they did.
func (s *Service) undoing(
	r *http.Request, u account.User, do func(*roster.Administration, account.Caller) error,
) error {
	by := s.accounts.Caller(r)
	return s.users.Undoing(r.Context(), by, r.PostForm["undo"], func(users *roster.Administration) error {
		return do(users, by)
	}, u)
}

func (s *Service) endForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	if _, err := s.rebased(r, "ends", u); err != nil {
		return "", err
	}
	typed, ends := strings.TrimSpace(r.PostForm.Get("ends")), u.EndsAt
	if typed != account.LastDay(u.EndsAt, s.users.Zone(r.Context())) { // else as shown, which is less exact
		var err error
		if ends, err = account.ParseEnd(typed, s.users.Zone(r.Context())); err != nil {
			return "", err
		}
	}
	return noticeOn(u, "end-saved"), s.users.SetEnd(r.Context(), s.accounts.Caller(r), u, ends)
}

// describeFactors adds the factors of a user to their page, and what may be removed or void with the sessions.
func (s *Service) describeFactors(r *http.Request, page *templates.AdminUser, u account.User) error {
	recent, err := s.users.RecentFactors(r.Context(), u)
	if err != nil {
		return err
	}
	made, err := s.users.Store().MadeByOthers(r.Context(), u.Sub, "", s.users.Now())
	if err != nil {
		return err
	}
	page.Given = templates.Given{Names: account.GivenNames(made.Given), Void: r.PostForm["void_given"], Theirs: true}
	page.Recent = templates.RecentFactors{Rows: account.FactorRowsOf(recent), Remove: r.PostForm["remove_factor"]}
	factors, err := s.users.Factors(r.Context(), u)
	page.Factors = templates.FactorCounts{
		TOTP: factors.TOTP != nil, Passkeys: factors.Passkeys, RecoveryCodes: factors.RecoveryCodes,
		SecondStep: u.SecondFactor, Passwordless: u.Passwordless(),
	}
	return err
}

func (s *Service) unsuspendForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	return noticeOn(u, "unsuspended"), s.users.Unsuspend(r.Context(), s.accounts.Caller(r), u)
}

func (s *Service) unlockForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	return noticeOn(u, "unlocked"), s.users.Unlock(r.Context(), s.accounts.Caller(r), u)
}

func (s *Service) endSessionForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	return noticeOn(u, "session-ended"), s.users.EndSession(r.Context(), s.accounts.Caller(r), u, r.PostForm.Get("id"))
}

func (s *Service) endSessionsForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	also := account.Keep{Void: r.PostForm["void_given"], Remove: r.PostForm["remove_factor"]}
	_, err := s.users.EndSessions(r.Context(), s.accounts.Caller(r), u, also)
	return noticeOn(u, "sessions-ended"), err
}

// endField begins the name of the field with the last day of a flag.
const endField = "ends."

// flagsForm changes only what differs from the stored state, so that the audit log records the
// intended change.
func (s *Service) flagsForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	if _, err := s.rebased(r, "access", u); err != nil {
		return "", err
	}
	ticked, change, zone := r.PostForm["flag"], account.FlagChange{}, s.users.Zone(r.Context())
	for _, name := range slices.Concat(r.PostForm["known"], ticked) {
		on, typed := slices.Contains(ticked, name), strings.TrimSpace(r.PostForm.Get(endField+name))
		f := account.FlagState{On: on}
		if on && r.PostForm.Has(endField+name) && typed != account.LastDay(u.FlagEnds[name], zone) {
			ends, err := account.ParseEnd(typed, zone)
			if err != nil {
				return "", err
			}
			f.SetEnd, f.EndsAt = true, ends
		}
		if on != u.Has(name) || f.SetEnd {
			change[name] = f
		}
	}
	if f, named := change[account.FlagAdmin]; named && !f.On {
		if err := s.askedOf(r, account.SetFlags, u); err != nil {
			return "", err
		}
	}
	return noticeOn(u, "flags-saved"), s.undoing(r, u, func(users *roster.Administration, by account.Caller) error {
		_, err := users.SetFlags(r.Context(), by, u, change)
		return err
	})
}

// resetCodeForm answers with the code itself. It is shown only once and never part of a URL.
func (s *Service) resetCodeForm(w http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	c, err := s.users.IssueResetCode(r.Context(), s.accounts.Caller(r), u)
	if err != nil {
		return "", err
	}
	page := templates.AdminUser{ResetCode: c.Shown(), ResetURL: s.accounts.ResetURL(u.Handle, c)}
	return "", s.showUserPage(w, r, http.StatusOK, u, page)
}

func (s *Service) resetFactorsForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	if err := s.accounts.Asked(r, account.ResetFactors, "handle", u.Handle); err != nil {
		return "", err
	}
	return noticeOn(u, "factors-reset"), s.users.ResetFactors(r.Context(), s.accounts.Caller(r), u)
}

func (s *Service) deleteForm(_ http.ResponseWriter, r *http.Request, u account.User) (string, error) {
	typed, err := account.CanonicalHandle(r.PostForm.Get("confirm"))
	if err != nil || typed != u.Handle {
		return "", web.NewProblem(http.StatusBadRequest, "not_confirmed",
			"Enter the user name of the account to delete it. Nothing was changed.")
	}
	if err := s.askedOf(r, account.DeleteUser, u); err != nil {
		return "", err
	}
	return "/admin/users/?notice=deleted", s.undoing(r, u, func(users *roster.Administration, by account.Caller) error {
		return users.Delete(r.Context(), by, u)
	})
}
