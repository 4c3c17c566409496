-- +goose Up

-- The code of an invite, sealed with the data key; code is then its keyed hash. Empty: code
-- is as its owner shows it.
ALTER TABLE invites ADD COLUMN sealed_code TEXT NOT NULL DEFAULT '';
