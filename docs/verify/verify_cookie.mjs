// Who is signed in, by the value of Cairn's session cookie. Needs Node.js 20 and jose 6, or newer.
import { inflateSync } from 'node:zlib'
import { decodeProtectedHeader, importJWK, jwtVerify } from 'jose'

const LEEWAY = 30, LIFETIME = 30 * 86400, FLOOR = 5 // seconds: clocks differ, a session lives, between two fetches
const LIMIT = 1 << 20 // bytes of an answer, and of a status list unpacked
const within = (since, seconds) => Date.now() >= since && Date.now() < since + seconds * 1000

export class Refused extends Error {} // not signed in: answer 401
export class Unavailable extends Error {} // cannot be checked now: answer 503

class Copy { // the last good answer of one address, with at most one request in flight
  constructor(url, read) {
    Object.assign(this, { url, read, value: null, etag: null, ttl: 0, fetched: 0, tried: 0, failed: true, flight: null })
  }

  async get(enough) {
    const good = this.value && within(this.fetched, this.ttl) && enough(this.value)
    if (!good && !within(this.tried, FLOOR)) {
      await (this.flight ??= this.fetch().finally(() => { this.flight = null }))
    }
    return this.value // null before the first good answer
  }

  async fetch() {
    const start = Date.now()
    try { // not after a redirect, which could lead to foreign keys
      const headers = this.etag ? { 'if-none-match': this.etag } : {}
      const answer = await fetch(this.url, { headers, redirect: 'error', signal: AbortSignal.timeout(5000) })
      if (answer.status === 200) {
        const chunks = []
        let size = 0
        for await (const chunk of answer.body) {
          if ((size += chunk.length) > LIMIT) throw new Error('the answer is too long')
          chunks.push(chunk)
        }
        [this.value, this.ttl] = await this.read(Buffer.concat(chunks).toString())
        this.etag = answer.headers.get('etag')
      } else if (answer.status !== 304) throw new Error(`status ${answer.status}`)
      Object.assign(this, { fetched: start, failed: false })
    } catch (err) {
      this.failed = true
      console.warn(`${this.url}: ${err.message}`)
    }
    this.tried = Date.now()
  }
}

async function readKeys(body) {
  const keys = JSON.parse(body).keys.filter((k) => k.kty === 'RSA' && k.use === 'sig' && k.alg === 'RS256')
  if (keys.length === 0) throw new Error('no RS256 keys')
  return [new Map(await Promise.all(keys.map(async (k) => [k.kid, await importJWK(k)]))), 600] // good for ten minutes
}

export class Verifier { // secret: HS256 is believed; rs256: the published keys are; both while Cairn changes over
  constructor({ issuer, secret, rs256 = true, failOpen = false }) {
    if ((secret != null && secret.length < 32) || !(secret || rs256)) {
      throw new TypeError('set a secret of at least 32 bytes, or rs256, or both')
    }
    Object.assign(this, { issuer, failOpen, lists: new Map() })
    this.secret = secret && new TextEncoder().encode(secret)
    this.keys = rs256 && new Copy(`${issuer}/.well-known/jwks.json`, readKeys)
  }

  async signed(token, options) {
    const { alg, kid } = decodeProtectedHeader(token)
    let key
    if (alg === 'HS256' && this.secret) { // alg chooses the kind of key, and nothing else does
      key = this.secret
    } else if (alg === 'RS256' && this.keys) {
      key = (await this.keys.get((keys) => keys.has(kid)))?.get(kid)
      if (!key) throw this.keys.failed ? new Unavailable('no keys') : new Refused('unknown key')
    } else throw new Refused('another algorithm')
    return (await jwtVerify(token, key, { algorithms: [alg], clockTolerance: LEEWAY, ...options })).payload
  }

  async readList(uri, body) {
    const requiredClaims = ['iat', 'exp', 'ttl', 'status_list']
    const claims = await this.signed(body, { typ: 'statuslist+jwt', subject: uri, requiredClaims })
    const bits = inflateSync(Buffer.from(claims.status_list.lst, 'base64url'), { maxOutputLength: LIMIT })
    if (claims.status_list.bits !== 1 || bits.length === 0 || !Number.isInteger(claims.ttl)) {
      throw new Error('not a status list of single bits')
    }
    return [{ bits, until: claims.exp * 1000 }, claims.ttl]
  }

  async verify(cookie) { // resolves to the claims of a session in force; rejects with Refused or Unavailable
    let claims, index, uri
    try {
      if (cookie.length > 4096) throw new Refused('too long')
      const requiredClaims = ['aud', 'exp', 'iat', 'sub', 'sid', 'jti', 'status']
      claims = await this.signed(cookie, { typ: 'JWT', issuer: this.issuer, maxTokenAge: LIFETIME, requiredClaims })
      ;({ idx: index, uri } = claims.status.status_list)
      const prefix = `${this.issuer}/oauth2/status/`, life = claims.exp - claims.iat
      if (!(claims.aud === 'activity' && Number.isInteger(life) && life > 0 && life <= LIFETIME &&
        ['sub', 'sid', 'jti'].every((name) => claims[name] && typeof claims[name] === 'string') &&
        uri.startsWith(prefix) && /^[1-9][0-9]{0,9}$/.test(uri.slice(prefix.length)) &&
        Number.isInteger(index) && index >= 0)) throw new Refused('not a session token')
    } catch (err) { // any error of jose on a stranger's token
      throw err instanceof Unavailable ? err : new Refused(err.message, { cause: err })
    }
    if (!this.lists.has(uri)) this.lists.set(uri, new Copy(uri, (body) => this.readList(uri, body)))
    const kept = await this.lists.get(uri).get(({ until }) => Date.now() < until)
    if (kept && (index >= 8 * kept.bits.length || (kept.bits[index >> 3] >> (index & 7)) & 1)) {
      throw new Refused('the session was ended') // for good: an old copy may say so too
    }
    if (!(kept && Date.now() < kept.until) && !this.failOpen) throw new Unavailable('no status list')
    return claims
  }
}
