// Package publish turns recordings of sport (GPX, TCX, FIT) into the documents of a
// published folder, and writes its index.
//
// Read returns what a file recorded. Names, serial numbers, comments, waypoints and heart-rate zones
// are not read at all.
package publish
