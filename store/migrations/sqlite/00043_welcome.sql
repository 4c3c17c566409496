-- +goose Up

-- Accounts that wait for their first password, by an address that only its own mail can prove.
CREATE INDEX users_new_email ON users (lower(email)) WHERE NOT email_verified AND password_hash = '' AND deleted_at = 0;
