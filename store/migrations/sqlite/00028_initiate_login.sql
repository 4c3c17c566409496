-- +goose Up

-- Where a person starts a sign-in at the application (OpenID Connect Core section 4).
ALTER TABLE clients ADD COLUMN initiate_login_uri TEXT NOT NULL DEFAULT '';
