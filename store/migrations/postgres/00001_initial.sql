-- +goose Up
-- Times are Unix seconds, 0 means never. Handles and status list indices are
-- never given twice, so rows of deleted users stay. What is ordered has the
-- collation of bytes, as SQLite has it.

CREATE TABLE users (
    sub            TEXT    PRIMARY KEY,
    handle         TEXT COLLATE "C" NOT NULL UNIQUE,
    display_name   TEXT    NOT NULL,
    email          TEXT    NOT NULL DEFAULT '',
    email_verified BOOLEAN NOT NULL DEFAULT false,
    password_hash  TEXT    NOT NULL,
    search         TEXT    NOT NULL, -- case-folded handle, display name and email
    invited_by     TEXT    REFERENCES users (sub),
    suspended_at   BIGINT  NOT NULL DEFAULT 0,
    suspend_reason TEXT    NOT NULL DEFAULT '',
    created_at     BIGINT  NOT NULL,
    updated_at     BIGINT  NOT NULL,
    last_login_at  BIGINT  NOT NULL DEFAULT 0,
    deleted_at     BIGINT  NOT NULL DEFAULT 0
);

CREATE TABLE user_flags (
    sub  TEXT    NOT NULL REFERENCES users (sub),
    flag TEXT    NOT NULL,
    PRIMARY KEY (sub, flag)
);
CREATE INDEX user_flags_flag ON user_flags (flag, sub);

CREATE TABLE preferences (
    sub   TEXT    NOT NULL REFERENCES users (sub),
    name  TEXT    NOT NULL,
    value TEXT    NOT NULL,
    PRIMARY KEY (sub, name)
);

CREATE TABLE status_lists (
    id     BIGINT  PRIMARY KEY,
    issued BIGINT  NOT NULL
);

CREATE TABLE sessions (
    id           TEXT    PRIMARY KEY,
    sub          TEXT    NOT NULL REFERENCES users (sub),
    token_hash   BYTEA,
    login_hash   BYTEA   UNIQUE,
    created_at   BIGINT  NOT NULL,
    auth_time    BIGINT  NOT NULL,
    last_seen_at BIGINT  NOT NULL,
    expires_at   BIGINT  NOT NULL,
    ended_at     BIGINT  NOT NULL DEFAULT 0,
    address      TEXT    NOT NULL DEFAULT '',
    user_agent   TEXT    NOT NULL DEFAULT '',
    status_list  BIGINT  NOT NULL REFERENCES status_lists (id),
    status_index BIGINT  NOT NULL,
    UNIQUE (status_list, status_index)
);
CREATE INDEX sessions_sub ON sessions (sub, address);
CREATE INDEX sessions_expires ON sessions (expires_at);
CREATE INDEX sessions_ended ON sessions (status_list, expires_at, status_index) WHERE ended_at > 0;

CREATE TABLE invites (
    code       TEXT    PRIMARY KEY,
    created_by TEXT    REFERENCES users (sub), -- NULL: the operator
    note       TEXT    NOT NULL DEFAULT '',
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    used_at    BIGINT  NOT NULL DEFAULT 0,
    used_by    TEXT
);
CREATE INDEX invites_created_by ON invites (created_by, created_at);
CREATE INDEX invites_unused ON invites (expires_at) WHERE used_at = 0;

CREATE TABLE reset_codes (
    sub        TEXT    PRIMARY KEY REFERENCES users (sub),
    hash       BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL
);

CREATE TABLE settings (
    id    BIGINT  PRIMARY KEY CHECK (id = 1),
    value TEXT    NOT NULL -- JSON
);

CREATE TABLE secrets (
    name  TEXT    PRIMARY KEY,
    value BYTEA   NOT NULL
);

CREATE TABLE audit (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         BIGINT  NOT NULL,
    actor      TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    request_id TEXT    NOT NULL
);

CREATE TABLE clients (
    id                      TEXT COLLATE "C" PRIMARY KEY,
    name                    TEXT COLLATE "C" NOT NULL,
    redirect_uris           TEXT    NOT NULL, -- one a line
    scopes                  TEXT    NOT NULL, -- separated by spaces
    auth_method             TEXT    NOT NULL,
    require_pkce            BOOLEAN NOT NULL,
    require_flag            TEXT    NOT NULL,
    trusted                 BOOLEAN NOT NULL,
    id_token_claims         BOOLEAN NOT NULL,
    allow_insecure_redirect BOOLEAN NOT NULL,
    created_at              BIGINT  NOT NULL
);

CREATE TABLE client_secrets (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    hash       BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX client_secrets_client ON client_secrets (client_id);

CREATE TABLE client_assertions (
    jti_hash   BYTEA   PRIMARY KEY,
    expires_at BIGINT  NOT NULL
);

CREATE TABLE consents (
    sub          TEXT    NOT NULL REFERENCES users (sub),
    client_id    TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    scope        TEXT    NOT NULL,
    granted_at   BIGINT  NOT NULL,
    last_used_at BIGINT  NOT NULL DEFAULT 0, -- kept here when the tokens are swept
    PRIMARY KEY (sub, client_id, scope)
);
CREATE INDEX consents_client ON consents (client_id);

CREATE TABLE grants (
    id                    TEXT    PRIMARY KEY,
    client_id             TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    sub                   TEXT    NOT NULL REFERENCES users (sub),
    sid                   TEXT    NOT NULL,
    requested_scope       TEXT    NOT NULL,
    granted_scope         TEXT    NOT NULL,
    offline               BOOLEAN NOT NULL, -- granted_scope has offline_access
    code_sig              TEXT    NOT NULL UNIQUE,
    code_expires_at       BIGINT  NOT NULL,
    code_used_at          BIGINT  NOT NULL DEFAULT 0,
    redirect_uri          TEXT    NOT NULL,
    code_challenge        TEXT    NOT NULL,
    code_challenge_method TEXT    NOT NULL,
    nonce                 BYTEA, -- whatever the client sent
    acr                   TEXT    NOT NULL,
    auth_time             BIGINT  NOT NULL,
    arrived_at            BIGINT  NOT NULL, -- first arrival of the authorization request
    created_at            BIGINT  NOT NULL,
    revoked_at            BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX grants_sub ON grants (sub, client_id);
CREATE INDEX grants_client ON grants (client_id);

CREATE TABLE tokens (
    sig        TEXT    PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('a', 'r')), -- access, refresh
    grant_id   TEXT    NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    issued_at  BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    used_at    BIGINT  NOT NULL DEFAULT 0 -- refresh: when it was rotated
);
CREATE INDEX tokens_grant ON tokens (grant_id);
CREATE INDEX tokens_expires ON tokens (expires_at);

CREATE TABLE rate_counters (
    name       TEXT    NOT NULL,
    key_hash   BYTEA   NOT NULL,
    started_at BIGINT  NOT NULL,
    hits       BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (name, key_hash, started_at)
);
CREATE INDEX rate_counters_expires ON rate_counters (expires_at);

-- Rows to lock where a rule spans several users.
CREATE TABLE locks (
    name  TEXT    PRIMARY KEY,
    taken BIGINT  NOT NULL DEFAULT 0
);
INSERT INTO locks (name) VALUES ('administrators'), ('users');
