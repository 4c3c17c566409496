//go:build !race

package activityschema_test

const underRace = false
