-- +goose Up

-- Several requests may be of one address, as a family asks for two children, and a few of one mailbox.
ALTER TABLE join_requests DROP CONSTRAINT join_requests_email_key;
ALTER TABLE join_requests ADD COLUMN mailbox TEXT NOT NULL DEFAULT '';
UPDATE join_requests SET mailbox = lower(email);
CREATE INDEX join_requests_mailbox ON join_requests (mailbox);
