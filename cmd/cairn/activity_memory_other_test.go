//go:build !linux

package main

import "os"

// residentMB is known on Linux only: elsewhere the unit is another.
func residentMB(*os.ProcessState) float64 { return 0 }
