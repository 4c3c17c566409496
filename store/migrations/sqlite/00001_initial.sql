-- +goose Up
-- Times are Unix seconds, 0 means never. Handles and status list indices are
-- never given twice, so rows of deleted users stay.

CREATE TABLE users (
    sub            TEXT    PRIMARY KEY,
    handle         TEXT    NOT NULL UNIQUE,
    display_name   TEXT    NOT NULL,
    email          TEXT    NOT NULL DEFAULT '',
    email_verified INTEGER NOT NULL DEFAULT 0,
    password_hash  TEXT    NOT NULL,
    search         TEXT    NOT NULL, -- case-folded handle, display name and email
    invited_by     TEXT    REFERENCES users (sub),
    suspended_at   INTEGER NOT NULL DEFAULT 0,
    suspend_reason TEXT    NOT NULL DEFAULT '',
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    last_login_at  INTEGER NOT NULL DEFAULT 0,
    deleted_at     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE user_flags (
    sub  TEXT NOT NULL REFERENCES users (sub),
    flag TEXT NOT NULL,
    PRIMARY KEY (sub, flag)
) STRICT, WITHOUT ROWID;
CREATE INDEX user_flags_flag ON user_flags (flag, sub);

CREATE TABLE preferences (
    sub   TEXT NOT NULL REFERENCES users (sub),
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (sub, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE status_lists (
    id     INTEGER PRIMARY KEY,
    issued INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    id           TEXT    PRIMARY KEY,
    sub          TEXT    NOT NULL REFERENCES users (sub),
    token_hash   BLOB,
    login_hash   BLOB    UNIQUE,
    created_at   INTEGER NOT NULL,
    auth_time    INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL DEFAULT 0,
    address      TEXT    NOT NULL DEFAULT '',
    user_agent   TEXT    NOT NULL DEFAULT '',
    status_list  INTEGER NOT NULL REFERENCES status_lists (id),
    status_index INTEGER NOT NULL,
    UNIQUE (status_list, status_index)
) STRICT;
CREATE INDEX sessions_sub ON sessions (sub, address);
CREATE INDEX sessions_expires ON sessions (expires_at);
CREATE INDEX sessions_ended ON sessions (status_list, expires_at, status_index) WHERE ended_at > 0;

CREATE TABLE invites (
    code       TEXT    PRIMARY KEY,
    created_by TEXT    REFERENCES users (sub), -- NULL: the operator
    note       TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL DEFAULT 0,
    used_by    TEXT
) STRICT;
CREATE INDEX invites_created_by ON invites (created_by, created_at);
CREATE INDEX invites_unused ON invites (expires_at) WHERE used_at = 0;

CREATE TABLE reset_codes (
    sub        TEXT    PRIMARY KEY REFERENCES users (sub),
    hash       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE settings (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value TEXT    NOT NULL -- JSON
) STRICT;

CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT;

CREATE TABLE audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    detail     TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    request_id TEXT    NOT NULL
) STRICT;

CREATE TABLE clients (
    id                      TEXT    PRIMARY KEY,
    name                    TEXT    NOT NULL,
    redirect_uris           TEXT    NOT NULL, -- one a line
    scopes                  TEXT    NOT NULL, -- separated by spaces
    auth_method             TEXT    NOT NULL,
    require_pkce            INTEGER NOT NULL,
    require_flag            TEXT    NOT NULL,
    trusted                 INTEGER NOT NULL,
    id_token_claims         INTEGER NOT NULL,
    allow_insecure_redirect INTEGER NOT NULL,
    created_at              INTEGER NOT NULL
) STRICT;

CREATE TABLE client_secrets (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    client_id  TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    hash       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX client_secrets_client ON client_secrets (client_id);

CREATE TABLE client_assertions (
    jti_hash   BLOB    PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE consents (
    sub          TEXT    NOT NULL REFERENCES users (sub),
    client_id    TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    scope        TEXT    NOT NULL,
    granted_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL DEFAULT 0, -- kept here when the tokens are swept
    PRIMARY KEY (sub, client_id, scope)
) STRICT, WITHOUT ROWID;
CREATE INDEX consents_client ON consents (client_id);

CREATE TABLE grants (
    id                    TEXT    PRIMARY KEY,
    client_id             TEXT    NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    sub                   TEXT    NOT NULL REFERENCES users (sub),
    sid                   TEXT    NOT NULL,
    requested_scope       TEXT    NOT NULL,
    granted_scope         TEXT    NOT NULL,
    offline               INTEGER NOT NULL, -- granted_scope has offline_access
    code_sig              TEXT    NOT NULL UNIQUE,
    code_expires_at       INTEGER NOT NULL,
    code_used_at          INTEGER NOT NULL DEFAULT 0,
    redirect_uri          TEXT    NOT NULL,
    code_challenge        TEXT    NOT NULL,
    code_challenge_method TEXT    NOT NULL,
    nonce                 BLOB, -- whatever the client sent
    acr                   TEXT    NOT NULL,
    auth_time             INTEGER NOT NULL,
    arrived_at            INTEGER NOT NULL, -- first arrival of the authorization request
    created_at            INTEGER NOT NULL,
    revoked_at            INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX grants_sub ON grants (sub, client_id);
CREATE INDEX grants_client ON grants (client_id);

CREATE TABLE tokens (
    sig        TEXT    PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('a', 'r')), -- access, refresh
    grant_id   TEXT    NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    issued_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL DEFAULT 0 -- refresh: when it was rotated
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_grant ON tokens (grant_id);
CREATE INDEX tokens_expires ON tokens (expires_at);

CREATE TABLE rate_counters (
    name       TEXT    NOT NULL,
    key_hash   BLOB    NOT NULL,
    started_at INTEGER NOT NULL,
    hits       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (name, key_hash, started_at)
) STRICT, WITHOUT ROWID;
CREATE INDEX rate_counters_expires ON rate_counters (expires_at);

-- Rows to lock where a rule spans several users.
CREATE TABLE locks (
    name  TEXT    PRIMARY KEY,
    taken INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO locks (name) VALUES ('administrators'), ('users');
