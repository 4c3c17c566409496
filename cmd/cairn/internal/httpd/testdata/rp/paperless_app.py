"""The sign-in of Paperless-ngx 3.0.5 with django-allauth: its variables, apps and paths (src/paperless/settings/__init__.py, urls.py)."""

import json
import os
import sys
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.management import call_command

env = os.environ
settings.configure(
    ALLOWED_HOSTS=["localhost"],
    DEBUG_PROPAGATE_EXCEPTIONS=True,
    AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.ModelBackend", "allauth.account.auth_backends.AuthenticationBackend"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        *env["PAPERLESS_APPS"].split(","),
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "allauth.account.middleware.AccountMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
        }
    ],
    ROOT_URLCONF="__main__",
    SECRET_KEY="only for this test, which is as long as it has to be for Django",
    SESSION_COOKIE_NAME="paperless",
    CSRF_COOKIE_NAME="paperless_csrf",
    LOGIN_URL="/accounts/login/",
    LOGIN_REDIRECT_URL="/",
    LOGOUT_REDIRECT_URL=env["PAPERLESS_LOGOUT_REDIRECT_URL"],
    ACCOUNT_LOGOUT_ON_GET=True,
    ACCOUNT_EMAIL_VERIFICATION="none",  # without PAPERLESS_EMAIL_HOST
    ACCOUNT_DEFAULT_HTTP_PROTOCOL=env["PAPERLESS_ACCOUNT_DEFAULT_HTTP_PROTOCOL"],
    SOCIALACCOUNT_AUTO_SIGNUP=env["PAPERLESS_SOCIAL_AUTO_SIGNUP"] == "true",
    SOCIALACCOUNT_PROVIDERS=json.loads(env["PAPERLESS_SOCIALACCOUNT_PROVIDERS"]),
)
django.setup()

from allauth.socialaccount.models import SocialAccount  # noqa: E402
from django.contrib.auth.decorators import login_required  # noqa: E402
from django.http import JsonResponse  # noqa: E402
from django.urls import include, path  # noqa: E402


@login_required
def home(request):
    user, account = request.user, SocialAccount.objects.get(user=request.user)
    return JsonResponse({"sub": account.uid, "name": user.first_name, "handle": user.username, "email": user.email})


urlpatterns = [path("accounts/", include("allauth.urls")), path("", home)]

call_command("migrate", verbosity=0)
call_command("runserver", "127.0.0.1:%d" % urlsplit(env["BASE"]).port, "--noreload")
