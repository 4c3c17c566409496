-- +goose Up

-- The address that an invite was mailed to when it was made; empty: it was not mailed.
ALTER TABLE invites ADD COLUMN mailed_to TEXT NOT NULL DEFAULT '';
-- It is erased with the account of who joined.
CREATE INDEX invites_used_by ON invites (used_by) WHERE used_by IS NOT NULL;
