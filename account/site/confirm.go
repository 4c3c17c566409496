package site

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/passkey"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
	"github.com/gorilla/mux"
)

func (s *Site) apiConfirm(w http.ResponseWriter, r *http.Request, in person.Confirmation) error {
	out, err := s.Confirm(r.Context(), s.Caller(r), in)
	return s.answerConfirmed(w, out, err)
}

func (s *Site) answerConfirmed(w http.ResponseWriter, out person.SignedIn, err error) error {
	if err != nil {
		return err
	}
	s.setCookies(w, out)
	return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

// Fields of a form that also prove who sends it: those that begin with confirmPrefix, and sureField. See Form.
const (
	confirmPrefix = "confirm_"
	sureField     = "sure"
)

// unprovenField says in the address of the page that the password alone is not enough.
const unprovenField = "second_step"

// maxForm limits a form that may carry a picture, in bytes.
const maxForm = 2 * web.MaxBody

// errUnsure means that the act of a form asks a question first.
var errUnsure = web.NewProblem(http.StatusBadRequest, "not_confirmed",
	"To do this, send sure=yes. Nothing was changed.").Interrupting()

// askFirst is errUnsure with the act and what its question names.
type askFirst struct {
	act   account.Act
	names []any
	did   []templates.ActRow
}

func (askFirst) Error() string { return errUnsure.Error() }
func (askFirst) Unwrap() error { return errUnsure }

// Asked returns an error, which Form handles, until the person has answered the question of an act.
// names are pairs for the question.
func (s *Site) Asked(r *http.Request, act account.Act, names ...any) error {
	if r.PostForm.Get(sureField) == "yes" {
		return nil
	}
	if !s.WantsPage(r) {
		return cmp.Or(s.Allow(s.Caller(r), act), error(errUnsure))
	}
	return askFirst{act: act, names: names}
}

// AskedOf is Asked about an act against somebody who did something, which the page lists to be undone with it.
func (s *Site) AskedOf(r *http.Request, act account.Act, did []templates.ActRow, names ...any) error {
	err := s.Asked(r, act, names...)
	if ask, ok := err.(askFirst); ok {
		ask.did = did
		return ask
	}
	return err
}

// asking returns an operation that runs after the question of its act.
func (s *Site) asking(act account.Act, do operation) operation {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := s.Asked(r, act); err != nil {
			return err
		}
		return do(w, r)
	}
}

// Form serves the forms of pages. If the session is not fresh, or an act asks a question first, it
// answers with a page that contains everything that was typed and runs the act when it is sent.
// Nothing is lost, and nothing is stored meanwhile. A page that requires a fresh session leads
// there too. A form of another account's page is refused.
func (s *Site) Form(h web.Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if q := r.URL.Query(); q.Has(templates.PageOf) {
			own := IdentityFrom(r.Context()).User.Handle
			if r.Method == http.MethodPost && q.Get(templates.PageOf) != own {
				l, p := templates.LanguageOf(r.Context()), web.ErrOutdated
				web.NoteDefault(r.Context(), p.Code)
				signedIn := l.Text("You are signed in as {handle}.", "handle", own)
				s.Show(w, r, p.Status, templates.Error{Status: p.Status, Detail: signedIn + " " + p.In(l).Detail})
				return nil
			}
			q.Del(templates.PageOf)
			r.URL.RawQuery = q.Encode()
		}
		if web.IsForm(r) {
			if err := web.ParseForm(w, r, maxForm); err != nil {
				return err
			}
			confirmed, page, err := s.confirmInForm(w, r)
			if err != nil || page != nil {
				return s.showConfirm(w, r, page, err)
			}
			r = confirmed
		}
		err := h(w, r)
		var ask askFirst
		unproven := errors.Is(err, account.ErrSecondFactorRequired) // of a session that may do other things
		stale := unproven || errors.Is(err, account.ErrReauthenticationRequired)
		switch {
		case errors.Is(err, account.ErrNotAuthenticated) && s.WantsPage(r): // it has ended since the head
			return s.signInFirst(w, r, url.Values{})
		case !stale && !errors.As(err, &ask) || !s.WantsPage(r):
			return err
		case r.Method != http.MethodPost:
			back := strings.TrimPrefix(r.URL.EscapedPath(), s.Path(""))
			q := url.Values{"next": {back}}
			if unproven {
				q.Set(unprovenField, "1")
			}
			return s.Redirect(w, r, "/account/confirm?"+q.Encode())
		}
		page := s.carry(r)
		page.SecondFactor = unproven
		if page.Stale = stale; !stale {
			page.Question = templates.LanguageOf(r.Context()).Text(ask.act.Question, ask.names...)
			page.Fields = append(page.Fields, templates.FormField{Name: sureField, Value: "yes"})
			page.Stale, page.Did = s.Allow(s.Caller(r), ask.act) != nil, ask.did
			if page.Ends, err = s.ends(r, ask.act); err != nil {
				return err
			}
		}
		return s.showConfirm(w, r, page, nil)
	}
}

