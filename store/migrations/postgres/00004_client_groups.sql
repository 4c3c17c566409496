-- +goose Up

ALTER TABLE clients ADD COLUMN client_groups TEXT NOT NULL DEFAULT ''; -- flags of the groups claim, separated by spaces; empty: all but admin
