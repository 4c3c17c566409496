-- +goose Up

-- The language in which a user joined or was added (BCP 47); empty: not known.
ALTER TABLE users ADD COLUMN language TEXT NOT NULL DEFAULT '';
