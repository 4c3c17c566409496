-- +goose Up

-- When it was last asked to verify the address; 0: not, or it has been done.
ALTER TABLE users ADD COLUMN email_asked_at BIGINT NOT NULL DEFAULT 0;

-- Reset codes that were mailed. Whoever knows a handle can ask for one: it must not void
-- the code of an administrator.
CREATE TABLE mailed_reset_codes (
    sub        TEXT    PRIMARY KEY REFERENCES users (sub),
    hash       BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL
);
CREATE INDEX mailed_reset_codes_expires ON mailed_reset_codes (expires_at, sub);
