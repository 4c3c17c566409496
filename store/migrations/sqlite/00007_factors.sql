-- +goose Up

-- Authentication methods of the sign-in (RFC 8176), separated by spaces; empty: an
-- earlier version, which knew the password alone.
ALTER TABLE sessions ADD COLUMN amr TEXT NOT NULL DEFAULT '';
-- When the person last proved who they are; 0: at auth_time.
ALTER TABLE sessions ADD COLUMN confirmed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN amr TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN require_acr TEXT NOT NULL DEFAULT '';

-- Whether a row of totp or passkeys is there: no session is made with the password alone.
ALTER TABLE users ADD COLUMN second_factor INTEGER NOT NULL DEFAULT 0;

CREATE TABLE totp (
    sub          TEXT    PRIMARY KEY REFERENCES users (sub),
    secret       TEXT    NOT NULL, -- base32
    last_step    INTEGER NOT NULL, -- time step of the last accepted code (RFC 6238 section 5.2)
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE recovery_codes (
    sub        TEXT    NOT NULL REFERENCES users (sub),
    hash       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (sub, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE passkeys (
    id              BLOB    PRIMARY KEY, -- credential id
    sub             TEXT    NOT NULL REFERENCES users (sub),
    name            TEXT    NOT NULL,
    public_key      BLOB    NOT NULL, -- COSE
    aaguid          BLOB    NOT NULL,
    transports      TEXT    NOT NULL, -- separated by spaces
    attachment      TEXT    NOT NULL, -- platform, cross-platform or empty
    sign_count      INTEGER NOT NULL,
    backup_eligible INTEGER NOT NULL,
    backup_state    INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX passkeys_sub ON passkeys (sub, created_at);

-- Hashes of sealed values that are good once, until they have expired.
CREATE TABLE spent (
    hash       BLOB    PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX spent_expires ON spent (expires_at, hash);
