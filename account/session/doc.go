// Package session verifies Cairn's session cookie inside another application, and its access tokens
// inside an API, without a call to Cairn for each request.
//
// It owns the rules by which these tokens are accepted, the key sets and status lists that these
// rules need, and middleware for net/http. It leaves to others: issuing tokens, storing sessions,
// signing users in, and the other tokens of OpenID Connect clients. It imports only the standard
// library and go-jose v4.
//
// # The token
//
// The cookie's value is a JWT (RFC 7519) in compact serialization, of at most 4,096 bytes, with a
// lifetime of 30 days. Cairn signs it with HS256 and the secret that `cairn show-secret` prints, or,
// once it has a private key, with RS256 under a kid of its published key set. After that change the
// issued HS256 tokens stay valid until they expire, so an application keeps both the secret and the
// key set for 30 days.
//
// # Setting up
//
// Make one [Verifier] at start, call [Verifier.Check], and share it: it is safe for concurrent use
// as long as no field is changed.
//
//	keys := session.NewRemoteKeySet("https://id.example.org/.well-known/jwks.json", session.RemoteOptions{})
//	v := &session.Verifier{
//		Issuer:     "https://id.example.org",
//		Keys:       keys,
//		Secret:     []byte(os.Getenv("SERVICE_AUTH_JWT_SECRET")),
//		CookieName: "__Host-cairn_session",
//	}
//	v.Status = session.NewRemoteStatusList(session.RemoteStatusOptions{
//		Issuer: v.Issuer, Keys: v.Keys, Secret: v.Secret, Wait: 25 * time.Second,
//	})
//	if err := v.Check(); err != nil {
//		log.Fatal(err)
//	}
//	http.Handle("/", session.Middleware(v, nil)(app))
//
// A nil Secret refuses HS256 and nil Keys refuse RS256: leave out what is not in use. The secret is
// used byte for byte. It is not decoded, and a line break read from a file must be removed first.
//
// # What is checked
//
// Only the header's alg chooses the kind of key: HS256 is verified with the secret, RS256 with the
// RSA key of its kid (at least 2048 bits). Refused are every other algorithm, a header that contains
// or refers to a key, an extension (crit, b64), a typ other than JWT, repeated JSON members, and
// base64url that is not in its canonical form. Then iss must equal Issuer and aud must equal
// Audience; sub, sid, jti, iat and exp must be present and of their types; exp must be in the
// future, iat, nbf and auth_time in the past; and exp at most 30 days after iat. Times may be off by
// Leeway. Member names are case-sensitive. A kid is 1 to 128 letters, digits or ".", "_", "~", "-";
// any other is refused without asking the key set.
//
// # Revoked sessions
//
// A session can end weeks before its token expires: its owner signs out, changes the password, or
// ends it from another browser; an administrator suspends or deletes the account. Verifier.Status
// learns of it from the Token Status Lists of Cairn (draft-ietf-oauth-status-list), in which each
// token has one bit. [RemoteStatusList] keeps copies of them:
//
//   - ttl. A revoked session is refused, with [ErrRevoked], within the ttl of the list: 60 seconds,
//     unless the operator has set another time. The copy is renewed in the background; only the first
//     request waits, and the first one after five minutes without any.
//   - Wait. With RemoteStatusOptions.Wait, Cairn is asked to hold the request until the list changes
//     (RFC 7240, wait=25), and the session is refused about a second after it was revoked. This takes
//     one open connection per list, until five minutes after its last use, or Close. A server or a
//     proxy that does not hold requests is asked as without Wait.
//   - Outages. If Cairn does not answer, the last copy is used until its exp, 12 hours after it was
//     signed. No request waits meanwhile. The list is requested again after a second at first, later at
//     least every ten seconds, as long as it is in use. After exp, or without any copy, sessions are
//     refused with [ErrStatusUnavailable]. A machine that was suspended knows by the time of day that
//     its copies are old.
//   - FailOpen then accepts them, except those that the last copy has as revoked. A session that was
//     revoked during the outage is accepted, as is every session by an application without a copy.
//     Choose it if availability matters more than keeping a revoked user out.
//   - Load. There is one request for a list at a time, two start at least MinInterval apart, and
//     responses and memory are limited, however many sessions, lists and failures there are. Only
//     addresses below the issuer are fetched.
//
// A list is accepted if it is signed like session tokens, with the type statuslist+jwt, has its own
// address as sub, has not expired, and is not older than the copy. Once Cairn has a private key it
// signs all lists with it, also those of HS256 sessions: give the keys to both Verifier and
// RemoteStatusList before that change. A token without an index in a list is refused.
//
// If Status is nil, revocation is not checked, and a revoked session stays valid until it expires.
// In both cases Claims.Groups are those of the sign-in, unless the operator has set
// sign_out_on_flag_loss, which ends sessions with a lost flag. Ask `GET /api/me` at Cairn before an
// operation that cannot be undone. Prefer RS256, because a leak in one application does not let an
// attacker make tokens for all of them. SecretUntil ends the time in which both algorithms are
// accepted: set it in both Verifier and RemoteStatusList.
//
// # Access tokens
//
// An [AccessTokenVerifier] verifies the access tokens for one API (RFC 9068): JWTs of the type
// at+jwt, signed with ES256, RS256 or EdDSA by a key of the key set, never with the secret, whose aud
// contains the API. Claims, times and revocation are checked as for session tokens. A bit in the
// status list is set when the grant ends: by sign-out (without offline_access), suspension, removed
// consent, revocation, or the replay of a code or refresh token. Session tokens and ID tokens are not
// accepted as access tokens, nor access tokens as sessions.
//
//	v := &session.AccessTokenVerifier{Issuer: issuer, Audience: "https://api.example.org", Keys: keys, Status: lists}
//	http.Handle("GET /trails", v.RequireScopes("trails.read")(trails))
//
// A token that is bound to a key (DPoP, RFC 9449) is refused unless Proof checks the proofs.
//
// # Second factor
//
// Claims.AMR has the methods of the sign-in (RFC 8176), Claims.ACR its class: [ACRPassword],
// [ACRTwoFactors] or [ACRPhishingResistant], each of which satisfies those before it. Both are those
// of the sign-in, as Claims.Groups are. A token of an earlier version of Cairn has neither, and
// counts as [ACRPassword]. Verifier.RequireACR refuses a lower class with
// [ErrInsufficientAuthentication]. If only some pages need a second factor, call
// [Claims.SatisfiesACR] there.
//
// The person is signed in then, so the sign-in page alone would redirect them. Send them to
// /login/?fresh=confirm below the issuer, which asks for the password and the second factor, or to
// /account/security, where people without a factor set one up. Neither leads back to the
// application; an OpenID Connect client that sends acr_values gets them back.
//
// # Cookies
//
// The cookie's name tells how well browsers protect it: __Host-cairn_session on https,
// __Secure-cairn_session on https with a shared cookie domain, cairn_session on plain http, which is
// for loopback. Without CookieName all three are tried in this order. In production set CookieName
// to the name in use: a sibling host of the same site can set a cookie with one of the weaker names
// and sign a visitor in as another user. Several cookies of one name can arrive, so each is tried
// and the first valid one counts.
//
// # Errors
//
// [ErrNoCookie], [ErrNoToken] and [ErrInvalid] (with [ErrExpired], [ErrRevoked] and [ErrUnknownKey]
// as special cases) mean that nobody is signed in. [ErrInsufficientAuthentication] means signed in
// with less than RequireACR. [ErrKeysUnavailable] and [ErrStatusUnavailable] mean that it is not
// known now: answer 503, not 401, so that an outage of Cairn does not sign all users out. Any other
// error is a wrong setting, as reported by Check. No error contains a token, a part of one, or the
// secret.
//
// # Keys over the network
//
// [RemoteKeySet] fetches the key set when it is first needed and afterwards in the background, one
// request at a time, at least MinInterval apart, also after failures and for unknown kids. If Cairn
// does not answer, the last valid copy stays in use. Use an https address unless it is on loopback:
// whoever can change the response can sign in as anybody.
//
// A key that Cairn has removed from its key set, because it may have leaked, is accepted for 10
// minutes of steady use (MaxAge), and for at most 20 if it is used now and then: a request that finds
// an older copy waits for the new one, unless Cairn does not answer. A [RemoteStatusList] with the
// same key set has it fetched again when another key than before signs a list: after its ttl in use.
//
// A connection can die silently, as when a gateway forgets it or Cairn moves to another host.
// Without a Client of your own it is given up within 8 seconds.
package session
