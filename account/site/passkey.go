package site

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/entry"
	"github.com/cairn-id/cairn/account/passkey"
	"github.com/cairn-id/cairn/account/text"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// passkeyEndpoints serves /.well-known/passkey-endpoints (W3C, A Well-Known URL for Relying Party
// Passkey Endpoints).
func (s *Site) passkeyEndpoints(w http.ResponseWriter, _ *http.Request) error {
	if p := s.passkeys.PasskeysUnavailable(); p != nil {
		return p
	}
	return web.WriteJSON(w, http.StatusOK,
		map[string]string{"enroll": s.URL(passkeysPath), "manage": s.URL(passkeysPath)})
}

// relatedOrigins serves /.well-known/webauthn (Web Authentication Level 3 section 5.11). A browser reads
// it at the host that passkeys belong to.
func (s *Site) relatedOrigins(w http.ResponseWriter, _ *http.Request) error {
	origins := s.passkeys.PasskeyOrigins()
	if len(origins) == 0 {
		return account.ErrPasskeysUnavailable.With("No other origin may use the passkeys of this service.")
	}
	return web.WriteJSON(w, http.StatusOK, map[string][]string{"origins": origins})
}

func (s *Site) apiPasskeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.Store().Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	return web.Answer(w, http.StatusOK, map[string][]entry.Passkey{"passkeys": entry.Passkeys(keys)}, err)
}

func (s *Site) apiBeginAddPasskey(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Offered bool `json:"offered"`
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	begun, err := s.passkeys.BeginAddPasskey(r.Context(), s.Caller(r), in.Offered)
	return web.Answer(w, http.StatusOK, begun, err)
}

func (s *Site) apiAddPasskey(w http.ResponseWriter, r *http.Request, in struct {
	passkeyAnswer
	account.Keep
	Name       string `json:"name"`
	SecondStep bool   `json:"second_step"` // see account.NewWay
	// Offered is that of the begin request.
	Offered bool `json:"offered"`
}) error {
	k, out, err := s.passkeys.AddPasskey(r.Context(), s.Caller(r), in.answered(), in.Name, in.Keep, in.SecondStep,
		in.Offered)
	if err != nil {
		return err
	}
	s.setCookies(w, out.SignedIn)
	return web.WriteJSON(w, http.StatusCreated, struct {
		entry.Passkey
		RecoveryCodes []string `json:"recovery_codes"` // null: there are some already
	}{entry.PasskeyOf(k), out.Codes})
}

func (s *Site) addPasskeyForm(w http.ResponseWriter, r *http.Request) error {
	in, _ := passkeyInForm(r)
	const done = "passkey-added"
	if in.State == "" { // the script sends these for the proof alone
		if err := s.MayAddFactor(r.Context(), s.Caller(r)); err != nil {
			return err
		}
		m := s.member(r)
		newPasskey(r, &m)
		return s.showMember(w, r, http.StatusOK, notices[done].page, m)
	}
	_, out, err := s.passkeys.AddPasskey(r.Context(), s.Caller(r), in, "", keptUnlessTicked(r),
		r.PostForm.Has("second_step"), false)
	if err != nil {
		return s.accountRefused(w, r, notices[done].page, notices[done].section, err)
	}
	return s.factorAdded(w, r, out, done)
}

// newPasskey adds what was chosen in the form of a new passkey.
func newPasskey(r *http.Request, m *templates.Member) {
	m.SecondStep, m.EndOthers = r.PostForm.Has("second_step"), r.PostForm.Has("end_other_sessions")
}

func (s *Site) apiRenamePasskey(w http.ResponseWriter, r *http.Request, in struct {
	Name string `json:"name"`
}) error {
	k, err := s.passkeys.RenamePasskey(r.Context(), s.Caller(r), parameter(r, "id"), in.Name)
	return web.Answer(w, http.StatusOK, entry.PasskeyOf(k), err)
}

func (s *Site) renamePasskeyForm(_ http.ResponseWriter, r *http.Request) error {
	_, err := s.passkeys.RenamePasskey(r.Context(), s.Caller(r), r.PostForm.Get("id"), r.PostForm.Get("name"))
	return err
}

func (s *Site) removePasskey(w http.ResponseWriter, r *http.Request, keep account.Keep) error {
	out, err := s.passkeys.RemovePasskey(r.Context(), s.Caller(r), parameter(r, "id"), keep)
	s.setCookies(w, out)
	return err
}

