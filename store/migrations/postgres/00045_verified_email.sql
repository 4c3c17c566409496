-- +goose Up

-- An older program lets in whom the client would refuse.
ALTER TABLE clients ADD COLUMN require_verified_email BOOLEAN NOT NULL DEFAULT FALSE;
