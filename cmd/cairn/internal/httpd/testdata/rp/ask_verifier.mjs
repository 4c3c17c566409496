// Puts cookies before verify_cookie.mjs: a JSON question a line in, the JSON array of its outcomes a line out.
import { createInterface } from 'node:readline'
import { Refused, Unavailable, Verifier } from './verify_cookie.mjs'

let now = 0 // the question says what time it is, and until the next one the clock stands
globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length === 0 ? [now * 1000] : args))
  }
  static now() {
    return now * 1000
  }
}

async function outcome(verifier, cookie) {
  try {
    return { claims: await verifier.verify(cookie) }
  } catch (err) {
    if (err instanceof Refused) return { refused: err.message }
    if (err instanceof Unavailable) return { unavailable: err.message }
    throw err
  }
}

const verifiers = new Map()
for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line)
  const { fail_open: failOpen, ...settings } = question.settings
  now = question.now
  try {
    if (!verifiers.has(question.name)) verifiers.set(question.name, new Verifier({ failOpen, ...settings }))
  } catch (err) {
    console.log(JSON.stringify([{ setting: err.message }]))
    continue
  }
  const verifier = verifiers.get(question.name)
  console.log(JSON.stringify(await Promise.all(question.cookies.map((cookie) => outcome(verifier, cookie)))))
}
