-- +goose Up

-- Words are found without their accents now: who has letters outside ASCII is indexed again.
UPDATE users SET search = '-' WHERE search = '' AND deleted_at = 0
    AND (octet_length(display_name) > char_length(display_name) OR octet_length(email) > char_length(email));
