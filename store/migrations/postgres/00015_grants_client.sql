-- +goose Up

-- grants_client_use begins with the same column, and is written at the end: one page less
-- for each authorization.
DROP INDEX grants_client;
