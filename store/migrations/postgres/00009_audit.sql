-- +goose Up

-- The audit log is read in the order of its times: all of it, of a person, or of a kind
-- (an action up to its dot).
CREATE INDEX audit_at ON audit (at, id);
CREATE INDEX audit_actor ON audit (actor, at, id);
CREATE INDEX audit_target ON audit (target, at, id);
CREATE INDEX audit_kind ON audit (split_part(action, '.', 1), at, id);
