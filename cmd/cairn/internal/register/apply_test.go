package register

import "testing"

// Only the signs at the start of a line are colored.
func TestSignsAreColored(t *testing.T) {
	const diff = "~ client a\n  - name: - b\n  + name: + c\n"
	const colored = "\x1b[33m~ \x1b[0mclient a\n\x1b[1;31m  - \x1b[0mname: - b\n\x1b[32m  + \x1b[0mname: + c\n"
	same(t, "Paint", string(signs.Paint([]byte(diff))), colored)
}
