-- +goose Up

-- An address that takes the place of the verified one when its link is opened, empty: none; since when, for which
-- session, and what that leaves of the other sessions (JSON of account.Keep).
ALTER TABLE users ADD COLUMN email_pending TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN email_pending_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN email_pending_session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN email_pending_keep TEXT NOT NULL DEFAULT '';
