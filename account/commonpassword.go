package account

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/ccojocar/zxcvbn-go/data"
)

// commonPasswords is the list of zxcvbn, read when the first password is
// chosen: its package frequency would read that and four more lists at every
// start, for 30 ms and 10 MB.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	var file struct{ List []string }
	raw, err := data.Asset("data/Passwords.json")
	if err == nil {
		err = json.Unmarshal(raw, &file)
	}
	if err != nil || len(file.List) < 1000 {
		panic(fmt.Sprintf("the list of common passwords cannot be read: %v", err)) // it is compiled in
	}
	common := make(map[string]bool, len(file.List)+len(ourWords))
	for _, p := range file.List {
		common[strings.ToLower(p)] = true
	}
	for _, p := range ourWords {
		common[p] = true
	}
	return common
})

// ourWords are what the list of the world does not have and what is tried first
// here.
var ourWords = []string{"cairn", "activity", "administrator", "changeme", "letmein", "correcthorsebatterystaple"}

// isCommon tells whether a password, in lower case, is one of the common ones,
// or one that was dressed up to please a rule: with digits and marks around it,
// with digits for letters, written twice. Runs of the keyboard and short
// repetitions count as common words.
func isCommon(low string) bool {
	common := func(word string) bool {
		return word != "" && (commonPasswords()[word] || commonPasswords()[plainLetters.Replace(word)] || isRun(word))
	}
	if common(low) || common(undressed(low)) {
		return true
	}
	half := low[:len(low)/2]
	if common(half) && strings.HasPrefix(low, half) {
		rest := strings.TrimLeft(low[len(half):], " -_.")
		return rest == half || rest == strings.TrimRight(half, " -_.")
	}
	return false
}

const decoration = "0123456789!?.*#$-_+@%&= "

// undressed takes the digits and marks from both ends of a password, where they
// are as many as people append without thinking: up to four, a run of digits,
// or a year.
func undressed(low string) string {
	core := strings.TrimRight(low, decoration)
	if tail := low[len(core):]; !thoughtless(tail) {
		return low
	}
	bare := strings.TrimLeft(core, decoration)
	if head := core[:len(core)-len(bare)]; !thoughtless(head) {
		return core
	}
	return bare
}

func thoughtless(s string) bool {
	if len(s) <= 4 {
		return true
	}
	digits := strings.Trim(s, "!?.*#$-_+@%&= ")
	isYear := len(digits) == 4 && (strings.HasPrefix(digits, "19") || strings.HasPrefix(digits, "20"))
	return len(s)-len(digits) <= 2 && (isYear || isRun(digits))
}

// plainLetters undoes the usual digits and marks for letters.
var plainLetters = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// isRun tells whether a text is a piece of a run of the keyboard, or a short
// unit over and over.
func isRun(s string) bool {
	if len(s) >= 3 && strings.Contains(keyboardRuns, s) {
		return true
	}
	for unit := 1; unit <= 4 && 2*unit <= len(s) && len(s) < 20; unit++ {
		if strings.Repeat(s[:unit], len(s)/unit+1)[:len(s)] == s {
			return true
		}
	}
	return false
}

// keyboardRuns are separated by line breaks, which no password has.
const keyboardRuns = `01234567890123456789
98765432109876543210
1234567891011121314151617181920
abcdefghijklmnopqrstuvwxyz
zyxwvutsrqponmlkjihgfedcba
qwertyuiopasdfghjklzxcvbnm
qwertyuiop[]
asdfghjkl;'
1q2w3e4r5t6y7u8i9o0p
q1w2e3r4t5y6u7i8o9p0
1qaz2wsx3edc4rfv5tgb6yhn7ujm
1qazxsw23edcvfr45tgb
zaq12wsxcde34rfv
qazwsxedcrfvtgbyhnujmikolp
zaq1xsw2cde3vfr4
qwerasdfzxcv
qweasdzxc
1a2b3c4d5e6f7g8h9i0j
a1b2c3d4e5f6g7h8i9j0
1234qwerasdfzxcv
`
