-- +goose Up

ALTER TABLE clients ADD COLUMN client_credentials BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE clients ADD COLUMN jwks TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN refresh_grace BIGINT NOT NULL DEFAULT 0; -- seconds
ALTER TABLE clients ADD COLUMN post_logout_redirect_uris TEXT NOT NULL DEFAULT ''; -- one a line
ALTER TABLE clients ADD COLUMN backchannel_logout_uri TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN backchannel_private BOOLEAN NOT NULL DEFAULT false;

ALTER TABLE grants ADD COLUMN claims TEXT NOT NULL DEFAULT ''; -- JSON

ALTER TABLE users ADD COLUMN profile TEXT NOT NULL DEFAULT ''; -- JSON

-- Access tokens of clients for themselves: no user, no grant.
CREATE TABLE client_tokens (
    sig        TEXT    PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE, -- of the request: revocation names it
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    scope      TEXT    NOT NULL,
    issued_at  BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    revoked_at BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX client_tokens_expires ON client_tokens (expires_at);

CREATE TABLE pushed_requests (
    hash       BYTEA   PRIMARY KEY,
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    query      TEXT    NOT NULL,
    expires_at BIGINT  NOT NULL
);

-- An id counts for its client alone. What was in the old table has no client
-- and has long expired.
DROP TABLE client_assertions;
CREATE TABLE client_assertions (
    client_id  TEXT    NOT NULL, -- empty: of the check that names no client
    jti_hash   BYTEA   NOT NULL,
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (client_id, jti_hash)
);

-- Logout tokens that are to be sent.
CREATE TABLE logout_outbox (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id    TEXT    NOT NULL, -- no reference: a sign-out does not fail because a client is being removed
    sub          TEXT    NOT NULL,
    sid          TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    next_at      BIGINT  NOT NULL,
    leased_until BIGINT  NOT NULL DEFAULT 0,
    attempts     BIGINT  NOT NULL DEFAULT 0 -- that have failed
);
CREATE INDEX logout_outbox_next ON logout_outbox (next_at);
