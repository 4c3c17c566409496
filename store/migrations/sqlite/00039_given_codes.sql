-- +goose Up

-- The sub of the administrator who made the code; empty: not known, or the operator.
ALTER TABLE reset_codes ADD COLUMN made_by TEXT NOT NULL DEFAULT '';
CREATE INDEX reset_codes_made_by ON reset_codes (made_by);
