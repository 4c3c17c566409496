-- +goose Up

-- The last refused sign-ins of each application, for the administrators; client_id is '' where no registered
-- one was named.
CREATE TABLE refused_sign_ins (
    client_id  TEXT COLLATE "C" NOT NULL,
    signed_in  BOOLEAN NOT NULL,
    refused_at BIGINT NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (client_id, signed_in, refused_at, request_id)
);
CREATE INDEX refused_sign_ins_at ON refused_sign_ins (refused_at);
