-- +goose Up

-- Lifetimes of a client's tokens in seconds; 0: the usual ones.
ALTER TABLE clients ADD COLUMN access_lifetime BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clients ADD COLUMN refresh_lifetime BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clients ADD COLUMN refresh_max_lifetime BIGINT NOT NULL DEFAULT 0;
