"""A Django site with mozilla-django-oidc as its recipe shows it: state, nonce, PKCE, userinfo."""

import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

base = os.environ["BASE"]
page = {"os": os, "INSTALLED_APPS": ["django.contrib.auth", "django.contrib.contenttypes"]}
exec("""@SETTINGS@""", page)
settings.configure(
    ALLOWED_HOSTS=["localhost"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"],
    ROOT_URLCONF="__main__",
    SECRET_KEY="only for this test, which is as long as it has to be for Django",
    SESSION_COOKIE_NAME="django",
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    **{name: value for name, value in page.items() if name.isupper()},
)
django.setup()

from django.http import JsonResponse  # noqa: E402
from django.shortcuts import redirect  # noqa: E402
from django.urls import path  # noqa: E402
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView  # noqa: E402


@BACKEND@


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
