-- +goose Up

ALTER TABLE clients ADD COLUMN device_grant BOOLEAN NOT NULL DEFAULT FALSE;

-- Requests of devices that wait for their users (RFC 8628). state: 0 waits, 1 allowed, 2 denied.
CREATE TABLE device_requests (
    code_sig   TEXT   NOT NULL PRIMARY KEY, -- of the device code
    user_hash  BYTEA NOT NULL UNIQUE, -- of the user code
    client_id  TEXT   NOT NULL REFERENCES clients (id) ON DELETE CASCADE,
    query      TEXT   NOT NULL,
    address    TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    state      BIGINT NOT NULL DEFAULT 0,
    wait       BIGINT NOT NULL, -- seconds between two polls
    polled_at  BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX device_requests_expires ON device_requests (expires_at, code_sig);
CREATE INDEX device_requests_client ON device_requests (client_id);
