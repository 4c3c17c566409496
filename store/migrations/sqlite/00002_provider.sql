-- +goose Up

ALTER TABLE clients ADD COLUMN client_credentials INTEGER NOT NULL DEFAULT 0;
ALTER TABLE clients ADD COLUMN jwks TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN refresh_grace INTEGER NOT NULL DEFAULT 0; -- seconds
ALTER TABLE clients ADD COLUMN post_logout_redirect_uris TEXT NOT NULL DEFAULT ''; -- one a line
ALTER TABLE clients ADD COLUMN backchannel_logout_uri TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN backchannel_private INTEGER NOT NULL DEFAULT 0;

ALTER TABLE grants ADD COLUMN claims TEXT NOT NULL DEFAULT ''; -- JSON

ALTER TABLE users ADD COLUMN profile TEXT NOT NULL DEFAULT ''; -- JSON

-- Access tokens of clients for themselves: no user, no grant.
CREATE TABLE client_tokens (
    sig        TEXT    PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE, -- of the request: revocation names it
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    scope      TEXT    NOT NULL,
    issued_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX client_tokens_expires ON client_tokens (expires_at);

CREATE TABLE pushed_requests (
    hash       BLOB    PRIMARY KEY,
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    query      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

-- An id counts for its client alone. What was in the old table has no client
-- and has long expired.
DROP TABLE client_assertions;
CREATE TABLE client_assertions (
    client_id  TEXT    NOT NULL, -- empty: of the check that names no client
    jti_hash   BLOB    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (client_id, jti_hash)
) STRICT, WITHOUT ROWID;

-- Logout tokens that are to be sent.
CREATE TABLE logout_outbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id    TEXT    NOT NULL, -- no reference: a sign-out does not fail because a client is being removed
    sub          TEXT    NOT NULL,
    sid          TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    next_at      INTEGER NOT NULL,
    leased_until INTEGER NOT NULL DEFAULT 0,
    attempts     INTEGER NOT NULL DEFAULT 0 -- that have failed
) STRICT;
CREATE INDEX logout_outbox_next ON logout_outbox (next_at);
