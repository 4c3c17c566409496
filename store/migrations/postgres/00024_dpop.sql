-- +goose Up

-- DPoP (RFC 9449): thumbprints of the keys that codes and tokens are bound to, empty where they are not.
-- The ids of proofs are in client_assertions.
ALTER TABLE clients ADD COLUMN dpop_bound_access_tokens BOOLEAN NOT NULL DEFAULT false;
-- The profile that a client is held to (fapi2), empty for none.
ALTER TABLE clients ADD COLUMN profile TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN dpop_jkt TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN jkt TEXT NOT NULL DEFAULT '';
ALTER TABLE client_tokens ADD COLUMN jkt TEXT NOT NULL DEFAULT '';
