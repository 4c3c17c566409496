-- +goose Up

-- Set by an apply when it registers something: only these may a later apply remove.
ALTER TABLE clients ADD COLUMN managed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE apis ADD COLUMN managed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE client_allowances ADD COLUMN managed INTEGER NOT NULL DEFAULT 0;
