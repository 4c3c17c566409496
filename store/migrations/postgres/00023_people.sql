-- +goose Up

-- Where the application is found by people, and the scopes that a person may leave out.
ALTER TABLE clients ADD COLUMN home_uri TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN optional_scopes TEXT NOT NULL DEFAULT '';

-- A table of its own: reading clients does not read their pictures.
CREATE TABLE client_logos (
    client_id TEXT PRIMARY KEY,
    hash      TEXT NOT NULL,
    image     BYTEA NOT NULL
);
CREATE INDEX client_logos_hash ON client_logos (hash);

-- Optional scopes that a person has left out. A column of consents would not do: a program
-- that does not know it would read a refusal as consent.
CREATE TABLE consent_refusals (
    sub        TEXT    NOT NULL,
    client_id  TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    refused_at BIGINT  NOT NULL,
    PRIMARY KEY (sub, client_id, scope)
);
CREATE INDEX consent_refusals_client ON consent_refusals (client_id);
