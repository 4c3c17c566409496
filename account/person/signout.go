package person

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// SignOut ends the live sessions that the browser's cookies prove. If sub is not empty, it ends
// only those of that user: who may sign out one user may not sign out others. It also ends sessions
// by tokens that this service does not accept, or not alone, because other applications may rely on
// them.
func (s *Service) SignOut(ctx context.Context, c account.Caller, sub string) error {
	live, err := s.liveSessions(ctx, c.Browser)
	if err != nil {
		return err
	}
	live = slices.DeleteFunc(live, func(id *Identity) bool { return sub != "" && id.User.Sub != sub })
	if err := s.endEach(ctx, c, live); err != nil || len(live) == 0 {
		return err
	}
	web.NoteUser(ctx, live[0].User.Sub)
	web.Note(ctx, "logout")
	return nil
}

// endEach ends sessions. It is no error if one has already ended.
func (s *Service) endEach(ctx context.Context, c account.Caller, live []*Identity) error {
	for _, id := range live {
		a := s.audit(c.As(id.User), account.SignOut, id.User.Handle, id.Session.ID)
		err := s.Store().EndSession(ctx, id.User.Sub, id.Session.ID, s.Now(), a)
		if err != nil && !errors.Is(err, account.ErrSessionNotFound) {
			return fmt.Errorf("end session: %w", err)
		}
	}
	return nil
}

// EndSession ends a session of the caller. The session of the request needs no further proof.
func (s *Service) EndSession(ctx context.Context, c account.Caller, id string) error {
	act := account.EndSession
	if id == c.Session.ID {
		act = account.SignOut
	}
	a, err := s.begin(ctx, c, act, id)
	if err != nil {
		return err
	}
	return web.Noted(ctx, "session_ended", s.Store().EndSession(ctx, c.User.Sub, id, s.Now(), a))
}

// EndOtherSessions ends all sessions of the caller except that of the request, with everything that
// they made, and gives this session a new token, so that a copy of its cookie ends too. keep.Apps keep their access,
// keep.Void is void, and keep.Remove is removed.
func (s *Service) EndOtherSessions(ctx context.Context, c account.Caller, keep account.Keep) (SignedIn, error) {
	a, err := s.begin(ctx, c, account.EndOtherSessions, "")
	if err != nil {
		return SignedIn{}, err
	}
	if len(keep.Remove) > 0 {
		mails, err := s.Notices(ctx, c.User, account.MailFactorRemoved)
		if err != nil {
			return SignedIn{}, err
		}
		a = a.With(mails...)
	}
	keep.Sessions = false
	out, err := s.renewing(ctx, c, a.Keeping(keep), c.User, func(a account.Audit) error {
		_, err := s.Store().EndSessions(ctx, c.User.Sub, s.Now(), a)
		return err
	})
	return out, web.Noted(ctx, "sessions_ended", err)
}
