//go:build unix

package main

import "syscall"

// ownerOnly makes every file that the program creates private: the database
// holds people's data, the keys hold their sessions.
func ownerOnly() { syscall.Umask(0o077) }
