// passport-openidconnect as its README shows it: with a verify function of three
// arguments it reads the profile from the ID token and never asks userinfo.
import express from 'express'
import session from 'express-session'
import passport from 'passport'
import OpenIDConnectStrategy from 'passport-openidconnect'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, BASE } = process.env
const options = {
  issuer: ISSUER,
  authorizationURL: `${ISSUER}/oauth2/authorize`,
  tokenURL: `${ISSUER}/oauth2/token`,
  userInfoURL: `${ISSUER}/oauth2/userinfo`,
  clientID: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  callbackURL: `${BASE}/callback`,
  scope: ['profile', 'email'],
}
passport.use(new OpenIDConnectStrategy(options, (issuer, profile, done) => done(null, profile)))
passport.serializeUser((user, done) => done(null, user))
passport.deserializeUser((user, done) => done(null, user))

const app = express()
app.use(session({ secret: 'only for this test: 0123456789abcdef', resave: false, saveUninitialized: false }))
app.use(passport.session())
app.get('/login', passport.authenticate('openidconnect'))
app.get('/callback', passport.authenticate('openidconnect', { failureMessage: true, successReturnToOrRedirect: '/' }))
app.get('/', (request, response) => {
  if (!request.user) return response.redirect('/login')
  const { id, displayName, username, emails } = request.user
  response.json({ sub: id, name: displayName, handle: username, email: emails?.[0]?.value })
})
app.listen(Number(new URL(BASE).port), '127.0.0.1')
