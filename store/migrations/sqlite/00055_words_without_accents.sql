-- +goose Up

-- Words are found without their accents now: who has letters outside ASCII is indexed again.
UPDATE users SET search = '-' WHERE search = '' AND deleted_at = 0
    AND (length(CAST(display_name AS BLOB)) > length(display_name) OR length(CAST(email AS BLOB)) > length(email));
