package activityschema

// DecodeDocument is how lint decodes a document that it knows to be valid.
var DecodeDocument = decodeDocument
