// A client of the FAPI 2.0 Security Profile with openid-client: pushed requests, private_key_jwt and DPoP. It writes the
// address for the browser, reads where that was sent back to, and writes what it got.
import { createInterface } from 'node:readline/promises'
import * as client from 'openid-client'

const { ISSUER, CLIENT_ID, KEY } = process.env
const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
const jwk = JSON.parse(KEY)
const key = await crypto.subtle.importKey('jwk', jwk, algorithm, false, ['sign'])
const config = await client.discovery(
  new URL(ISSUER),
  CLIENT_ID,
  { id_token_signed_response_alg: 'ES256' },
  client.PrivateKeyJwt({ key, kid: jwk.kid }),
  { execute: [client.allowInsecureRequests] },
)
const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
const pkceCodeVerifier = client.randomPKCECodeVerifier()
const address = await client.buildAuthorizationUrlWithPAR(
  config,
  {
    redirect_uri: 'https://bank.example.org/callback',
    scope: 'openid profile offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: 'S256',
  },
  { DPoP },
)
console.log(address.href)
const lines = createInterface({ input: process.stdin })
const [back] = await new Promise((done) => lines.once('line', (line) => done([line])))
const checks = { pkceCodeVerifier, idTokenExpected: true }
const tokens = await client.authorizationCodeGrant(config, new URL(back), checks, undefined, { DPoP })
const seen = await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub, { DPoP })
const kept = []
for (let i = 0; i < 2; i++) {
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP })
  kept.push(refreshed.refresh_token === tokens.refresh_token && refreshed.access_token !== tokens.access_token)
}
console.log(seen.preferred_username, tokens.token_type, ...kept)
process.exit(0)
