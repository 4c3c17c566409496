// A command line with openid-client that signs its user in with the device grant, as its documentation shows it.
import * as client from 'openid-client'

const { ISSUER, CLIENT_ID } = process.env
const config = await client.discovery(new URL(ISSUER), CLIENT_ID, undefined, client.None(), {
  execute: [client.allowInsecureRequests],
})
const device = await client.initiateDeviceAuthorization(config, { scope: 'openid profile' })
console.log(device.verification_uri_complete)
const tokens = await client.pollDeviceAuthorizationGrant(config, device)
const userinfo = await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub)
console.log(userinfo.preferred_username)
