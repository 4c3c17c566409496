package roster

import (
	"context"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
)

// JoinRequests lists the requests that wait for a decision, oldest first.
func (a *Administration) JoinRequests(ctx context.Context) ([]account.JoinRequest, error) {
	return a.Store().JoinRequests(ctx, a.Now())
}

// AcceptJoin deletes a request and mails an invite for its address alone, with a note. The invite leads to an
// application of a client id, nil: to that of the request. ErrJoinNotFound, ErrMailOff; ErrRegistrationFull where no
// invite is good.
func (a *Administration) AcceptJoin(ctx context.Context, by account.Caller, id, note string, app *string) error {
	settings, err := a.Settings(ctx)
	if err == nil && settings.Registration == account.RegistrationClosed {
		err = account.ErrRegistrationFull
	}
	if err != nil {
		return err
	}
	return a.decideJoin(ctx, by, account.AcceptJoin, id, note, app)
}

// RefuseJoin deletes a request and mails that it was refused, with a text of the administrator. ErrJoinNotFound,
// ErrMailOff.
func (a *Administration) RefuseJoin(ctx context.Context, by account.Caller, id, text string) error {
	return a.decideJoin(ctx, by, account.RefuseJoin, id, text, nil)
}

func (a *Administration) decideJoin(
	ctx context.Context, by account.Caller, act account.Act, id, note string, app *string,
) error {
	row, err := a.Begin(ctx, by, act, account.User{}, "")
	if err != nil {
		return err
	}
	i, err := account.NewInvite(by.User.Sub, note, a.Now()) // which checks the note
	if err != nil {
		return err
	}
	if !a.MailEnabled() {
		return account.ErrMailOff
	}
	r, err := a.Store().JoinRequest(ctx, id, a.Now())
	if err != nil {
		return err
	}
	m := account.Mail{Address: r.Email, Language: r.Language}
	if act.Action == account.RefuseJoin.Action {
		m.Kind, m.Data = account.MailJoinRefused, map[string]string{"text": i.Note}
		return web.Noted(ctx, "join_refused", a.Store().DecideJoinRequest(ctx, id, nil, row.With(m)))
	}
	if app == nil {
		app = &r.App
	}
	i.MailedTo, i.Domain, i.SessionID = r.Email, r.Email, by.Session.ID
	m.Kind, m.Sub, m.Data = account.MailInvite, by.User.Sub, map[string]string{"invite": i.Hash(), "welcome": "true",
		"name": r.Name, "app": *app}
	return web.Noted(ctx, "join_accepted", a.Store().DecideJoinRequest(ctx, id, &i, row.With(m)))
}
