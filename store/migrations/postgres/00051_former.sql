-- +goose Up

-- The former values of what a change of settings changed, a JSON object.
ALTER TABLE audit ADD COLUMN former TEXT NOT NULL DEFAULT '';
