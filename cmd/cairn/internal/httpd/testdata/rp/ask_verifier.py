"""Puts cookies before verify_cookie.py: a JSON question a line in, the JSON array of its outcomes a line out."""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import SimpleNamespace

import jwt.api_jwt
import verify_cookie
from verify_cookie import Refused, Unavailable, Verifier

logging.basicConfig()  # to standard error
now = 0  # the question says what time it is, and until the next one the clock stands


class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(now, tz)


verify_cookie.time = SimpleNamespace(time=lambda: now)
jwt.api_jwt.datetime = Clock


def outcome(verifier, cookie):
    try:
        return {"claims": verifier.verify(cookie)}
    except Refused as err:
        return {"refused": str(err)}
    except Unavailable as err:
        return {"unavailable": str(err)}


verifiers = {}
with ThreadPoolExecutor(64) as pool:
    for line in sys.stdin:
        question = json.loads(line)
        name, now = question["name"], question["now"]
        try:
            verifier = verifiers.get(name) or verifiers.setdefault(name, Verifier(**question["settings"]))
        except ValueError as err:
            answers = [{"setting": str(err)}]
        else:
            answers = list(pool.map(lambda cookie: outcome(verifier, cookie), question["cookies"]))
        print(json.dumps(answers), flush=True)
