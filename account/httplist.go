package account

import (
	"iter"
	"strconv"
	"strings"
)

// headerMembers are the members of a header that is a list (RFC 9110 section 5.6.1),
// without those that are empty. A comma within a quoted string is no end of one.
func headerMembers(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for rest := line; rest != ""; {
				var member string
				member, rest = cutMember(rest)
				if member = strings.Trim(member, " \t"); member != "" && !yield(member) {
					return
				}
			}
		}
	}
}

func cutMember(line string) (member, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return line[:i], line[i+1:]
		}
	}
	return line, ""
}

// admits tells whether Accept or Accept-Encoding names one of the values, in lower
// case, with a weight above 0 (RFC 9110 section 12.4.2). The more exact name counts
// before the range, so the values are given in that order.
func admits(lines []string, values ...string) bool {
	for _, value := range values {
		for member := range headerMembers(lines) {
			name, parameters, _ := strings.Cut(member, ";")
			if strings.EqualFold(strings.Trim(name, " \t"), value) {
				return weight(parameters) > 0
			}
		}
	}
	return false
}

// weight is q among parameters; 1 without.
func weight(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.Trim(value, " \t"), 64)
		if err != nil {
			return 0
		}
		return q
	}
	return 1
}
