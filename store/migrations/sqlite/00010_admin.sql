-- +goose Up

-- Users are listed in the order of handles, of their ages and of their last sign-ins,
-- and found by what few of them have.
CREATE INDEX users_created ON users (created_at, handle) WHERE deleted_at = 0;
CREATE INDEX users_last_login ON users (last_login_at, handle) WHERE deleted_at = 0;
CREATE INDEX users_suspended ON users (handle) WHERE suspended_at > 0;
CREATE INDEX users_one_factor ON users (handle) WHERE NOT second_factor AND deleted_at = 0;

-- Whom somebody has invited; who was deleted is no longer named.
CREATE INDEX users_invited_by ON users (invited_by, handle) WHERE deleted_at = 0;
UPDATE users SET invited_by = NULL WHERE invited_by IN (SELECT d.sub FROM users d WHERE d.deleted_at > 0);

-- When a client was used last, and by whom.
CREATE INDEX grants_client_use ON grants (client_id, created_at, sub);

CREATE TABLE logo (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    png        BLOB    NOT NULL,
    hash       TEXT    NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;
