// node-oidc-provider with its own adapter, which keeps everything in memory, for
// cairn bench load --peer node=FOLDER. A measure, not a service: it signs in whoever
// login_hint names, without a password and without a page.
//
// node server.js 127.0.0.1:PORT SETUP.json
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import Provider from 'oidc-provider'

const [host, port] = process.argv[2].split(':')
if (host !== '127.0.0.1') throw new Error('it listens on 127.0.0.1 alone')
const setup = JSON.parse(readFileSync(process.argv[3], 'utf8'))
const scope = 'openid profile offline_access'
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })

// Everything in one Map. The adapter that comes with the library keeps the newest 1000 entries,
// less than the codes of a second, and walks through all tokens of a grant to add one.
const stored = new Map()
class Memory {
  constructor(model) { this.model = model }
  async upsert(id, payload) {
    stored.set(`${this.model}:${id}`, payload)
    if (this.model === 'Session') stored.set(`uid:${payload.uid}`, id)
    if (payload.grantId) {
      const of = `grant:${payload.grantId}`
      if (!stored.has(of)) stored.set(of, new Set())
      stored.get(of).add(`${this.model}:${id}`)
    }
  }
  async find(id) { return stored.get(`${this.model}:${id}`) }
  async findByUid(uid) { return this.find(stored.get(`uid:${uid}`)) }
  async findByUserCode() {} // no devices
  async consume(id) { stored.get(`${this.model}:${id}`).consumed = Math.floor(Date.now() / 1000) }
  async destroy(id) { stored.delete(`${this.model}:${id}`) }
  async revokeByGrantId(id) {
    for (const key of stored.get(`grant:${id}`) ?? []) stored.delete(key)
    stored.delete(`grant:${id}`)
  }
}

const provider = new Provider(setup.issuer, {
  adapter: Memory,
  clients: [{
    client_id: setup.client_id,
    client_secret: setup.client_secret,
    redirect_uris: [setup.redirect_uri],
    response_types: ['code'],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'client_secret_basic',
    id_token_signed_response_alg: 'RS256',
  }],
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'node' }] },
  cookies: { keys: [randomBytes(32).toString('base64url')] },
  claims: { openid: ['sub'], profile: ['name', 'preferred_username'] },
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    userinfo: { enabled: true },
  },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, name: id, preferred_username: id }) }),
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
  // The consent is there: a session has one grant, as after a consent page.
  loadExistingGrant: async (ctx) => {
    const known = ctx.oidc.session.grantIdFor(ctx.oidc.client.clientId)
    if (known) return ctx.oidc.provider.Grant.find(known)
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId })
    grant.addOIDCScope(scope)
    await grant.save()
    return grant
  },
  rotateRefreshToken: true,
  ttl: { AuthorizationCode: 600, AccessToken: 3600, IdToken: 3600, RefreshToken: 86400, Session: 86400, Grant: 86400, Interaction: 600 },
})

const answer = provider.callback()
createServer(async (req, res) => {
  if (!req.url.startsWith('/interaction/')) return answer(req, res)
  const { params } = await provider.interactionDetails(req, res)
  await provider.interactionFinished(req, res, { login: { accountId: params.login_hint } })
}).listen(Number(port), host)
