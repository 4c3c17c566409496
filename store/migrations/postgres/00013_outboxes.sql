-- +goose Up

-- Messages go with their user or client, also where a server that is down has let them
-- become many.
CREATE INDEX logout_outbox_client ON logout_outbox (client_id, id);
CREATE INDEX mail_outbox_sub ON mail_outbox (sub);
