-- +goose Up

-- Whether the second step was chosen before it was last changed, for a remedy that undoes the change. Before this, it
-- changed once: with the first factor.
ALTER TABLE users ADD COLUMN second_factor_was INTEGER NOT NULL DEFAULT 0;
UPDATE users SET second_factor_was = NOT second_factor WHERE second_factor_at > 0;
