package provider

import "slices"

// without removes the optional scopes that the user leaves out. Scopes that the client no longer
// marks as optional are asked for again.
func (q *authzState) without(leftOut []string) {
	out := intersect(intersect(q.agreed, leftOut), q.client.OptionalScopes)
	if len(out) == 0 {
		return
	}
	q.granted, q.agreed, q.leftOut = subtract(q.granted, out), subtract(q.agreed, out), out
	// An API of which every scope is left out is not asked for, unless by its URI.
	kept := q.apis.uses(q.named, q.granted)
	q.agreed, q.resources = subtract(q.agreed, subtract(q.resources, kept)), kept
	of := func(claim string) bool { return slices.Contains(out, claimScope(claim)) }
	q.claims.UserInfo = slices.DeleteFunc(slices.Clone(q.claims.UserInfo), of)
	q.claims.IDToken = slices.DeleteFunc(slices.Clone(q.claims.IDToken), of)
}

// intersect returns the elements of a that are in b.
func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// subtract returns the elements of a that are not in b.
func subtract(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}
