package roster

import (
	"context"
	"slices"
	"strings"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// PastedColumns are the columns of a pasted list, all but the first two optional.
var PastedColumns = []string{"display_name", "email", "flags", "handle", "ends"}

// ReadPasted reads a list of people as ReadList does. Whoever has no handle gets one that suits the name,
// and everybody the default flags besides those in the list.
func (a *Administration) ReadPasted(ctx context.Context, pasted string) ([]ImportRow, error) {
	rows, err := ReadList([]byte(pasted), templates.LanguageOf(ctx), PastedColumns...)
	rows = slices.DeleteFunc(rows, func(row ImportRow) bool {
		return strings.TrimSpace(row.Members["display_name"]+row.Members["email"]+row.Members["handle"]) == ""
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, ErrNobody
	case len(rows) > MaxAtOnce:
		return nil, ErrTooMany
	}
	settings, err := a.Settings(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		splitAddress(row.Members)
		for _, part := range nameParts {
			delete(row.Members, part)
		}
		row.Members["flags"] = strings.Join(slices.Concat(settings.DefaultFlags, []string{row.Members["flags"]}), " ")
	}
	return rows, a.suggestHandles(ctx, rows)
}

// splitAddress puts the address where it belongs of a line such as Ada <ada@example.org>, or with the address first.
func splitAddress(m map[string]string) {
	name, email := m["display_name"], m["email"]
	words := strings.Fields(name)
	if strings.Contains(email, "@") || !strings.Contains(name, "@") || email != "" && len(words) > 1 {
		return
	}
	if last := len(words) - 1; email == "" {
		name, email = strings.Join(words[:last], " "), words[last]
	} else {
		name, email = email, name
	}
	m["display_name"], m["email"] = name, cleanCell(nil, "email", email)
}

// suggested is how many handles are tried for a name.
const suggested = 9

func suggestionsFor(m map[string]string) []string {
	name := account.HandleOf(m["display_name"])
	if name == "" {
		local, _, _ := strings.Cut(m["email"], "@")
		if name = account.HandleOf(local); name == "" {
			name = "member"
		}
	}
	all := []string{name}
	for n := 2; n <= suggested; n++ {
		all = append(all, numbered(name, n))
	}
	return all
}

// CheckPasted checks the rows of a pasted list as an import: see Import. People whose address and name an account has
// are left out. Those who are added get the link to choose a password by mail, or a code if mail is off or they have no
// address.
func (a *Administration) CheckPasted(ctx context.Context, by account.Caller, rows []ImportRow) (*Import, error) {
	return a.CheckImport(ctx, nil, rows, ImportOptions{ResetCodes: true, ByMail: a.MailEnabled(), By: by,
		ByAddress: true})
}

// Member is the handle of the account for whose sake a row is left out, or "".
func (r ImportResult) Member() string { return r.member }

// Shares is the handle of another account or row with the address, which is then not verified for this one, or "".
func (r ImportResult) Shares() string { return r.shares }

// User returns the user that the row describes, as far as it is valid.
func (r ImportResult) User() account.User { return r.user }

// Problems returns why the row is refused.
func (r ImportResult) Problems() (all []*web.Problem) {
	for _, err := range r.refused {
		p, known := web.ProblemOf(err)
		if !known {
			p = account.ErrInvalidText
		}
		all = append(all, p)
	}
	return all
}
