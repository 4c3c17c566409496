package activityschema

// ValidateUpTo is Validate with another size limit: a document of MaxBytes
// would cost each test run a gigabyte.
var ValidateUpTo = validate
