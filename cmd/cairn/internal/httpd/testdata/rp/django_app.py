"""A Django site with mozilla-django-oidc: state, nonce, PKCE, userinfo."""

import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

base = os.environ["BASE"]
issuer = os.environ["ISSUER"]
settings.configure(
    ALLOWED_HOSTS=["localhost"],
    AUTHENTICATION_BACKENDS=["__main__.Backend"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "mozilla_django_oidc"],
    LOGIN_REDIRECT_URL="/",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"],
    ROOT_URLCONF="__main__",
    SECRET_KEY="only for this test, which is as long as it has to be for Django",
    SESSION_COOKIE_NAME="django",
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    OIDC_OP_AUTHORIZATION_ENDPOINT=issuer + "/oauth2/authorize",
    OIDC_OP_JWKS_ENDPOINT=issuer + "/.well-known/jwks.json",
    OIDC_OP_TOKEN_ENDPOINT=issuer + "/oauth2/token",
    OIDC_OP_USER_ENDPOINT=issuer + "/oauth2/userinfo",
    OIDC_RP_CLIENT_ID=os.environ["CLIENT_ID"],
    OIDC_RP_CLIENT_SECRET=os.environ["CLIENT_SECRET"],
    OIDC_RP_SCOPES="openid profile email",
    OIDC_RP_SIGN_ALGO="RS256",
    OIDC_USE_PKCE=True,
)
django.setup()

from django.http import JsonResponse  # noqa: E402
from django.shortcuts import redirect  # noqa: E402
from django.urls import path  # noqa: E402
from mozilla_django_oidc.auth import OIDCAuthenticationBackend  # noqa: E402
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView  # noqa: E402


class Backend(OIDCAuthenticationBackend):
    def filter_users_by_claims(self, claims):
        return self.UserModel.objects.filter(username=claims["sub"])

    def create_user(self, claims):
        return self.UserModel.objects.create_user(
            claims["sub"], claims["email"], first_name=claims["name"], last_name=claims["preferred_username"]
        )


def home(request):
    user = request.user
    if not user.is_authenticated:
        return redirect("oidc_authentication_init")
    return JsonResponse({"sub": user.username, "name": user.first_name, "handle": user.last_name, "email": user.email})


urlpatterns = [
    path("", home),
    path("login", OIDCAuthenticationRequestView.as_view(), name="oidc_authentication_init"),
    path("callback", OIDCAuthenticationCallbackView.as_view(), name="oidc_authentication_callback"),
]

call_command("migrate", verbosity=0)
call_command("runserver", "127.0.0.1:%d" % urlsplit(base).port, "--noreload")
