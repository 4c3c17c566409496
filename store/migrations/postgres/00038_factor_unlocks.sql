-- +goose Up

-- How often the wrong codes of a second factor were forgotten, and when a mailed reset code last did it, 0: never.
ALTER TABLE users ADD COLUMN factor_unlocks BIGINT NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN factor_mailed_at BIGINT NOT NULL DEFAULT 0;
