-- +goose Up

-- Set by an apply when it registers something: only these may a later apply remove.
ALTER TABLE clients ADD COLUMN managed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE apis ADD COLUMN managed BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE client_allowances ADD COLUMN managed BOOLEAN NOT NULL DEFAULT FALSE;
