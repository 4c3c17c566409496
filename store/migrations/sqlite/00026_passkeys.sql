-- +goose Up

-- The relying party id that a passkey was made for; empty: an earlier version made it, for the host of
-- the issuer. cairn serve fills it in.
ALTER TABLE passkeys ADD COLUMN rp_id TEXT NOT NULL DEFAULT '';
-- The first group of a recovery code, by which its hash is found; empty: the hash is SHA-256 of the code.
ALTER TABLE recovery_codes ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE INDEX passkeys_rp_id ON passkeys (rp_id);
