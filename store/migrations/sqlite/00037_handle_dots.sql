-- +goose Up

-- Handles may have dots, which do not tell them apart: a.b and ab are one name, that of a deleted user too. No
-- handle from before has a dot, so that none is refused here.
CREATE UNIQUE INDEX users_handle_dots ON users (replace(handle, '.', ''));
