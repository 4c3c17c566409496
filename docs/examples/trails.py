import base64, json, logging, threading, time, urllib.request, zlib

from authlib.integrations.flask_oauth2 import ResourceProtector, current_token
from authlib.jose import JsonWebKey, JsonWebToken
from authlib.jose.errors import JoseError
from authlib.oauth2.rfc6750 import BearerTokenValidator, InsufficientScopeError, InvalidTokenError
from flask import Flask, abort

ISSUER, API = "https://id.example.org", "https://api.example.org"
JWT = JsonWebToken(["ES256", "RS256", "EdDSA"])


class Copy:
    """The last good answer of an address. One thread fetches it while the others wait."""

    def __init__(self, url, read):
        self.url, self.read, self.lock = url, read, threading.Lock()
        self.value, self.renew, self.retry = None, 0, 0

    def get(self, enough=lambda value: True):
        with self.lock:
            now = time.monotonic()
            if now >= self.retry and (now >= self.renew or not enough(self.value)):
                self.retry = now + 1
                try:
                    with urllib.request.urlopen(self.url, timeout=5) as answer:
                        self.value, seconds = self.read(answer.read(1 << 20))
                    self.renew = now + seconds
                except Exception as err:
                    logging.warning("%s: %s", self.url, err)
            return self.value or abort(503)


def read_keys(body):
    return {key["kid"]: key for key in json.loads(body)["keys"]}, 600  # good for ten minutes


keys, lists = Copy(ISSUER + "/.well-known/jwks.json", read_keys), {}


def signed(token, typ, **claims):
    """The claims of a token of this type, by a key of the key set and the algorithm that the key is for."""
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    kid = header["kid"]
    key = keys.get(lambda known: known and kid in known)[kid]
    if header["typ"].lower().removeprefix("application/") != typ or "crit" in header or header["alg"] != key["alg"]:
        raise ValueError("another type of token")
    options = {name: {"essential": True, "value": value} for name, value in claims.items()}
    options |= {name: {"essential": True} for name in ("exp", "iat", *(["client_id", "jti"] if typ == "at+jwt" else ["ttl"]))}
    found = JWT.decode(token, JsonWebKey.import_key(key), claims_options=options)
    found.validate(leeway=30)
    return found


def read_list(uri, body):
    claims = signed(body.decode(), "statuslist+jwt", sub=uri)
    bits = zlib.decompressobj().decompress(base64.urlsafe_b64decode(claims["status_list"]["lst"] + "=="), 1 << 20)
    return (bits, claims["exp"]), claims["ttl"]


def revoked(index, uri):
    if not uri.startswith(ISSUER + "/oauth2/status/") or index < 0:
        raise ValueError("no place in a list of Cairn")
    bits, until = lists.setdefault(uri, Copy(uri, lambda body: read_list(uri, body))).get()
    if time.time() >= until:
        abort(503)
    return bits[index // 8] >> index % 8 & 1


class AccessTokens(BearerTokenValidator):
    def authenticate_token(self, token):
        try:
            claims = signed(token, "at+jwt", iss=ISSUER, aud=API)
            ended = revoked(claims["status"]["status_list"]["idx"], claims["status"]["status_list"]["uri"])
            return None if ended or "cnf" in claims else claims
        except (JoseError, ValueError, LookupError, TypeError, AttributeError):  # a stranger's token can be anything
            return None

    def validate_token(self, token, scopes, request):
        if token is None:
            raise InvalidTokenError(realm=API)
        if self.scope_insufficient(token.get("scope", ""), scopes):
            raise InsufficientScopeError()


require = ResourceProtector()
require.register_token_validator(AccessTokens())
app = Flask(__name__)


@app.get("/trails")
@require("trails.read")
def trails():
    return {"sub": current_token["sub"]}


@app.after_request
def challenge(response):  # which Authlib leaves out here
    if response.status_code == 403:
        response.headers["WWW-Authenticate"] = f'Bearer realm="{API}", error="insufficient_scope"'
    return response


if __name__ == "__main__":
    app.run(port=8080)
