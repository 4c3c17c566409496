package templates

import "time"

// Passkeys is the section of passkeys on a page of their owner. The script passkey.js makes the credential that the form
// at {base}/account/passkeys sends; renaming and removing need none.
type Passkeys struct {
	// Unavailable says why there can be none here, "" where there can.
	Unavailable string
	Rows        []PasskeyRow
	// Full says that there are as many as one person may have.
	Full bool
}

// PasskeyRow is one passkey.
type PasskeyRow struct {
	// ID is the credential id in base64url.
	ID, Name string
	// Synced says that the credential is copied to other devices of its owner.
	Synced                bool
	CreatedAt, LastUsedAt time.Time
}
