package account

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// apiPasskeyBegin gives a challenge.
func (s *Service) apiPasskeyBegin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Purpose string `json:"purpose"` // empty: sign-in
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	if s.passkeys.party == nil {
		return s.passkeys.unavailable
	}
	switch in.Purpose {
	case "", ceremonySignIn:
		return s.passkeyBegin(w, r, ceremonySignIn, "", s.givePasskeyCookie(w, r))
	case ceremonySecondFactor:
		u, step, err := s.pendingSignIn(r)
		if err != nil {
			return err
		}
		return s.passkeyBegin(w, r, ceremonySecondFactor, u.Sub, step.Nonce)
	case ceremonyConfirm:
		id, err := s.Current(r)
		if err != nil {
			return err
		}
		return s.passkeyBegin(w, r, ceremonyConfirm, id.User.Sub, id.Session.ID)
	}
	return errPasskeyPurpose
}

// passkeyAnswer is the body of a finish.
type passkeyAnswer struct {
	State      string          `json:"state"`
	Credential json.RawMessage `json:"credential"`
}

func (a passkeyAnswer) answered() answeredCeremony {
	return answeredCeremony{State: a.State, Credential: a.Credential}
}

// apiPasskeyFinish signs in, or confirms who is signed in.
func (s *Service) apiPasskeyFinish(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		passkeyAnswer
		Purpose string `json:"purpose"` // as it was at the begin
	}
	if err := web.ReadJSON(w, r, &in); err != nil {
		return err
	}
	var u User
	var err error
	switch in.Purpose {
	case "", ceremonySignIn:
		u, err = s.passkeySignIn(w, r, in.answered())
	case ceremonySecondFactor:
		u, err = s.passkeySecondStep(w, r, in.answered())
	case ceremonyConfirm:
		s.RequireSession(s.Do(func(w http.ResponseWriter, r *http.Request) error {
			if err := s.passkeyConfirm(r, in.answered()); err != nil {
				return err
			}
			return web.WriteJSON(w, http.StatusOK, okAnswer{OK: true})
		}))(w, r)
		return nil
	default:
		return errPasskeyPurpose
	}
	if err != nil {
		return err
	}
	flags, err := s.flagsOf(r, u)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, signedIn{OK: true, Handle: u.Handle, DisplayName: u.DisplayName, Flags: flags})
}

var errPasskeyPurpose = web.BadRequest("The member purpose has a value that is not known here.", web.FieldError{Pointer: "/purpose", Detail: "not known"})

// passkeyInForm is the answer that the script has put into a form of a page.
func passkeyInForm(r *http.Request) (answeredCeremony, bool) {
	in := answeredCeremony{State: r.PostForm.Get("state"), Credential: []byte(r.PostForm.Get("credential"))}
	return in, len(in.Credential) > 0
}

// passkeySignIn signs in whoever the passkey belongs to: it is the only step.
func (s *Service) passkeySignIn(w http.ResponseWriter, r *http.Request, in answeredCeremony) (User, error) {
	u, amr, err := s.provePasskey(r, ceremonySignIn, s.passkeyBrowser(r), in)
	if err != nil {
		return User{}, err
	}
	return s.openSession(w, r, u, amr...)
}

// passkeySecondStep finishes the sign-in that is pending in this browser.
func (s *Service) passkeySecondStep(w http.ResponseWriter, r *http.Request, in answeredCeremony) (User, error) {
	u, step, err := s.pendingSignIn(r)
	if err != nil {
		return User{}, err
	}
	proven, amr, err := s.provePasskey(r, ceremonySecondFactor, step.Nonce, in)
	switch {
	case err != nil:
		return User{}, err
	case proven.Sub != u.Sub:
		return User{}, ErrInvalidPasskey
	}
	return s.finishSignIn(w, r, u, step, append([]string{MethodPassword}, amr...)...)
}

// passkeyConfirm makes the session of the request fresh.
func (s *Service) passkeyConfirm(r *http.Request, in answeredCeremony) error {
	id := IdentityFrom(r.Context())
	proven, _, err := s.provePasskey(r, ceremonyConfirm, id.Session.ID, in)
	switch {
	case err != nil:
		return err
	case proven.Sub != id.User.Sub:
		return ErrInvalidPasskey
	}
	return s.confirmed(r)
}

// factorMethods are the ways in which the user can prove a second factor here: passkeys
// of another issuer are of no use.
func (s *Service) factorMethods(f Factors) []string {
	if s.passkeys.party == nil {
		f.Passkeys = 0
	}
	return f.methods()
}

// noPasskeys says why the passkeys that somebody has are of no use, if they are of none.
func (s *Service) noPasskeys(ctx context.Context, f Factors) string {
	if f.Passkeys > 0 && s.passkeys.party == nil {
		return s.passkeys.unavailable.In(templates.LanguageOf(ctx)).Detail
	}
	return ""
}
