// Auth.js in Express with nothing said about its checks: whatever it does by
// default has to work.
import express from 'express'
import { ExpressAuth, getSession } from '@auth/express'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, BASE } = process.env
const auth = {
  trustHost: true,
  secret: 'only for this test: 0123456789abcdef',
  providers: [{ id: 'cairn', name: 'Cairn', type: 'oidc', issuer: ISSUER, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET }],
}

const app = express()
app.use('/auth', ExpressAuth(auth))
app.get('/', async (request, response) => {
  const session = await getSession(request, auth)
  response.status(session ? 200 : 401).json(session?.user ?? {})
})
app.listen(Number(new URL(BASE).port), '127.0.0.1')
