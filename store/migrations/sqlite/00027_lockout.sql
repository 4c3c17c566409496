-- +goose Up

-- Failed sign-ins of an account are counted under this number: a higher one forgets them.
ALTER TABLE users ADD COLUMN unlocks INTEGER NOT NULL DEFAULT 0;
-- Until when they have exhausted the limit of the account, for those who ask.
ALTER TABLE users ADD COLUMN locked_until INTEGER NOT NULL DEFAULT 0;
-- The address that used the last reset code is known, as one with a sign-in is.
ALTER TABLE users ADD COLUMN reset_address TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN reset_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_address ON sessions (address, auth_time);
