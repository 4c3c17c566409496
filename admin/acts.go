package admin

import (
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

type okAnswer struct {
	OK bool `json:"ok"`
}

func (s *Service) suspend(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Reason string `json:"reason"`
	}
	s.act(w, r, &in, func(u account.User) error {
		return s.office.Suspend(r.Context(), account.ActorOf(r), u, in.Reason)
	})
}

func (s *Service) unsuspend(w http.ResponseWriter, r *http.Request) {
	s.act(w, r, &struct{}{}, func(u account.User) error {
		return s.office.Unsuspend(r.Context(), account.ActorOf(r), u)
	})
}

// act finds the user, reads the body, if any, into in and does the deed.
func (s *Service) act(w http.ResponseWriter, r *http.Request, in any, deed func(account.User) error) {
	u, err := s.target(r)
	if err == nil {
		err = web.ReadOptionalJSON(w, r, in)
	}
	if err == nil {
		err = deed(u)
	}
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
}

func (s *Service) endSession(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	if err == nil {
		err = s.office.EndSession(r.Context(), account.ActorOf(r), u, mux.Vars(r)["id"])
	}
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) endSessions(w http.ResponseWriter, r *http.Request) {
	s.act(w, r, &struct{}{}, func(u account.User) error {
		_, err := s.office.EndSessions(r.Context(), account.ActorOf(r), u)
		return err
	})
}

func (s *Service) deleteUser(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	if err == nil {
		err = s.office.Delete(r.Context(), account.ActorOf(r), u)
	}
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) putFlags(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	// Pointers, because null must not read as "off".
	var in map[string]*bool
	if err := web.ReadJSON(w, r, &in); err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	flags := make(map[string]bool, len(in))
	for name, on := range in {
		if on == nil {
			s.accounts.Fail(w, r, web.NewProblem(http.StatusBadRequest, "invalid_request", "A flag is true or false."))
			return
		}
		flags[name] = *on
	}
	if u.Flags, err = s.office.SetFlags(r.Context(), account.ActorOf(r), u, flags); err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	settings, err := s.office.Settings(r.Context())
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusOK, struct {
		OK    bool            `json:"ok"`
		Flags map[string]bool `json:"flags"`
	}{true, u.FlagMap(settings.Flags)})
}

func (s *Service) issueResetCode(w http.ResponseWriter, r *http.Request) {
	u, err := s.target(r)
	if err == nil {
		err = web.ReadOptionalJSON(w, r, &struct{}{})
	}
	var c account.ResetCode
	if err == nil {
		c, err = s.office.IssueResetCode(r.Context(), account.ActorOf(r), u)
	}
	if err != nil {
		s.accounts.Fail(w, r, err)
		return
	}
	web.WriteJSON(w, http.StatusCreated, struct {
		OK        bool      `json:"ok"`
		Code      string    `json:"code"`
		URL       string    `json:"url"`
		ExpiresAt time.Time `json:"expires_at"`
	}{true, c.Code, s.accounts.ResetURL(u.Handle, c), c.ExpiresAt})
}
