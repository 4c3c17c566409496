-- +goose Up

-- Rules for claims of their own, one a line, and where those of a client are (empty: the default).
ALTER TABLE clients ADD COLUMN claims TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN claim_in TEXT NOT NULL DEFAULT '';
ALTER TABLE apis ADD COLUMN claims TEXT NOT NULL DEFAULT '';
-- require_flag may have several flags, separated by spaces, of which people need one or all. An older program
-- lets nobody in then.
ALTER TABLE clients ADD COLUMN require_all BOOLEAN NOT NULL DEFAULT FALSE;
