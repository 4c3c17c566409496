"""A Flask application with Authlib: PKCE, state, nonce, userinfo, refresh."""

import os
from urllib.parse import urlsplit

from authlib.integrations.flask_client import OAuth
from flask import Flask, jsonify

base = os.environ["BASE"]
app = Flask(__name__)
app.secret_key = "only for this test"
app.config["SESSION_COOKIE_NAME"] = "authlib"
oauth = OAuth(app)
oauth.register(
    "cairn",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=os.environ["ISSUER"] + "/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile offline_access", "code_challenge_method": "S256"},
)


@app.get("/")
def login():
    return oauth.cairn.authorize_redirect(base + "/callback")


@app.get("/callback")
def callback():
    token = oauth.cairn.authorize_access_token()  # verifies the ID token and its nonce
    userinfo = oauth.cairn.userinfo(token=token)
    refreshed = oauth.cairn.fetch_access_token(
        grant_type="refresh_token", refresh_token=token["refresh_token"]
    )
    again = oauth.cairn.userinfo(token=refreshed)
    return jsonify(
        sub=token["userinfo"]["sub"],
        name=userinfo["name"],
        handle=userinfo["preferred_username"],
        refreshed_sub=again["sub"],
        refreshed_name=again["name"],
        rotated=refreshed["refresh_token"] != token["refresh_token"],
    )


app.run("127.0.0.1", urlsplit(base).port)
