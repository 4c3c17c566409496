-- +goose Up

-- 1: what depends on the end is ended. The rows stay, for a clock that was ahead.
ALTER TABLE users ADD COLUMN end_done INTEGER NOT NULL DEFAULT 0;
ALTER TABLE user_flags ADD COLUMN end_done INTEGER NOT NULL DEFAULT 0;
CREATE INDEX users_end_due ON users (ends_at) WHERE ends_at > 0 AND suspended_at = 0 AND end_done = 0;
CREATE INDEX user_flags_end_due ON user_flags (ends_at) WHERE ends_at > 0 AND end_done = 0;
CREATE INDEX users_end_done ON users (ends_at) WHERE end_done = 1;
CREATE INDEX user_flags_end_done ON user_flags (ends_at) WHERE end_done = 1;
