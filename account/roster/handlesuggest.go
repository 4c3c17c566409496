package roster

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-id/cairn/account"
)

// suggestHandles gives each row without a handle one that is free: anna-berg, anna-berg-2.
func (a *Administration) suggestHandles(ctx context.Context, rows []ImportRow) error {
	var all []string
	for _, row := range rows {
		if row.Members["handle"] == "" {
			all = append(all, suggestionsFor(row.Members)...)
		}
	}
	taken, err := a.Store().TakenUsers(ctx, all, nil, nil)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, handle := range slices.Concat(taken, account.ReservedHandles) {
		used[account.HandleKey(handle)] = true
	}
	for _, row := range rows {
		used[account.HandleKey(row.Members["handle"])] = true
	}
	for _, row := range rows {
		if row.Members["handle"] != "" {
			continue
		}
		free := suggestionsFor(row.Members)
		for n := suggested; used[account.HandleKey(free[0])]; {
			if free = free[1:]; len(free) == 0 { // whether it is taken, CheckImport sees
				n++
				free = []string{numbered(suggestionsFor(row.Members)[0], n)}
			}
		}
		row.Members["handle"], used[account.HandleKey(free[0])] = free[0], true
	}
	return nil
}

func numbered(handle string, n int) string {
	suffix := "-" + strconv.Itoa(n)
	return strings.TrimRight(handle[:min(len(handle), account.MaxHandle-len(suffix))], "-") + suffix
}
