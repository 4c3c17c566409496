-- +goose Up

-- What an administrator gave somebody to get into an account stores who gave it, and in which session; empty: not
-- known, or the operator. A mail has them from when it waits until its link is made.
ALTER TABLE reset_codes ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE mailed_reset_codes ADD COLUMN made_by TEXT NOT NULL DEFAULT '';
ALTER TABLE mailed_reset_codes ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE mail_outbox ADD COLUMN made_by TEXT NOT NULL DEFAULT '';
ALTER TABLE mail_outbox ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
CREATE INDEX mailed_reset_codes_made_by ON mailed_reset_codes (made_by);
CREATE INDEX mail_outbox_made_by ON mail_outbox (made_by);
