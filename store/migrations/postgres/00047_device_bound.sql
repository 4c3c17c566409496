-- +goose Up

-- The key of the browser's device to which a session is bound, and since when it was proven; 0: not bound. An older
-- program asks for no proof.
ALTER TABLE sessions ADD COLUMN device_key BYTEA;
ALTER TABLE sessions ADD COLUMN device_proven_at BIGINT NOT NULL DEFAULT 0;
