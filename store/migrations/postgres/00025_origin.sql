-- +goose Up

-- What outlives a request stores the session that made it; empty: unknown, which counts as another one than the
-- session that acts.
ALTER TABLE consents ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE invites ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
-- An invite that was made without a fresh proof ends with its session.
ALTER TABLE invites ADD COLUMN stale BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE totp ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE passkeys ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE recovery_codes ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE email_changes ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN session_id TEXT NOT NULL DEFAULT '';

-- When the user changed the address, and in which session; 0: an administrator did, or nobody since this column.
ALTER TABLE users ADD COLUMN email_changed_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN email_session_id TEXT NOT NULL DEFAULT '';
-- Since when the password is known to somebody else: it opens nothing until it is replaced. 0: it is not.
ALTER TABLE users ADD COLUMN password_disowned_at BIGINT NOT NULL DEFAULT 0;

-- When the user said that this session was somebody else's; 0: never. The column disowned now means that the address of
-- the session is no known one.
ALTER TABLE sessions ADD COLUMN reported_at BIGINT NOT NULL DEFAULT 0;
