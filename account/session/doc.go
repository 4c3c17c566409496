// Package session verifies Cairn's session cookie inside another application, and its access tokens
// inside an API, without a call to Cairn for each request.
//
// It owns the rules by which these tokens are believed, the key sets and status lists
// these rules need, and middleware for net/http. It leaves to others: minting the
// tokens and the rows behind them, signing users in, and
// the other tokens of OpenID Connect clients, which never pass here. It
// imports the standard library and go-jose v4, nothing else.
//
// # The token
//
// The cookie's value is a JWT (RFC 7519) in compact serialization, at most
// 4,096 bytes, that lives 30 days. Cairn signs it with HS256 and the secret
// that `cairn show-secret` prints, or, once it has a private key, with RS256
// under a kid of its published key set. After that change the HS256 tokens
// already given out stay good until they expire, so an application keeps both
// the secret and the key set for 30 days.
//
// # Setting up
//
// Make one [Verifier] at start, call [Verifier.Check], share it: it is safe for
// use by many goroutines as long as no field is changed.
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
// A nil Secret refuses HS256, nil Keys refuse RS256: leave out what is not in
// use. The secret is taken byte for byte; it is not decoded, and a line end read
// from a file has to be cut off first.
//
// # What is checked
//
// The header's alg chooses the kind of key and nothing else does: HS256 is tried
// with the secret alone, RS256 with the one RSA key of its kid (2048 bits at
// least). Every other algorithm, a header that brings or names its own key, an
// extension (crit, b64), a typ other than JWT, repeated JSON members, and
// base64url that is not in its one canonical form are refused. Then: iss equal to
// Issuer, aud equal to Audience, sub, sid, jti, iat and exp present and of
// their types, exp to come, iat, nbf and auth_time not to come, and no more than
// 30 days between iat and exp. Times may be off by Leeway. Member names count
// only in their exact case. A kid is 1 to 128 letters, digits or ".", "_", "~",
// "-"; another one is refused without a look at the key set.
//
// # Revoked sessions
//
// A session can be over while its token has weeks to live: its owner signs out, changes the
// password, or ends it from another browser; an administrator suspends or deletes the account.
// Verifier.Status learns of it from the Token Status Lists of Cairn (draft-ietf-oauth-status-list),
// in which each token has one bit. [RemoteStatusList] keeps copies of them:
//
//   - ttl. A revoked session is refused, with [ErrRevoked], when the ttl of the list has passed
//     at the latest: 60 seconds, unless the operator has set another time. No request waits but the first
//     one, and the first one after five minutes without any: the copy is renewed in the background.
//   - Wait. With RemoteStatusOptions.Wait Cairn is asked to hold the request until the list changes
//     (RFC 7240, wait=25), and the session is refused about a second after it was revoked. This takes one
//     open connection for a list, and ends five minutes after its last use, or with Close. A server or a
//     proxy that does not go along with it is asked as without Wait.
//   - Outages. When Cairn does not answer, the last copy serves until its exp, 12 hours after it was
//     signed. No request waits for it, and it is tried again after a second at first, at least every ten
//     seconds later, as long as the list is in use. After exp, or without any copy, sessions are refused
//     with [ErrStatusUnavailable]. A machine that was suspended knows by the time of day that its copies are old.
//   - FailOpen accepts them then, except those that the last copy says are over. A session that was revoked
//     during the outage is accepted, as is every session by an application without a copy. Choose it where
//     availability matters more than keeping a revoked user out.
//   - Load. One request for a list is out at a time, two begin at least MinInterval apart, and answers
//     and memory are bounded, however many sessions, lists and failures there are. Only addresses below the
//     issuer are fetched.
//
// A list is believed when it is signed as session tokens are, with the type statuslist+jwt, names
// its own address as sub, has not expired, and is not older than the copy. Once Cairn has a
// private key it signs the lists with it, also those of HS256 sessions: give the keys to both,
// Verifier and RemoteStatusList, before that change. A token without a place in a list is refused.
//
// With Status nil revocation is not checked, and a revoked session goes on until it expires. In both cases
// Claims.Groups are those of the sign-in, unless the operator has a lost flag end sessions
// (the setting sign_out_on_flag_loss). Ask `GET /api/me` at Cairn before an operation that cannot be
// undone, and prefer RS256, with which a leak at one application does not let an attacker make tokens
// for all of them. SecretUntil ends the time in which both count: give the same to Verifier and
// RemoteStatusList.
//
// # Access tokens
//
// An [AccessTokenVerifier] verifies the access tokens for one API (RFC 9068): JWTs of the type at+jwt,
// signed with ES256, RS256 or EdDSA by a key of the key set and never with the secret, whose aud names
// the API. The checks of claims, times and revocation are those of session tokens; a bit in the
// status list is set when the grant ends, by sign-out (without offline_access), suspension, removed
// consent, revocation or the replay of a code or refresh token. Neither a session token nor an ID token passes, and no
// access token passes as a session.
//
//	v := &session.AccessTokenVerifier{Issuer: issuer, Audience: "https://api.example.org", Keys: keys, Status: lists}
//	http.Handle("GET /trails", v.RequireScopes("trails.read")(trails))
//
// A token that is bound to a key (DPoP, RFC 9449) is refused unless Proof checks the proofs.
//
// # Second factor
//
// Claims.AMR has the methods of the sign-in (RFC 8176), Claims.ACR its class: [ACRPassword],
// [ACRTwoFactors] or [ACRPhishingResistant], of which each satisfies those before it. Both are those of
// the sign-in, as Claims.Groups are. A token of an earlier version of Cairn has neither, and counts as
// [ACRPassword]. Verifier.RequireACR refuses a lower class with [ErrInsufficientAuthentication]; where
// only some pages need a second factor, ask [Claims.SatisfiesACR] there.
//
// Such a person is signed in, so the sign-in page alone would send them on. Lead them to
// /login/?fresh=confirm below the issuer, which asks for the password and the second factor, or to
// /account/security, where somebody without one sets it up first. Neither leads back to the
// application; a client of OpenID Connect that sends acr_values gets them back.
//
// # Cookies
//
// The cookie's name says how well browsers guard it: __Host-cairn_session on
// https, __Secure-cairn_session on https with a shared cookie domain,
// cairn_session on plain http, which is for loopback. Without CookieName all
// three are tried in this order. In production set CookieName to the one name in
// use: a sibling host of the same site can plant a cookie with one of the weaker
// names and sign a visitor in as another user. Several cookies of one name can
// arrive, so each is tried and the first good one counts.
//
// # Errors
//
// [ErrNoCookie], [ErrNoToken], [ErrInvalid] (with [ErrExpired], [ErrRevoked] and [ErrUnknownKey] as special
// cases) mean: not signed in. [ErrInsufficientAuthentication] means: signed in with less than
// RequireACR. [ErrKeysUnavailable] and [ErrStatusUnavailable] mean: it cannot be known
// now; that is a 503, not a 401, so that a pause of Cairn does not sign all users out. Any
// other error is a wrong setting, as told by Check. No error holds a token, a
// part of one, or the secret.
//
// # Keys over the network
//
// [RemoteKeySet] fetches the key set when it is first needed and afterwards in the
// background, one request at a time, MinInterval apart at least, also after failures and
// however many unknown kids arrive. When Cairn does not answer, the last good copy goes on
// serving. Use an https address unless it is on loopback: who can change the answer can sign in
// as anybody.
//
// A key that Cairn has left out of its key set, because it may have leaked, is believed
// for 10 minutes of steady use (MaxAge), and where it is used now and then for 20 at most: who
// finds the copy older than that waits for the new one, unless Cairn does not answer.
//
// A connection can die without a word, as when a gateway forgets it or Cairn moves to another
// host. Without a Client of your own it is given up within 8 seconds.
package session
