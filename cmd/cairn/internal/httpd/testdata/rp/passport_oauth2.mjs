// passport-oauth2 as applications use it that ask userinfo themselves, with PKCE.
import express from 'express'
import session from 'express-session'
import passport from 'passport'
import OAuth2Strategy from 'passport-oauth2'

const { ISSUER, CLIENT_ID, CLIENT_SECRET, BASE } = process.env
const strategy = new OAuth2Strategy({
  authorizationURL: `${ISSUER}/oauth2/authorize`,
  tokenURL: `${ISSUER}/oauth2/token`,
  clientID: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  callbackURL: `${BASE}/callback`,
  scope: ['openid', 'profile', 'email'],
  state: true,
  pkce: true,
}, (accessToken, refreshToken, profile, done) => done(null, profile))
strategy._oauth2.useAuthorizationHeaderforGET(true)
strategy.userProfile = (accessToken, done) => strategy._oauth2.get(`${ISSUER}/oauth2/userinfo`, accessToken, (error, body) => {
  if (error) return done(new Error(`userinfo: ${error.statusCode}`))
  done(null, JSON.parse(body))
})
passport.use(strategy)
passport.serializeUser((user, done) => done(null, user))
passport.deserializeUser((user, done) => done(null, user))

const app = express()
app.use(session({ secret: 'only for this test: 0123456789abcdef', resave: false, saveUninitialized: false }))
app.use(passport.session())
app.get('/login', passport.authenticate('oauth2'))
app.get('/callback', passport.authenticate('oauth2', { failureMessage: true, successReturnToOrRedirect: '/' }))
app.get('/', (request, response) => {
  if (!request.user) return response.redirect('/login')
  const { sub, name, preferred_username: handle, email } = request.user
  response.json({ sub, name, handle, email })
})
app.listen(Number(new URL(BASE).port), '127.0.0.1')
