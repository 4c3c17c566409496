import { inflateSync } from 'node:zlib'
import express from 'express'
import { createRemoteJWKSet, errors, jwtVerify } from 'jose'

const ISSUER = 'https://id.example.org', API = 'https://api.example.org'
const algorithms = ['ES256', 'RS256', 'EdDSA']
class Unavailable extends Error {} // it cannot be known now: answer 503

const published = createRemoteJWKSet(new URL(`${ISSUER}/.well-known/jwks.json`))
async function keys(header, token) {
  try {
    return await published(header, token)
  } catch (err) {
    throw err instanceof errors.JWKSNoMatchingKey ? err : new Unavailable('no keys', { cause: err })
  }
}

const lists = new Map() // the last good copy of each status list, by address

async function renew(uri, list) {
  list.renew = Date.now() + 1000 // after a failure
  try {
    const answer = await fetch(uri, { redirect: 'error', signal: AbortSignal.timeout(5000) })
    if (!answer.ok) throw new Error(`status ${answer.status}`)
    const rules = { typ: 'statuslist+jwt', subject: uri, algorithms, requiredClaims: ['exp', 'ttl', 'status_list'] }
    const { payload } = await jwtVerify(await answer.text(), keys, rules)
    list.bits = inflateSync(Buffer.from(payload.status_list.lst, 'base64url'), { maxOutputLength: 1 << 20 })
    list.until = payload.exp * 1000
    list.renew = Date.now() + payload.ttl * 1000
  } catch (err) {
    console.warn(`${uri}: ${err.message}`)
  }
}

async function revoked({ idx, uri }) {
  if (!uri.startsWith(`${ISSUER}/oauth2/status/`) || !(Number.isInteger(idx) && idx >= 0)) return true
  if (!lists.has(uri)) lists.set(uri, { renew: 0, until: 0 })
  const list = lists.get(uri)
  if (Date.now() >= list.renew || list.flight) {
    await (list.flight ??= renew(uri, list).finally(() => { list.flight = null }))
  }
  if (Date.now() >= list.until) throw new Unavailable('no status list')
  return idx >= 8 * list.bits.length || ((list.bits[idx >> 3] >> (idx & 7)) & 1) === 1
}

async function verify(token) {
  const { payload } = await jwtVerify(token, keys, {
    issuer: ISSUER, audience: API, typ: 'at+jwt', algorithms, clockTolerance: 30,
    requiredClaims: ['sub', 'client_id', 'iat', 'exp', 'jti', 'status'],
  })
  if (payload.cnf) throw new Error('bound to a key, and proofs are not checked here')
  if (await revoked(payload.status.status_list)) throw new Error('revoked')
  return payload
}

const requireScope = (scope) => async (request, response, next) => {
  const refuse = (status, error) => response.status(status).set('WWW-Authenticate', `Bearer realm="${API}"${error}`).end()
  const [, token] = /^Bearer +([^ ]+)$/i.exec(request.get('authorization') ?? '') ?? []
  if (!token) return refuse(401, '')
  try {
    request.token = await verify(token)
  } catch (err) {
    if (err instanceof Unavailable) return response.status(503).set('Retry-After', '10').end()
    return refuse(401, ', error="invalid_token"')
  }
  if (!(request.token.scope ?? '').split(' ').includes(scope)) {
    return refuse(403, `, error="insufficient_scope", scope="${scope}"`)
  }
  next()
}

const app = express()
app.get('/trails', requireScope('trails.read'), (request, response) => response.json({ sub: request.token.sub }))
app.listen(8080, '127.0.0.1')
