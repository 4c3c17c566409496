-- +goose Up

-- Whose turn it is to do background work of which one instance is enough: the sweep, a
-- backup. done_at is when it was last done, detail what came of it.
CREATE TABLE turns (
    name         TEXT   PRIMARY KEY,
    leased_until BIGINT NOT NULL DEFAULT 0,
    done_at      BIGINT NOT NULL DEFAULT 0,
    detail       TEXT   NOT NULL DEFAULT ''
);
