-- +goose Up

-- Mails that are to be sent.
CREATE TABLE mail_outbox (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         TEXT    NOT NULL,
    sub          TEXT    NOT NULL, -- whom it is about; empty: nobody who has an account
    address      TEXT    NOT NULL,
    language     TEXT    NOT NULL, -- BCP 47
    data         TEXT    NOT NULL, -- JSON; never a secret or a code: these are drawn when it is sent
    created_at   BIGINT  NOT NULL,
    next_at      BIGINT  NOT NULL,
    leased_until BIGINT  NOT NULL DEFAULT 0,
    attempts     BIGINT  NOT NULL DEFAULT 0, -- that have failed
    failure      TEXT    NOT NULL DEFAULT '' -- why the last of them has; never a secret or an address
);
CREATE INDEX mail_outbox_next ON mail_outbox (next_at);
CREATE INDEX mail_outbox_created ON mail_outbox (created_at, id);

-- Former addresses, as long as their owner can undo the change.
CREATE TABLE email_changes (
    id         TEXT    PRIMARY KEY,
    sub        TEXT    NOT NULL REFERENCES users (sub),
    email      TEXT    NOT NULL, -- before
    verified   BOOLEAN NOT NULL, -- whether that was verified
    changed_at BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    undone_at  BIGINT  NOT NULL DEFAULT 0
);
CREATE INDEX email_changes_sub ON email_changes (sub);
CREATE INDEX email_changes_expires ON email_changes (expires_at, id);

-- A verified address signs in where it is nobody else's.
CREATE INDEX users_verified_email ON users (lower(email)) WHERE email_verified;
