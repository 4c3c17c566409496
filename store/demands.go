package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-id/cairn/account"
	"github.com/cairn-id/cairn/provider"
	"github.com/cairn-id/cairn/store/engine"
)

// unfit holds for a grant g for APIs whose user may no longer use the client, or signed in with less than is now
// required. The provider refuses such a grant at each use. APIs that verify its tokens locally learn that from the
// status list alone, so whatever changes a demand revokes the grant, and it stays revoked.
const unfit = `g.status_list > 0 AND EXISTS (SELECT 1 FROM clients k JOIN users u ON u.sub = g.sub
	WHERE k.id = g.client_id AND (k.require_verified_email AND NOT u.email_verified
	OR k.require_flag <> '' AND (SELECT count(*) FROM user_flags f WHERE f.sub = g.sub
			AND (f.ends_at = 0 OR f.ends_at > @now)
			AND replace(' ' || k.require_flag || ' ', ' ' || f.flag || ' ', '') <> ' ' || k.require_flag || ' ')
		< CASE WHEN k.require_all THEN 1 + length(k.require_flag) - length(replace(k.require_flag, ' ', '')) ELSE 1 END
	OR (k.require_acr <> '' OR EXISTS (SELECT 1 FROM user_flags f
			WHERE f.sub = g.sub AND f.flag IN @second AND (f.ends_at = 0 OR f.ends_at > @now)))
		AND NOT ((u.second_factor OR EXISTS (SELECT 1 FROM passkeys p WHERE p.sub = g.sub))
			AND (g.amr LIKE '%hwk%' OR g.amr LIKE '%swk%'
			OR k.require_acr <> 'phr' AND g.amr LIKE '%mfa%' AND g.amr LIKE '%pwd%'))))`

// revokeUnfit revokes the unfit grants that meet a condition. It returns what to revoke in the status lists near the
// end of the transaction.
func revokeUnfit(tx *engine.Tx, now time.Time, condition string, args map[string]any) []revocation {
	v, err := settingsOf(tx.DB)
	if !errors.Is(err, account.ErrNotInitialized) { // else no setting demands anything yet
		tx.Refuse(err)
	}
	args["second"] = append([]string{""}, v.SecondFactorFlags...)
	_, tokens := revokeGrants(tx, now, condition+" AND "+unfit, args)
	return tokens
}

// revokeForAPI revokes what gives access to an API to clients that may no longer use it. after is nil for an API that
// was removed.
func revokeForAPI(tx *engine.Tx, before, after *provider.API) {
	clients, err := readClients(tx.DB, tx.Now(), "")
	tx.Refuse(err)
	lost := slices.DeleteFunc(clients, func(c *provider.Client) bool {
		return !before.Admits(c) || after != nil && after.Admits(c)
	})
	if len(lost) == 0 {
		return
	}
	has := func(words string) string {
		return "replace(' ' || " + words + " || ' ', @uri, '') <> ' ' || " + words + " || ' '"
	}
	args := map[string]any{
		"clients": each(lost, func(c *provider.Client) string { return c.ID }), "uri": " " + before.URI + " ",
	}
	_, tokens := revokeGrants(tx, fromUnix(tx.Now()), "g.client_id IN @clients AND "+has("g.resources"), args)
	var own []revocation
	tx.Find(&own, "UPDATE client_tokens SET revoked_at = @now WHERE client_id IN @clients AND revoked_at = 0 AND "+
		has("audience")+" RETURNING status_list, status_index, expires_at", args)
	tx.NoteRevoked(revokedToken, len(own))
	revoke(tx, slices.Concat(tokens, onLists(own)))
}

// actOnMany is act for what may revoke the grants of all users, in one statement.
func (s *Store) actOnMany(ctx context.Context, doing string, a account.Audit, do func(tx *engine.Tx)) error {
	return s.writeAlone(ctx, doing, bulkTimeout, func(tx *engine.Tx) {
		if s.Dialect() == Postgres {
			tx.Exec("SET LOCAL statement_timeout = 0") // that of the transaction holds
		}
		checkActor(tx, a)
		do(tx)
	})
}
