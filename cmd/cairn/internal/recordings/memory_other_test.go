//go:build !linux

package recordings

import "os"

// residentMB is known on Linux only: elsewhere the unit is another.
func residentMB(*os.ProcessState) float64 { return 0 }
