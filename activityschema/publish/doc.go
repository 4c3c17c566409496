// Package publish converts recorded activities (GPX, TCX, FIT) to the documents of a published
// folder, and writes its index.
//
// Read parses a file. It skips names, serial numbers, comments, waypoints and heart-rate zones,
// so that no document can contain them.
package publish
