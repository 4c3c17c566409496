-- +goose Up

-- Password hashes of other forms than the program's own. Each refused sign-in costs as much as the dearest of them.
CREATE INDEX users_foreign_hash ON users (password_hash COLLATE "C")
    WHERE substr(password_hash, 1, 31) <> '$argon2id$v=19$m=19456,t=2,p=1$' AND password_hash <> '';
