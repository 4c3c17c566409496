-- +goose Up

-- When an account, and a flag of an account, ends by itself, 0: never. An account that has ended is suspended since then.
-- end_told is how many days before its end the user was last told, 0: not yet.
ALTER TABLE users ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN end_told INTEGER NOT NULL DEFAULT 0;
ALTER TABLE user_flags ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE user_flags ADD COLUMN end_told INTEGER NOT NULL DEFAULT 0;
CREATE INDEX users_ends ON users (ends_at) WHERE ends_at > 0 AND suspended_at = 0;
CREATE INDEX user_flags_ends ON user_flags (ends_at) WHERE ends_at > 0;
-- Until when administrators know of the ends that come.
INSERT INTO counters (name, value) VALUES ('ends-told', 0);

-- What whoever joins gets: the end of the account, and of its flags as "flag:seconds" with spaces between.
ALTER TABLE invites ADD COLUMN account_ends_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE invites ADD COLUMN flag_ends TEXT NOT NULL DEFAULT '';
