-- +goose Up

-- How many people may join with an invite, and how many have. used_at is set with the last use, and used_by with the
-- first: it is the sub of the first who joined.
ALTER TABLE invites ADD COLUMN uses INTEGER NOT NULL DEFAULT 1;
ALTER TABLE invites ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE invites SET used = 1 WHERE used_at > 0;
-- Access flags that whoever joins gets besides the usual ones, with spaces between.
ALTER TABLE invites ADD COLUMN flags TEXT NOT NULL DEFAULT '';
-- Of which domain the address of whoever joins must be, or the address itself; empty: any, or none.
ALTER TABLE invites ADD COLUMN domain TEXT NOT NULL DEFAULT '';
-- Only an administrator may make it, and it counts only while its maker is one.
ALTER TABLE invites ADD COLUMN by_admin INTEGER NOT NULL DEFAULT 0;

-- By which invite a user joined: its used_by.
ALTER TABLE users ADD COLUMN invite TEXT NOT NULL DEFAULT '';
UPDATE users SET invite = sub WHERE sub IN (SELECT used_by FROM invites WHERE used_by IS NOT NULL);
CREATE INDEX users_invite ON users (invite) WHERE invite <> '';
