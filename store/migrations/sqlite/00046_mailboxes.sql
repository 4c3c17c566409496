-- +goose Up

-- Several requests may be of one address, as a family asks for two children, and a few of one mailbox.
CREATE TABLE new_join_requests (
    id         TEXT NOT NULL PRIMARY KEY,
    email      TEXT NOT NULL,
    name       TEXT NOT NULL,
    reason     TEXT NOT NULL,
    language   TEXT NOT NULL,
    asked_at   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    mailbox    TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO new_join_requests (id, email, mailbox, name, reason, language, asked_at, expires_at)
SELECT id, email, lower(email), name, reason, language, asked_at, expires_at FROM join_requests;
DROP TABLE join_requests;
ALTER TABLE new_join_requests RENAME TO join_requests;
CREATE INDEX join_requests_expires ON join_requests (expires_at);
CREATE INDEX join_requests_mailbox ON join_requests (mailbox);
