// express-openid-connect as its documentation shows it for the code flow: it
// shows what stands in the ID token.
import express from 'express'
import oidc from 'express-openid-connect'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, BASE } = process.env
const app = express()
app.use(
  oidc.auth({
    issuerBaseURL: ISSUER,
    baseURL: BASE,
    clientID: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    secret: 'only for this test: 0123456789abcdef',
    authorizationParams: { response_type: 'code' },
  }),
)
app.get('/', (request, response) => {
  const { sub, name, preferred_username: handle, email } = request.oidc.user
  response.json({ sub, name, handle, email })
})
app.listen(Number(new URL(BASE).port), '127.0.0.1')
