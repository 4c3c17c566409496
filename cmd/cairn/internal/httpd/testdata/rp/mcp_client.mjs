// An agent with the MCP SDK, which was never registered: it names the URL of its description. A person's browser comes to
// /login, signs in and comes back to /callback; /again calls the server once more.
import { createServer } from 'node:http'
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client'

const { SERVER, DESCRIPTION, BASE, REVISION } = process.env
const kept = {}
const authProvider = {
  redirectUrl: `${BASE}/callback`,
  clientMetadataUrl: DESCRIPTION,
  clientMetadata: { redirect_uris: [`${BASE}/callback`], token_endpoint_auth_method: 'none' },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens },
  invalidateCredentials: (what) => { if (what === 'all' || what === 'tokens') kept.tokens = undefined },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier },
  discoveryState: () => kept.discovered,
  saveDiscoveryState: (state) => { kept.discovered = state },
  redirectToAuthorization: (url) => { kept.url = url.href },
}
const newTransport = () => new StreamableHTTPClientTransport(new URL(SERVER), { authProvider })
let transport = newTransport()

async function call() {
  const versionNegotiation = { mode: REVISION ? { pin: REVISION } : 'legacy' }
  const client = new Client({ name: 'agent', version: '1.0.0' }, { versionNegotiation })
  transport = newTransport()
  await client.connect(transport)
  const answer = await client.callTool({ name: 'whoami' })
  const revision = client.getNegotiatedProtocolVersion()
  await client.close()
  return { revision, said: answer.content[0].text, token: kept.tokens.access_token, refresh: kept.tokens.refresh_token }
}

async function serve(request, response) {
  const url = new URL(request.url, BASE)
  if (url.pathname === '/callback') await transport.finishAuth(url.searchParams)
  try {
    const said = JSON.stringify(await call())
    response.writeHead(200, { 'content-type': 'application/json' }).end(said)
  } catch (err) {
    if (!(err instanceof UnauthorizedError)) throw err
    response.writeHead(302, { location: kept.url }).end()
  }
}

createServer((request, response) => {
  serve(request, response).catch((err) => {
    console.error(err)
    response.writeHead(500, { 'content-type': 'text/plain' }).end(String(err))
  })
}).listen(Number(new URL(BASE).port), '127.0.0.1')
