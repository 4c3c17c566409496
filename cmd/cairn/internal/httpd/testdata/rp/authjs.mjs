// Auth.js in Express as its recipe shows it, with nothing said about its checks:
// whatever it does by default has to work.
import express from 'express'

const { BASE } = process.env
const app = express()
@PAGE@
app.get('/', async (request, response) => {
  const session = await getSession(request, auth)
  response.status(session ? 200 : 401).json(session?.user ?? {})
})
app.listen(Number(new URL(BASE).port), '127.0.0.1')