// describePasskeys fills in the passkey section of the page.
func (s *Site) describePasskeys(r *http.Request, page *templates.AccountSecurity) error {
	keys, err := s.Store().Passkeys(r.Context(), IdentityFrom(r.Context()).User.Sub)
	if err != nil {
		return err
	}
	page.Signals = s.passkeys.AcceptedPasskeys(IdentityFrom(r.Context()).User, keys)
	page.Passkeys.Full = len(keys) >= account.MaxPasskeys
	if p := s.passkeys.PasskeysUnavailable(); p != nil {
		page.Passkeys.Unavailable = p.In(templates.LanguageOf(r.Context())).Detail
	}
	if page.Passkeys.Unavailable == "" {
		if page.Passkeys.Ends, err = s.endsWithSecondStep(r, false); err != nil {
			return err
		}
	}
	for i, k := range keys {
		elsewhere := ""
		if page.Passkeys.Unavailable == "" && len(s.passkeys.UsablePasskeys([]account.Passkey{k})) == 0 {
			elsewhere = k.RPID
		}
		row := templates.PasskeyRow{ID: k.ShownID(), Name: k.Name, Synced: k.BackupState, CreatedAt: k.CreatedAt,
			LastUsedAt: k.LastUsedAt, Elsewhere: elsewhere,
			New: i == len(keys)-1 && r.URL.Query().Get("notice") == "passkey-added"} // they are in order of age
		if page.ErrorCode == account.ErrInvalidPasskeyName.Code && r.PostForm.Get("id") == row.ID {
			row.Fault, row.Typed = page.Error, text.Cut(r.PostForm.Get("name"), maxShown)
		}
		page.Passkeys.Rows = append(page.Passkeys.Rows, row)
	}
	return nil
}

// apiPasskeyBegin returns a challenge.
func (s *Site) apiPasskeyBegin(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Purpose string `json:"purpose"` // empty: sign-in
		Older   bool   `json:"older"`   // of a sign-in: see OlderPasskeys
	}
	if err := web.ReadOptionalJSON(w, r, &in); err != nil {
		return err
	}
	c := s.Caller(r)
	switch in.Purpose {
	case "", passkey.CeremonySignIn:
		c.Browser.Passkey = s.givePasskeyCookie(w, c.Browser.Passkey)
	case passkey.CeremonyConfirm:
		id, err := s.Current(r)
		if err != nil {
			return err
		}
		c = c.In(id.User, id.Session)
	}
	begun, err := s.passkeys.BeginPasskey(r.Context(), c, in.Purpose, in.Older)
	return web.Answer(w, http.StatusOK, begun, err)
}

// passkeyAnswer is the body of a finish request.
type passkeyAnswer struct {
	State      string          `json:"state"`
	Credential json.RawMessage `json:"credential"`
}

func (a passkeyAnswer) answered() passkey.AnsweredCeremony {
	return passkey.AnsweredCeremony{State: a.State, Credential: a.Credential}
}

// apiPasskeyFinish signs in, or confirms the signed-in user.
func (s *Site) apiPasskeyFinish(w http.ResponseWriter, r *http.Request, in struct {
	passkeyAnswer
	Purpose string `json:"purpose"` // that of the begin request
	Shared  bool   `json:"shared_computer"`
}) error {
	switch in.Purpose {
	case "", passkey.CeremonySignIn:
		c := s.Caller(r)
		c.Shared = in.Shared
		out, err := s.passkeys.SignIn(r.Context(), c, in.answered())
		s.offerBinding(w, out)
		return s.answerSignedIn(w, r, out, err)
	case passkey.CeremonySecondFactor:
		out, err := s.passkeys.SecondStep(r.Context(), s.Caller(r), in.answered())
		s.offerBinding(w, out)
		return s.answerSignedIn(w, r, out, err)
	case passkey.CeremonyConfirm:
		s.RequireSession(s.Do(func(w http.ResponseWriter, r *http.Request) error {
			out, err := s.passkeys.Confirm(r.Context(), s.Caller(r), in.answered())
			return s.answerConfirmed(w, out, err)
		}))(w, r)
		return nil
	}
	return passkey.ErrPasskeyPurpose
}

// passkeyInForm returns the answer that the script put into a form of a page.
func passkeyInForm(r *http.Request) (passkey.AnsweredCeremony, bool) {
	in := passkey.AnsweredCeremony{State: r.PostForm.Get("state"),
		Credential: []byte(r.PostForm.Get("credential"))}
	return in, len(in.Credential) > 0
}

// noPasskeys returns why the user's passkeys do not work here, or "" if they do.
func (s *Site) noPasskeys(ctx context.Context, f account.Factors) string {
	if p := s.passkeys.NoPasskeys(f); p != nil {
		return p.In(templates.LanguageOf(ctx)).Detail
	}
	return ""
}
