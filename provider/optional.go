package provider

import (
	"context"
	"slices"
)

// leaveOut takes the optional scopes that the user has left out, now or before, from
// what is granted. What the client no longer marks as optional is asked for again.
func (q *authzState) leaveOut(ctx context.Context, storage Storage, sub string) error {
	if len(q.client.OptionalScopes) == 0 {
		return nil
	}
	refused, err := storage.RefusedScopes(ctx, sub, q.client.ID)
	q.without(slices.Concat(refused, q.leftOut))
	return err
}

// without is the request less the left-out scopes and the claims of these.
func (q *authzState) without(leftOut []string) {
	out := both(both(q.agreed, leftOut), q.client.OptionalScopes)
	if len(out) == 0 {
		return
	}
	q.granted, q.agreed, q.leftOut = less(q.granted, out), less(q.agreed, out), out
	of := func(claim string) bool { return slices.Contains(out, claimScope(claim)) }
	q.claims.UserInfo = slices.DeleteFunc(slices.Clone(q.claims.UserInfo), of)
	q.claims.IDToken = slices.DeleteFunc(slices.Clone(q.claims.IDToken), of)
}

// both are those of a that b has too.
func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// less are those of a that b has not.
func less(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
