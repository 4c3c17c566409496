// A web application with openid-client, as its documentation shows it: PKCE,
// and no state, because PKCE already binds the answer to the browser's session.
import { createServer } from 'node:http'
import { randomUUID } from 'node:crypto'
import * as client from 'openid-client'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, BASE } = process.env
const issuer = new URL(ISSUER)
const config = await client.discovery(issuer, CLIENT_ID, CLIENT_SECRET, undefined, {
  execute: issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [],
})
const verifiers = new Map() // session cookie -> PKCE verifier

async function login(response) {
  const session = randomUUID()
  const verifier = client.randomPKCECodeVerifier()
  verifiers.set(session, verifier)
  const url = client.buildAuthorizationUrl(config, {
    redirect_uri: `${BASE}/callback`,
    scope: 'openid profile offline_access',
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  })
  response.writeHead(302, { location: url.href, 'set-cookie': `rp=${session}; HttpOnly; Path=/` }).end()
}

async function callback(request, response) {
  const session = /(?:^|; )rp=([^;]+)/.exec(request.headers.cookie ?? '')?.[1]
  const tokens = await client.authorizationCodeGrant(config, new URL(request.url, BASE), {
    pkceCodeVerifier: verifiers.get(session),
    idTokenExpected: true,
  })
  const subject = tokens.claims().sub
  const userinfo = await client.fetchUserInfo(config, tokens.access_token, subject)
  const refreshed = await client.refreshTokenGrant(config, tokens.refresh_token)
  const again = await client.fetchUserInfo(config, refreshed.access_token, subject)
  response.writeHead(200, { 'content-type': 'application/json' }).end(
    JSON.stringify({
      sub: subject,
      name: userinfo.name,
      handle: userinfo.preferred_username,
      refreshed_sub: refreshed.claims()?.sub,
      refreshed_name: again.name,
      rotated: refreshed.refresh_token !== undefined && refreshed.refresh_token !== tokens.refresh_token,
    }),
  )
}

createServer((request, response) => {
  const work = request.url.startsWith('/callback') ? callback(request, response) : login(response)
  work.catch((err) => {
    console.error(err)
    response.writeHead(500, { 'content-type': 'text/plain' }).end(String(err))
  })
}).listen(Number(new URL(BASE).port), '127.0.0.1')
