//go:build !publishwasm

package templates

// built is the program that this build has: none. .ci/build makes it and sets the tag publishwasm.
func built() Program { return Program{} }
