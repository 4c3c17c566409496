-- +goose Up

ALTER TABLE clients ADD COLUMN device_grant INTEGER NOT NULL DEFAULT 0;

-- Requests of devices that wait for their users (RFC 8628). state: 0 waits, 1 allowed, 2 denied.
CREATE TABLE device_requests (
    code_sig   TEXT   NOT NULL PRIMARY KEY, -- of the device code
    user_hash  BLOB NOT NULL UNIQUE, -- of the user code
    client_id  TEXT   NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    query      TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0,
    wait       INTEGER NOT NULL, -- seconds between two polls
    polled_at  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX device_requests_expires ON device_requests (expires_at, code_sig);
CREATE INDEX device_requests_client ON device_requests (client_id);
