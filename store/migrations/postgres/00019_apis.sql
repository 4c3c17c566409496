-- +goose Up

-- APIs that tokens can be for (RFC 8707).
CREATE TABLE apis (
    uri            TEXT   NOT NULL PRIMARY KEY,
    id             TEXT   NOT NULL UNIQUE, -- with which it authenticates
    name           TEXT   NOT NULL,
    opaque         BOOLEAN NOT NULL DEFAULT FALSE,
    lifetime       BIGINT NOT NULL, -- of its access tokens, in seconds
    alg            TEXT   NOT NULL DEFAULT '', -- that signs them; empty: ES256 where there is a key for it
    all_clients    BOOLEAN NOT NULL DEFAULT FALSE,
    secret         BYTEA NOT NULL, -- SHA-256
    secret_at      BIGINT NOT NULL,
    previous       BYTEA, -- the secret before
    previous_until BIGINT NOT NULL DEFAULT 0,
    created_at     BIGINT NOT NULL
);

-- A scope belongs to one API.
CREATE TABLE api_scopes (
    name     TEXT   NOT NULL PRIMARY KEY,
    uri      TEXT   NOT NULL REFERENCES apis (uri) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    sentence TEXT   NOT NULL
);
CREATE INDEX api_scopes_uri ON api_scopes (uri, position);

CREATE TABLE api_clients (
    uri       TEXT NOT NULL REFERENCES apis (uri) ON DELETE CASCADE,
    client_id TEXT NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    PRIMARY KEY (uri, client_id)
);
CREATE INDEX api_clients_client ON api_clients (client_id);

-- The APIs that a grant is for, separated by spaces, and its place in the token status lists; list 0 is none.
ALTER TABLE grants ADD COLUMN resources TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN status_list BIGINT NOT NULL DEFAULT 0;
ALTER TABLE grants ADD COLUMN status_index BIGINT NOT NULL DEFAULT 0;
CREATE INDEX grants_status ON grants (status_list, status_index) WHERE status_list > 0;
CREATE INDEX grants_status_revoked ON grants (revoked_at) WHERE status_list > 0 AND revoked_at > 0;

-- What a token is for, where that is not userinfo alone, and its scopes, where they are not those of the grant.
ALTER TABLE tokens ADD COLUMN audience TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN scope TEXT;

ALTER TABLE client_tokens ADD COLUMN audience TEXT NOT NULL DEFAULT '';
ALTER TABLE client_tokens ADD COLUMN status_list BIGINT NOT NULL DEFAULT 0;
ALTER TABLE client_tokens ADD COLUMN status_index BIGINT NOT NULL DEFAULT 0;
CREATE INDEX client_tokens_status ON client_tokens (status_list, status_index) WHERE status_list > 0;
