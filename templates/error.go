package templates

import "net/http"

// Error says what went wrong, what to do about it, and the request id under which the log has it.
type Error struct {
	// Status is the HTTP status, shown small. Detail is a sentence in the person's language; if it
	// is empty, the page shows the advice for Status.
	Status    int
	Detail    string
	RequestID string
	// BackURL is a local path, "" for none.
	BackURL string
	// ClientName is the application whose request failed, and ClientURL its web page; "" for none.
	ClientName, ClientURL string
	// Waits marks a page that loads again automatically.
	Waits bool
}

func (Error) page() (string, bool) { return "error", false }

// statusTexts has a title and advice by status.
var statusTexts = map[int][2]Text{
	http.StatusBadRequest: {"This request is invalid",
		"Go back and try again. If you came from another site, tell its owner."},
	http.StatusUnauthorized: {"Sign in to continue", "Sign in to see this page."},
	http.StatusForbidden: {"Not allowed",
		"Your account cannot do this. If you think it should, ask an administrator."},
	http.StatusNotFound: {"Page not found",
		"There is nothing at this address. Check the link, or go to your account."},
	http.StatusMethodNotAllowed:      {"You cannot do that here", "Go back and try again."},
	http.StatusRequestEntityTooLarge: {"Too large", "What you sent is too large. Shorten it and try again."},
	http.StatusTooManyRequests:       {"Too many attempts", "Wait a few minutes, then try again."},
	http.StatusServiceUnavailable: {"We’ll be right back",
		"The service cannot answer right now. Try again in a minute."},
}

// Headline returns the title for Status.
func (p Error) Headline() Text {
	if p.Waits {
		return "One moment"
	}
	if texts, known := statusTexts[p.Status]; known {
		return texts[0]
	}
	return "Something went wrong"
}

// Advice returns the advice for Status.
func (p Error) Advice() Text {
	if texts, known := statusTexts[p.Status]; known {
		return texts[1]
	}
	return "This is not your fault. Try again. If it happens again, give the operator the number below."
}
