-- +goose Up

-- The passkey that opened a session; NULL for none. A disowned session was somebody else's: the user has said so.
ALTER TABLE sessions ADD COLUMN passkey BYTEA;
ALTER TABLE sessions ADD COLUMN disowned BOOLEAN NOT NULL DEFAULT FALSE;

-- When the marks of known devices were last voided; 0: never.
ALTER TABLE users ADD COLUMN devices_voided_at BIGINT NOT NULL DEFAULT 0;

-- The order of the changes of one user: two may be in the same second.
ALTER TABLE email_changes ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;

-- A verified address belongs to one account. Where several have it, the oldest keeps it.
UPDATE users SET email_verified = FALSE WHERE email_verified AND deleted_at = 0 AND EXISTS (
    SELECT 1 FROM users o WHERE o.email_verified AND o.deleted_at = 0 AND lower(o.email) = lower(users.email)
    AND (o.created_at < users.created_at OR o.created_at = users.created_at AND o.sub < users.sub)
);

-- Whoever verifies an address waits for the others who do.
INSERT INTO locks (name) VALUES ('verified-emails');
