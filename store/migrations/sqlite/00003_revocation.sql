-- +goose Up

ALTER TABLE status_lists ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- another one after each change of its bits

ALTER TABLE sessions ADD COLUMN algorithm TEXT NOT NULL DEFAULT ''; -- of the token's signature; empty: from before it was noted

ALTER TABLE settings ADD COLUMN hs256_until INTEGER NOT NULL DEFAULT 0; -- when HS256 tokens cease to count

-- Status list indices of tokens that were taken back.
CREATE TABLE revocations (
    status_list  INTEGER NOT NULL REFERENCES status_lists (id),
    status_index INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL, -- of the token
    cleared_at   INTEGER NOT NULL DEFAULT 0, -- when the bit was cleared; the index is not free yet
    PRIMARY KEY (status_list, status_index)
) STRICT, WITHOUT ROWID;
CREATE INDEX revocations_cleared ON revocations (cleared_at, expires_at);
INSERT INTO revocations (status_list, status_index, expires_at)
    SELECT status_list, status_index, expires_at FROM sessions WHERE ended_at > 0;

DROP INDEX sessions_ended;
