-- +goose Up

-- Recovery codes that newer ones have replaced. They open nothing, but live again where the newer ones were made by
-- somebody else: see account.DisownedFactors.
CREATE TABLE former_recovery_codes (
    sub         TEXT    NOT NULL REFERENCES users (sub),
    hash        BLOB    NOT NULL,
    name        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    used_at     INTEGER NOT NULL,
    session_id  TEXT    NOT NULL,
    replaced_at INTEGER NOT NULL,
    PRIMARY KEY (sub, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX former_recovery_codes_replaced_at ON former_recovery_codes (replaced_at);

-- When the choice of a second step was last changed, and in which session; 0: not known.
ALTER TABLE users ADD COLUMN second_factor_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE users ADD COLUMN second_factor_session_id TEXT NOT NULL DEFAULT '';
