"""Signs in for the requests that schemathesis sends, and again when one of them has ended the session."""

import base64
import json
import os
import threading
import urllib.request

import schemathesis

_lock = threading.Lock()
_cookie = None


def _sign_in():
    request = urllib.request.Request(
        os.environ["CAIRN_URL"] + "/api/auth/login",
        data=json.dumps({"handle": "keeper", "password": os.environ["CAIRN_PASSWORD"]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        name, _, value = answer.headers["Set-Cookie"].split(";")[0].partition("=")
    return name, value


def _secret(scheme):
    global _cookie
    if scheme == "client":
        return base64.b64encode(("photos:" + os.environ["CAIRN_CLIENT_SECRET"]).encode()).decode()
    if scheme == "token":
        return os.environ["CAIRN_TOKEN"]
    with _lock:
        if _cookie is None:
            _cookie = _sign_in()
        return _cookie


def _scheme(operation):
    named = [name for requirement in operation.definition.raw.get("security", [{"session": []}]) for name in requirement]
    return named[0] if named else None


# refresh_interval: the session is kept here.
@schemathesis.auth(refresh_interval=None).skip_for(path="/api/auth/logout")
class Auth:
    def get(self, case, context):
        scheme = _scheme(context.operation)
        return scheme and (scheme, _secret(scheme))

    def set(self, case, data, context):
        if data is None:
            return
        scheme, secret = data
        if scheme == "session":
            case.cookies = case.cookies or {}
            case.cookies[secret[0]] = secret[1]
        else:
            case.headers = case.headers or {}
            case.headers["Authorization"] = {"client": "Basic ", "token": "Bearer "}[scheme] + secret


@schemathesis.hook
def after_call(context, case, response):
    """A request with the cookie that was answered so has ended the session, or let it grow old."""
    global _cookie
    with _lock:
        if _cookie and _cookie[0] in (case.cookies or {}) and response.status_code in (401, 403):
            if response.json().get("code") in ("not_authenticated", "reauthentication_required"):
                _cookie = None


@schemathesis.hook
def before_call(context, case, kwargs):
    operation = case.operation.definition.raw["operationId"]
    # ada is the example that all requests about a user share.
    if operation == "deleteUser" and case.path_parameters.get("handle") == "ada":
        case.path_parameters["handle"] = "bob"
    # Administrators who need a second factor and have none can do nothing more.
    if operation == "changeSettings" and isinstance(case.body, dict):
        flags = case.body.get("second_factor_flags")
        if isinstance(flags, list):
            case.body["second_factor_flags"] = [flag for flag in flags if flag not in ("admin", "activity")]
