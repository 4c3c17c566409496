-- +goose Up

-- The picture that a person has uploaded. The claim picture of their profile has its address.
CREATE TABLE user_pictures (
    sub        TEXT PRIMARY KEY,
    hash       TEXT NOT NULL,
    image      BLOB NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX user_pictures_hash ON user_pictures (hash);
