package account

import (
	"bufio"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/cairn-id/cairn/account/web"
)

// PastedColumns are the columns of a pasted list, all but the first two optional.
var PastedColumns = []string{"display_name", "email", "flags", "handle"}

// ReadPasted reads a list of people as ReadImportCSV does. Whoever has no handle gets one that suits the name,
// and everybody the default flags besides those in the list.
func (a *Administration) ReadPasted(ctx context.Context, pasted string) ([]ImportRow, error) {
	rows, err := ReadImportCSV(bufio.NewReader(strings.NewReader(strings.TrimPrefix(pasted, "\ufeff"))), PastedColumns...)
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
		for name, cell := range row.Members {
			row.Members[name] = strings.TrimSpace(cell)
		}
		row.Members["flags"] = strings.Join(slices.Concat(settings.DefaultFlags, []string{row.Members["flags"]}), " ")
	}
	return rows, a.suggestHandles(ctx, rows)
}

// suggested is how many handles are tried for a name.
const suggested = 9

// suggestHandles gives each row without a handle one that is free: anna-berg, anna-berg-2.
func (a *Administration) suggestHandles(ctx context.Context, rows []ImportRow) error {
	var all []string
	for _, row := range rows {
		if row.Members["handle"] == "" {
			all = append(all, suggestionsFor(row.Members)...)
		}
	}
	taken, err := a.store.TakenUsers(ctx, all, nil, nil)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, handle := range slices.Concat(taken, reservedHandles) {
		used[HandleKey(handle)] = true
	}
	for _, row := range rows {
		used[HandleKey(row.Members["handle"])] = true
	}
	for _, row := range rows {
		if row.Members["handle"] != "" {
			continue
		}
		free := suggestionsFor(row.Members)
		for n := suggested + 1; used[HandleKey(free[0])]; n++ {
			if free = free[1:]; len(free) == 0 { // whether it is taken, CheckImport sees
				free = []string{numbered(suggestionsFor(row.Members)[0], n)}
			}
		}
		row.Members["handle"], used[HandleKey(free[0])] = free[0], true
	}
	return nil
}

func suggestionsFor(m map[string]string) []string {
	name := handleOf(m["display_name"])
	if name == "" {
		local, _, _ := strings.Cut(m["email"], "@")
		if name = handleOf(local); name == "" {
			name = "member"
		}
	}
	all := []string{name}
	for n := 2; n <= suggested; n++ {
		all = append(all, numbered(name, n))
	}
	return all
}

func numbered(handle string, n int) string {
	suffix := "-" + strconv.Itoa(n)
	return strings.TrimRight(handle[:min(len(handle), maxHandle-len(suffix))], "-") + suffix
}

// latin are letters that do not decompose into one of a-z.
var latin = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "ß", "ss", "æ", "ae", "ø", "o", "œ", "oe", "ł", "l",
	"đ", "d", "ð", "d", "þ", "th", "ı", "i")

// handleOf returns the handle that suits a name, "" if it has none of the letters a-z.
func handleOf(name string) string {
	name = latin.Replace(norm.NFC.String(strings.ToLower(name)))
	words := strings.FieldsFunc(norm.NFD.String(name), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M) })
	for i, word := range words {
		words[i] = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, word)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	handle := strings.Join(words, "-")
	return strings.TrimRight(handle[:min(len(handle), maxHandle)], "-")
}

// CheckPasted checks the rows of a pasted list as an import: see Import. People whose address an account has are left
// out. Those who are added get the link to choose a password by mail, or a code if mail is off or they have no
// address.
func (a *Administration) CheckPasted(ctx context.Context, by Caller, rows []ImportRow) (*Import, error) {
	return a.CheckImport(ctx, nil, rows, ImportOptions{ResetCodes: true, ByMail: a.mail, By: by, ByAddress: true})
}

// Member is the handle of the account for whose sake a row is left out, or "".
func (r ImportResult) Member() string { return r.member }

// User returns the user that the row describes, as far as it is valid.
func (r ImportResult) User() User { return r.user }

// Problems returns why the row is refused.
func (r ImportResult) Problems() (all []*web.Problem) {
	for _, err := range r.refused {
		p, known := web.ProblemOf(err)
		if !known {
			p = ErrInvalidText
		}
		all = append(all, p)
	}
	return all
}
