//go:build !linux

package main

// releaseProgramPages does nothing: only Linux counts these pages as the process's memory.
func releaseProgramPages() {}
