-- +goose Up

-- When the mark was made with which the browser came to the sign-in, 0 without one.
ALTER TABLE sessions ADD COLUMN known_since INTEGER NOT NULL DEFAULT 0;
