package account

// Limits of the preferences of one user: number of keys, and bytes.
const (
	MaxPreferences     = 100
	MaxPreferenceKey   = 64
	MaxPreferenceValue = 4096
)
