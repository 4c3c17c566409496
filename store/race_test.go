//go:build race

package store_test

// sparing makes large fixtures small where everything takes ten times as long.
const sparing = true
