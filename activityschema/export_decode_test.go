package activityschema

// DecodeDocument is what decodes after the validation, exactly or saturated.
var DecodeDocument = decodeDocument
