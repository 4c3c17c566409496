//go:build !race

package store_test

const sparing = false
