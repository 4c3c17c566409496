-- +goose Up

-- Where clients may bring their own description from (Client ID Metadata Documents).
CREATE TABLE client_allowances (
    url        TEXT   NOT NULL PRIMARY KEY, -- of a document, or ending in /*
    scopes     TEXT   NOT NULL, -- separated by spaces
    apis       TEXT   NOT NULL DEFAULT '', -- URIs, separated by spaces
    created_at BIGINT NOT NULL
);

-- Such a client, as its document was when it was last needed for a consent or a pushed request.
ALTER TABLE clients ADD COLUMN document BOOLEAN NOT NULL DEFAULT false;
