package activityschema_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

func ExampleValidate() {
	document := strings.NewReader(`{
	  "bas_version": "1.0",
	  "owner": {"handle": "mira", "display_name": "Mira"},
	  "generated_at": "2026-05-17 20:00",
	  "activities": [{"id": "1", "title": "Lake", "sport": "rowing", "started_at": "2026-05-17T06:30:00Z"}],
	  "handle": "mira"
	}`)
	problems, err := activityschema.Validate(context.Background(), document)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range problems {
		fmt.Printf("%q %s: %s\n", p.Pointer, p.Keyword, p.Message)
	}
	// Output:
	// "/generated_at" format: must be a date-time of RFC 3339 with its zone, such as 2026-05-17T08:30:00Z, not string "2026-05-17 20:00"
	// "/activities/0" required: member "privacy" is missing
	// "/activities/0/sport" enum: must be one of "cycling", "running", "hiking", "walking", "swimming" or "other", not string "rowing"
	// "/handle" additionalProperties: member "handle" is not part of the format here
}
