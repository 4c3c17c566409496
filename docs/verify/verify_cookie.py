# Who is signed in, by the value of Cairn's session cookie. Needs PyJWT[crypto] 2.6 or newer.
import base64, json, logging, re, threading, time, urllib.request, zlib
import jwt
from jwt.algorithms import RSAAlgorithm

LEEWAY, LIFETIME, FLOOR = 30, 30 * 86400, 5  # seconds: clocks differ, a session lives, between two fetches
LIMIT = 1 << 20  # bytes of an answer, and of a status list unpacked

class Refused(Exception): """Not signed in: answer 401."""
class Unavailable(Exception): """Cannot be checked now: answer 503."""

class NoRedirect(urllib.request.HTTPErrorProcessor):  # a redirect could lead to foreign keys
    def http_response(self, request, response): return response
    https_response = http_response

class Copy:
    """The last good answer of one address. One thread fetches it while the others wait."""
    def __init__(self, url, read):
        self.url, self.read, self.lock, self.opener = url, read, threading.Lock(), urllib.request.build_opener(NoRedirect)
        self.value, self.etag, self.ttl, self.fetched, self.tried, self.failed = None, None, 0, 0, 0, True

    def get(self, enough):
        if not (self.value and 0 <= time.time() - self.fetched < self.ttl and enough(self.value)):
            with self.lock:
                if not 0 <= time.time() - self.tried < FLOOR:
                    self.fetch()
        return self.value  # None before the first good answer

    def fetch(self):
        start = time.time()
        request = urllib.request.Request(self.url, headers={"If-None-Match": self.etag} if self.etag else {})
        try:
            with self.opener.open(request, timeout=5) as answer:
                body = answer.read(LIMIT)  # what is longer is cut, and then unreadable
            if answer.status == 200:
                (self.value, self.ttl), self.etag = self.read(body), answer.headers["ETag"]
            elif answer.status != 304:
                raise ValueError(f"status {answer.status}")
            self.fetched, self.failed = start, False
        except Exception as err:
            self.failed = True
            logging.warning("%s: %s", self.url, err)
        self.tried = time.time()

def read_keys(body):
    keys = [k for k in json.loads(body)["keys"] if (k["kty"], k.get("use"), k.get("alg")) == ("RSA", "sig", "RS256")]
    if not keys:
        raise ValueError("no RS256 keys")
    return {k["kid"]: RSAAlgorithm.from_jwk(k) for k in keys}, 600  # and good for ten minutes

class Verifier:
    """One for all threads. secret: HS256 is believed; rs256: the published keys are; both while Cairn changes over."""
    def __init__(self, issuer, secret=None, rs256=True, fail_open=False):
        if secret is not None and len(secret) < 32 or not (secret or rs256):
            raise ValueError("set a secret of at least 32 bytes, or rs256, or both")
        self.issuer, self.secret, self.fail_open, self.lists = issuer, secret, fail_open, {}
        self.keys = Copy(issuer + "/.well-known/jwks.json", read_keys) if rs256 else None

    def signed(self, token, typ, require):
        header = jwt.get_unverified_header(token)
        alg, kid = header.get("alg"), header.get("kid")
        if header.get("typ") != typ or "crit" in header:
            raise Refused("another type of token")
        if alg == "HS256" and self.secret:  # alg chooses the kind of key, and nothing else does
            key = self.secret
        elif alg == "RS256" and self.keys:
            key = (self.keys.get(lambda keys: kid in keys) or {}).get(kid)
            if not key:
                raise Unavailable("no keys") if self.keys.failed else Refused("unknown key")
        else:
            raise Refused("another algorithm")
        return jwt.decode(token, key, algorithms=[alg], leeway=LEEWAY, options={"require": require, "verify_aud": False})

    def read_list(self, uri, body):
        claims = self.signed(body.decode(), "statuslist+jwt", ["sub", "iat", "exp", "ttl", "status_list"])
        packed, inflater = claims["status_list"], zlib.decompressobj()
        bits = inflater.decompress(base64.urlsafe_b64decode(packed["lst"] + "=="), LIMIT)
        if claims["sub"] != uri or packed["bits"] != 1 or not bits or not inflater.eof:
            raise ValueError("not the status list of this address")
        return (bits, int(claims["exp"])), int(claims["ttl"])

    def verify(self, cookie):
        """The claims of a session in force; raises Refused or Unavailable."""
        try:
            if len(cookie) > 4096:
                raise Refused("too long")
            claims = self.signed(cookie, "JWT", ["iss", "aud", "exp", "iat", "sub", "sid", "jti", "status"])
            index, uri = (claims["status"]["status_list"][n] for n in ("idx", "uri"))
            prefix = self.issuer + "/oauth2/status/"
            if not (
                claims["iss"] == self.issuer and claims["aud"] == "activity"
                and type(claims["exp"]) is type(claims["iat"]) is int and 0 < claims["exp"] - claims["iat"] <= LIFETIME
                and all(type(claims[n]) is str and claims[n] for n in ("sub", "sid", "jti"))
                and uri.startswith(prefix) and re.fullmatch("[1-9][0-9]{0,9}", uri[len(prefix):])
                and type(index) is int and index >= 0
            ):
                raise Refused("not a session token")
        except Unavailable:
            raise
        except Exception as err:  # any error of PyJWT on a stranger's token
            raise Refused(str(err)) from err
        copy = self.lists.setdefault(uri, Copy(uri, lambda body: self.read_list(uri, body)))
        bits, until = copy.get(lambda kept: time.time() < kept[1]) or (b"", 0)
        if bits and (index >= 8 * len(bits) or bits[index // 8] >> index % 8 & 1):
            raise Refused("the session was ended")  # for good: an old copy may say so too
        if time.time() >= until and not self.fail_open:
            raise Unavailable("no status list")
        return claims
