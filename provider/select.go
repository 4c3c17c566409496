package provider

import (
	"errors"
	"net/http"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/person"
	"github.com/cairn-id/cairn/account/web"
)

// sealChoice returns the token of the button with which the user of a session goes on with a request, "" if the
// continuation has none. The page seals it, so that no other site can press the button.
func (p *Provider) sealChoice(continuation string, id *person.Identity) (string, error) {
	if _, err := p.openContinuation(continuation); err != nil {
		return "", nil
	}
	return p.seal.Seal(purposeChoice, bind(id, continuation, ""))
}

// selectForm handles that button. It answers prompt=select_account and nothing else: authorize decides again, by
// the same arrival and the same sign-in.
func (p *Provider) selectForm(w http.ResponseWriter, r *http.Request) error {
	if err := web.ReadForm(w, r); err != nil {
		return err
	}
	req, err := p.openContinuation(r.PostForm.Get("continue"))
	if err != nil {
		return err
	}
	id, err := p.accounts.Current(r)
	if err != nil && !errors.Is(err, account.ErrNotAuthenticated) {
		return err
	}
	var b binding
	if id == nil || req.stale || p.seal.Open(purposeChoice, r.PostForm.Get("token"), &b) != nil ||
		b != bind(id, req.sealed, "") {
		return p.redirectTo(w, r, req, authzState{}, repeat) // the page is shown again, for whoever is signed in
	}
	req.chosen = id.Session.ID
	if req.sealed, err = p.sealRequest(req, req.proofSeen, false); err != nil {
		return err
	}
	web.Note(r.Context(), "account_selected")
	return p.redirectTo(w, r, req, authzState{}, repeat)
}