// ends lists what an act ends, nil if its question does not.
func (s *Site) ends(r *http.Request, act account.Act) (*templates.Ends, error) {
	if act.Ends.Sessions != account.OtherSessions {
		return nil, nil
	}
	return s.endsWithOthers(r, act.Action != account.EndOtherSessions.Action)
}

// carry returns the page that continues the form of a request.
func (s *Site) carry(r *http.Request) *templates.Confirm {
	page := &templates.Confirm{
		Action: strings.TrimPrefix(r.URL.EscapedPath(), s.Path("")), Person: mux.Vars(r)["handle"],
	}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			page.Fields = append(page.Fields, templates.FormField{Name: name, Value: value})
		}
	}
	return page
}

// confirmInForm confirms the sender of a form by the fields for that and removes them. It returns the
// request in the confirmed session, or the page to show if the proof was refused. Without such
// fields it returns the request unchanged.
func (s *Site) confirmInForm(
	w http.ResponseWriter, r *http.Request,
) (confirmed *http.Request, refused *templates.Confirm, err error) {
	take := func(name string) string {
		value := r.PostForm.Get(confirmPrefix + name)
		r.PostForm.Del(confirmPrefix + name)
		return value
	}
	in := person.Confirmation{Password: take("password"), OTP: take("otp")}
	answer := passkey.AnsweredCeremony{State: take("state"), Credential: []byte(take("credential"))}
	if in == (person.Confirmation{}) && len(answer.Credential) == 0 {
		return r, nil, nil
	}
	var out person.SignedIn
	if len(answer.Credential) > 0 {
		out, err = s.passkeys.Confirm(r.Context(), s.Caller(r), answer)
	} else {
		out, err = s.Confirm(r.Context(), s.Caller(r), in)
	}
	if err == nil {
		s.setCookies(w, out)
		return withIdentity(r, s.IdentityOf(out)), nil, nil
	}
	p, err := web.Refusal(w, r, err)
	if err != nil {
		return nil, nil, err
	}
	refused = s.carry(r)
	refused.Stale, refused.Error, refused.ErrorCode, refused.Status = true, p.Detail, p.Code, p.Status
	return nil, refused, nil
}

func (s *Site) showConfirm(w http.ResponseWriter, r *http.Request, page *templates.Confirm, err error) error {
	if err != nil {
		return err
	}
	u := IdentityFrom(r.Context()).User
	f, err := s.Store().Factors(r.Context(), u.Sub)
	if err != nil {
		return err
	}
	asks, err := s.AsksSecondStep(r.Context(), u, page.SecondFactor)
	if err != nil {
		return err
	}
	page.Handle, page.SecondFactor, page.Methods = u.Handle, asks, s.FactorMethods(f)
	page.Passwordless = u.Passwordless()
	status := page.Status
	switch {
	case status != 0:
	case page.Stale && r.Method == http.MethodPost:
		status = account.ErrReauthenticationRequired.Status
	default:
		status = http.StatusOK
	}
	s.Show(w, r, status, *page)
	return nil
}

func (s *Site) confirmPage(w http.ResponseWriter, r *http.Request) error {
	next := templates.FormField{Name: "next", Value: web.LocalPath(r.URL.Query().Get("next"))}
	page := templates.Confirm{Action: "/account/confirm", Stale: true, Fields: []templates.FormField{next},
		SecondFactor: r.URL.Query().Has(unprovenField)}
	return s.showConfirm(w, r, &page, nil)
}

// confirmForm redirects after confirmInForm.
func (s *Site) confirmForm(w http.ResponseWriter, r *http.Request) error {
	if !s.Caller(r).Fresh(s.Now()) {
		return account.ErrReauthenticationRequired
	}
	return s.Redirect(w, r, web.LocalPath(r.PostForm.Get("next")))
}
