package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/roster"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// flagField begins the name of the field with what becomes of a flag.
const flagField = "flag."

// errForm is about a form that none of the pages has.
var errForm = web.BadRequest("The body could not be read.")

// selectedForm shows selected people, asks whether an act is to be done to all of them, and does it. What is
// confirmed are the people who were shown: the form has their handles.
func (s *Service) selectedForm(w http.ResponseWriter, r *http.Request) error {
	if err := s.accounts.Allow(s.accounts.Caller(r), account.SetFlags); err != nil { // before anything is chosen
		return err
	}
	page := templates.AdminSelected{Do: r.PostForm.Get("do")}
	users, err := s.selectedUsers(r, &page)
	if err == nil && page.Do != "" {
		return s.doSelected(w, r, users, page)
	}
	if err == nil {
		return s.showSelected(w, r, http.StatusOK, users, page)
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return err
	}
	return s.showUsersPage(w, r, p.Status, templates.AdminUsers{
		Answer: templates.Answer{Error: p.Detail, ErrorCode: p.Code},
	})
}

// selectedUsers returns the people that the form names, or all who match its filter.
func (s *Service) selectedUsers(r *http.Request, page *templates.AdminSelected) ([]account.User, error) {
	f := r.PostForm
	if f.Get("all") != "true" {
		return s.users.UsersOf(r.Context(), strings.Fields(strings.Join(f["who"], " ")))
	}
	values, err := url.ParseQuery(f.Get("filter"))
	if err != nil {
		return nil, web.BadRequest("The query string cannot be read.")
	}
	q, err := s.userQuery(values)
	if err != nil {
		return nil, err
	}
	q.After, q.Limit = "", roster.MaxAtOnce+1
	users, _, err := s.users.Users(r.Context(), q)
	if err != nil {
		return nil, err
	}
	if before, err := strconv.Atoi(f.Get("seen")); err == nil && before != len(users) {
		page.Matched = before
	}
	return s.users.UsersOf(r.Context(), handlesOf(users))
}

// doSelected asks about an act on people or, if that was answered, does it.
func (s *Service) doSelected(
	w http.ResponseWriter, r *http.Request, users []account.User, page templates.AdminSelected,
) error {
	section, caller := page.Do, s.accounts.Caller(r)
	change, err := s.manyChange(r.Context(), r.PostForm)
	if err != nil {
		return s.refuseSelected(w, r, users, page, section, err)
	}
	plan, err := change.Plan(caller, users)
	if err != nil {
		return s.refuseSelected(w, r, users, page, section, err)
	}
	if r.PostForm.Get("sure") != "yes" {
		page.Plan = planRows(r, plan)
		did, err := s.users.RecentActs(r.Context(), plan.Fallen...)
		if err != nil {
			return err
		}
		page.Plan.Did = roster.ActRows(did)
		return s.showSelected(w, r, http.StatusOK, users, page)
	}
	err = s.users.Undoing(r.Context(), caller, r.PostForm["undo"], func(in *roster.Administration) (err error) {
		plan, err = in.ChangeMany(r.Context(), caller, users, change)
		return err
	}, plan.Fallen...)
	var obstructed *roster.Obstructed
	if errors.As(err, &obstructed) {
		page.Plan = planRows(r, obstructed.Plan)
		return s.refuseSelected(w, r, users, page, "", err)
	}
	if err != nil {
		return s.refuseSelected(w, r, users, page, section, err)
	}
	page = templates.AdminSelected{}
	page.Notice = templates.LanguageOf(r.Context()).Text("Done for {count} people. The audit log shows each change.",
		"count", len(plan.Change))
	if users, err = s.users.UsersOf(r.Context(), handlesOf(users)); err != nil { // as they are now
		return err
	}
	return s.showSelected(w, r, http.StatusOK, users, page)
}

func (s *Service) refuseSelected(
	w http.ResponseWriter, r *http.Request, users []account.User, page templates.AdminSelected, section string,
	cause error,
) error {
	p, err := web.Refusal(w, r, cause)
	if err != nil {
		return err
	}
	if section == "invite" { // its section is shown only with mail
		section = ""
	}
	page.Faults = map[string]string{}
	if errors.Is(p, account.ErrInvalidText) {
		page.Faults["reason"] = p.Detail
	}
	if page.Do == "end" && section != "" {
		page.Faults["ends"] = p.Detail
	}
	page.Answer = templates.NewAnswer(templates.LanguageOf(r.Context()), section, p.Detail, p.Code, page.Faults)
	if len(page.Plan.Obstacles) == 0 {
		page.Do = ""
	}
	return s.showSelected(w, r, p.Status, users, page)
}

func (s *Service) showSelected(
	w http.ResponseWriter, r *http.Request, status int, users []account.User, page templates.AdminSelected,
) error {
	settings, err := s.users.Settings(r.Context())
	if err != nil {
		return err
	}
	f := r.PostForm
	page.Selected, page.ByMail = rowsOf(users), s.accounts.MailEnabled()
	page.Ends, page.Never = f.Get("ends"), f.Has("never")
	page.Reason, page.Tell = f.Get("reason"), f.Has("tell_reason")
	for _, name := range settings.Flags {
		choice := templates.FlagChoice{Name: name}
		if choice.Choice = f.Get(choice.Field()); page.Notice != "" {
			choice.Choice = ""
		}
		page.Flags = append(page.Flags, choice)
	}
	s.accounts.Show(w, r, status, page)
	return nil
}

// manyChange reads the act from the form.
func (s *Service) manyChange(ctx context.Context, f url.Values) (roster.Change, error) {
	switch f.Get("do") {
	case "suspend":
		return s.users.Suspending(f.Get("reason"), f.Has("tell_reason")), nil
	case "invite":
		return s.users.Inviting(), nil
	case "end":
		ends, err := account.ParseEnd(f.Get("ends"), s.users.Zone(ctx))
		if err == nil && (ends.IsZero() != (f.Get("never") == "true")) {
			err = account.ErrInvalidEnd
		}
		return s.users.EndingAt(ends), err
	case "flags":
		flags := account.FlagChange{}
		for name := range f {
			flag, is := strings.CutPrefix(name, flagField)
			switch choice := f.Get(name); {
			case is && choice == "on":
				flags[flag] = account.FlagState{On: true}
			case is && choice == "off":
				flags[flag] = account.FlagState{}
			case is && choice != "":
				return roster.Change{}, errForm
			}
		}
		return s.users.Flagging(ctx, flags), nil
	}
	return roster.Change{}, errForm
}

func planRows(r *http.Request, p roster.Plan) templates.ManyPlan {
	out := templates.ManyPlan{Change: rowsOf(p.Change), Same: rowsOf(p.Same)}
	l := templates.LanguageOf(r.Context())
	for _, o := range p.Obstacles {
		problem, _ := web.ProblemOf(o.Reason)
		out.Obstacles = append(out.Obstacles, templates.Obstacle{User: rowOf(o.User), Reason: problem.In(l).Detail})
	}
	return out
}

func rowsOf(users []account.User) (rows []templates.AdminUserRow) {
	for _, u := range users {
		rows = append(rows, rowOf(u))
	}
	return rows
}

func handlesOf(users []account.User) (handles []string) {
	for _, u := range users {
		handles = append(handles, u.Handle)
	}
	return handles
}
