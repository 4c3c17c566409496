-- +goose Up

-- What people without an invite ask for, once they have proven their address. A row goes with the decision.
CREATE TABLE join_requests (
    id         TEXT NOT NULL PRIMARY KEY,
    email      TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    language   TEXT NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX join_requests_expires ON join_requests (expires_at);
-- It bounds their number.
INSERT INTO locks (name) VALUES ('join-requests');
