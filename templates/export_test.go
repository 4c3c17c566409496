package templates

// Samples lets the tests fill every page that there is.
var Samples = samples
