-- +goose Up

-- When the sweep looks whether a grant is still needed: the end of what holds it, as
-- far as known. 0: nobody has looked yet.
ALTER TABLE grants ADD COLUMN sweep_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX grants_sweep ON grants (sweep_at, id);
DROP INDEX grants_sub;
CREATE INDEX grants_sub ON grants (sub, client_id, sid, created_at, id);
DROP INDEX grants_client;
CREATE INDEX grants_client ON grants (client_id, id);
DROP INDEX consents_client;
CREATE INDEX consents_client ON consents (client_id, sub, scope);

-- The sweep goes along the times, and along the keys of what has one time.
CREATE INDEX sessions_ended ON sessions (ended_at, id) WHERE ended_at > 0;
DROP INDEX sessions_expires;
CREATE INDEX sessions_expires ON sessions (expires_at, id);
DROP INDEX invites_unused;
CREATE INDEX invites_unused ON invites (expires_at, code) WHERE used_at = 0;
CREATE INDEX reset_codes_expires ON reset_codes (expires_at, sub);
CREATE INDEX client_assertions_expires ON client_assertions (expires_at, client_id, jti_hash);
CREATE INDEX pushed_requests_expires ON pushed_requests (expires_at, hash);
CREATE INDEX logout_outbox_created ON logout_outbox (created_at, id);
DROP INDEX tokens_expires;
CREATE INDEX tokens_expires ON tokens (expires_at, sig);
DROP INDEX client_tokens_expires;
CREATE INDEX client_tokens_expires ON client_tokens (expires_at, sig);
DROP INDEX rate_counters_expires;
CREATE INDEX rate_counters_expires ON rate_counters (expires_at, name, key_hash, started_at);
DROP INDEX revocations_cleared;
CREATE INDEX revocations_cleared ON revocations (cleared_at, expires_at, status_list, status_index);

CREATE INDEX invites_created ON invites (created_at DESC, code);
CREATE INDEX client_tokens_client ON client_tokens (client_id, sig);
CREATE INDEX pushed_requests_client ON pushed_requests (client_id);

-- A removed client is unknown; its rows are deleted in batches, its own last.
ALTER TABLE clients ADD COLUMN removed_at BIGINT NOT NULL DEFAULT 0;

-- The words by which users are found: of handle, display name and email, case-folded.
-- users.search is no longer read. Where it is not empty, an earlier version has
-- written the row and its words are still to be made.
CREATE TABLE user_words (
    word   TEXT COLLATE "C" NOT NULL,
    handle TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (word, handle)
);
CREATE INDEX user_words_handle ON user_words (handle, word);
CREATE INDEX users_without_words ON users (handle) WHERE search <> '';

-- Counts that are kept by the writes.
CREATE TABLE counters (
    name  TEXT   PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) SELECT 'users', count(*) FROM users WHERE deleted_at = 0;
