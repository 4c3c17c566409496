package templates

import (
	"cmp"
	"time"
)

// Passkeys is the section of a person's passkeys. The script passkey.js creates the credential that
// the form at {base}/account/passkeys sends; renaming and removing work without it.
type Passkeys struct {
	// Unavailable says why passkeys cannot be used here, "" if they can.
	Unavailable string
	Rows        []PasskeyRow
	// Full reports whether the person has the maximum number of passkeys.
	Full bool
	// Ends lists what ends if the person signs the other devices out, nil if the second step is on already.
	Ends *Ends
}

// Signal tells the device what has changed about passkeys, by the method of PublicKeyCredential that
// "signal" and Name make. Options is its argument as JSON.
type Signal struct{ Name, Options string }

// PasskeyRow is one passkey.
type PasskeyRow struct {
	// ID is the credential id in base64url.
	ID, Name string
	// Synced reports whether the credential is copied to the owner's other devices.
	Synced                bool
	CreatedAt, LastUsedAt time.Time
	// Elsewhere is the other host that it belongs to, "" if it works here.
	Elsewhere string
	// Fault is why the name Typed is refused, "" if it is not.
	Fault, Typed string
	// New reports whether it was just added: its name can be changed.
	New bool
}

// Shown returns the name in the form.
func (r PasskeyRow) Shown() string { return cmp.Or(r.Typed, r.Name) }
