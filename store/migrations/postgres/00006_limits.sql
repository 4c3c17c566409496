-- +goose Up

-- Events that are counted and whose outcome is not known yet; after their time they
-- count for good.
ALTER TABLE rate_counters ADD COLUMN undecided BIGINT NOT NULL DEFAULT 0;
ALTER TABLE rate_counters ADD COLUMN undecided_until BIGINT NOT NULL DEFAULT 0;

-- The live sessions of a user: those that have ended stay until they would have
-- expired, and may be many.
CREATE INDEX sessions_live ON sessions (sub, created_at, id) WHERE ended_at = 0;
