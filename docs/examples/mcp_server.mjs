import { inflateSync } from 'node:zlib'
import express from 'express'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter, requireBearerAuth } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer, OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server'

const { ISSUER, RESOURCE, PORT, INTROSPECTION_ID, INTROSPECTION_SECRET } = process.env
const keys = createRemoteJWKSet(new URL(`${ISSUER}/.well-known/jwks.json`))
const lists = new Map() // address -> the last status list, and until when it is good

async function statusList(uri) {
  const kept = lists.get(uri)
  if (kept && Date.now() < kept.until) return kept.bits
  const answer = await fetch(uri, { redirect: 'error', signal: AbortSignal.timeout(5000) })
  const { payload } = await jwtVerify(await answer.text(), keys, { typ: 'statuslist+jwt', subject: uri })
  const bits = inflateSync(Buffer.from(payload.status_list.lst, 'base64url'), { maxOutputLength: 1 << 20 })
  lists.set(uri, { bits, until: Date.now() + payload.ttl * 1000 })
  return bits
}

async function locally(token) {
  const { payload } = await jwtVerify(token, keys, { typ: 'at+jwt', issuer: ISSUER, audience: RESOURCE })
  const { idx, uri } = payload.status.status_list
  if (!uri.startsWith(`${ISSUER}/oauth2/status/`)) throw new Error('a status list of somebody else')
  const bits = await statusList(uri)
  if (idx >= 8 * bits.length || (bits[idx >> 3] >> (idx & 7)) & 1) throw new Error('the grant was ended')
  return payload
}

async function byIntrospection(token) {
  const answer = await fetch(`${ISSUER}/oauth2/introspect`, {
    method: 'POST',
    headers: { authorization: 'Basic ' + Buffer.from(`${INTROSPECTION_ID}:${INTROSPECTION_SECRET}`).toString('base64') },
    body: new URLSearchParams({ token }),
  })
  const claims = await answer.json()
  if (!claims.active) throw new Error('not active')
  return claims
}

async function verifyAccessToken(token) {
  let claims
  try {
    claims = await (INTROSPECTION_ID ? byIntrospection(token) : locally(token))
  } catch {
    throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is not valid')
  }
  return {
    token, clientId: claims.client_id, scopes: [...claims.scope.split(' '), 'offline_access'], expiresAt: claims.exp,
    resource: new URL(RESOURCE), extra: { sub: claims.sub },
  }
}

const app = express()
const metadata = await (await fetch(`${ISSUER}/.well-known/oauth-authorization-server`)).json()
app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: new URL(RESOURCE), scopesSupported: ['notes.read'] }))
const signedIn = requireBearerAuth({
  // The client asks for the scopes that the 401 names. offline_access gives it a refresh token; nobody needs it here, so
  // verifyAccessToken adds it.
  verifier: { verifyAccessToken }, requiredScopes: ['notes.read', 'offline_access'],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(new URL(RESOURCE)),
})
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  server.registerTool('whoami', { description: 'Says who is signed in.' }, async ({ http }) => ({
    content: [{ type: 'text', text: `${http.authInfo.extra.sub} ${http.authInfo.clientId}` }],
  }))
  return server
})
const answer = toNodeHandler(handler)
app.all('/mcp', signedIn, express.json(), (request, response) => answer(request, response, request.body))
app.listen(Number(PORT), '127.0.0.1')
