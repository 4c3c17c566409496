-- +goose Up

-- The client id of the application to which joining leads, or ''.
ALTER TABLE join_requests ADD COLUMN app TEXT NOT NULL DEFAULT '';
