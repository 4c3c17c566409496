//go:build !unix

package config

import "os"

// OwnFile is always true, because the owner is not known.
func OwnFile(os.FileInfo) bool { return true }

// owner is always -1: files have no user id.
func owner(os.FileInfo) int { return -1 }

// OwnedByRoot reports whether a file belongs to root: nothing does here.
func OwnedByRoot(os.FileInfo) bool { return false }

// readOnly reports whether nobody can write a folder.
func readOnly(string) bool { return false }
