-- +goose Up

-- id_token_signed_response_alg; empty is RS256.
ALTER TABLE clients ADD COLUMN id_token_alg TEXT NOT NULL DEFAULT '';
