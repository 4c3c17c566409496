package roster

import (
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cairn-id/cairn/account/web"
	"github.com/cairn-id/cairn/templates"
)

// listText returns the text of a list: UTF-8, or UTF-16 with a byte order mark ("Unicode Text" of Excel). Lines end
// with LF. Other encodings, such as Windows-1252 and Mac Roman, are refused: a guess would change names.
func listText(data []byte) (string, error) {
	for _, start := range []string{"PK\x03\x04", "\xd0\xcf\x11\xe0"} { // .xlsx, .ods, .numbers; .xls
		if strings.HasPrefix(string(data[:min(len(data), 4)]), start) {
			return "", errors.New("this is a spreadsheet, and not text: save it as CSV UTF-8, and name that file")
		}
	}
	text := string(data)
	for mark, order := range map[string]binary.ByteOrder{
		"\xff\xfe": binary.LittleEndian, "\xfe\xff": binary.BigEndian,
	} {
		if strings.HasPrefix(text, mark) {
			units := make([]uint16, len(data)/2-1)
			for i := range units {
				units[i] = order.Uint16(data[2*i+2:])
			}
			text = string(utf16.Decode(units))
		}
	}
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	// Of old spreadsheets for Mac lines end with CR, and those within a cell with LF.
	if end := lineEnd(text); end >= 0 && text[end] == '\r' {
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	if !utf8.ValidString(text) {
		bad := strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError })
		return "", fmt.Errorf("line %d is not UTF-8: save the file as CSV UTF-8", 1+strings.Count(text[:bad], "\n"))
	}
	return text, nil
}

// lineEnd returns where the first line ends that is not within quotation marks, -1 for a single line.
func lineEnd(text string) int {
	quoted := false
	return strings.IndexFunc(text, func(r rune) bool {
		quoted = quoted != (r == '"')
		return !quoted && (r == '\n' || r == '\r')
	})
}

// separatorLine cuts the line with which Excel is told the separator, and returns it and the lines cut.
func separatorLine(text *string) (separator rune, skipped int) {
	line, rest, _ := strings.Cut(*text, "\n")
	line = strings.Trim(line, `"`)
	if len(line) != len("sep=;") || !strings.EqualFold(line[:4], "sep=") || !strings.Contains(separators, line[4:]) {
		return 0, 0
	}
	*text = rest
	return rune(line[4]), 1
}

const separators = ",;\t|"

// separatorOf returns what separates the cells: what makes addresses and the names of columns whole cells, or else
// more cells.
func separatorOf(text string) (best rune) {
	mostFit, mostCells := -1, 0
	text = text[:min(len(text), 2*web.MaxBody)]
	for _, separator := range separators {
		in := csv.NewReader(strings.NewReader(text))
		in.Comma, in.FieldsPerRecord, in.LazyQuotes, in.TrimLeadingSpace = separator, -1, true, separator != '\t'
		fit, cells := 0, 0
		for range 50 {
			record, err := in.Read()
			if err != nil {
				break
			}
			cells += len(record)
			for _, cell := range record {
				if cell = strings.TrimSpace(cell); columnNamed(cell) != "" ||
					strings.Count(cell, "@") == 1 && !strings.ContainsAny(cell, separators+" ") {
					fit++
				}
			}
		}
		if fit > mostFit || fit == mostFit && cells > mostCells {
			best, mostFit, mostCells = separator, fit, cells
		}
	}
	return best
}

// damaged is what is left of UTF-8 that was read as Windows-1252 or Mac Roman, and of letters that a program has lost.
var damaged = regexp.MustCompile("Ã[\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ" +
	"‘’“”•–—˜™š›œžŸ]" +
	"|[ÂÄÅ][\u0080-\u009f\u00a1-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ•˜™š›œžŸ]|â€|√|\ufffd")

// nameParts are columns whose cells are put together to display_name.
var nameParts = []string{"given_name", "family_name"}

// headings are the names that columns have in lists of people, by member.
var headings = map[string]string{
	"display_name": "name|full name|display name|anzeigename|vollständiger name|nombre|nombre completo|nom|nom " +
		"complet|nome|nome completo|naam|volledige naam|imię i nazwisko|nazwa",
	"given_name": "first name|given name|vorname|nombre de pila|prénom|voornaam|imię",
	"family_name": "last name|family name|surname|nachname|familienname|apellido|apellidos|nom de famille|cognome|" +
		"achternaam|nazwisko|apelido|apelidos|sobrenome",
	"email": "e-mail|mail|email address|e-mail address|e-mail-adresse|mailadresse|emailadresse|correo|" +
		"correo electrónico|courriel|adresse e-mail|adresse électronique|indirizzo e-mail|indirizzo email|" +
		"e-mailadres|adres e-mail|endereço de e-mail|correio eletrónico",
	"flags": "permission|permissions|berechtigung|berechtigungen|rechte|permiso|permisos|droit|droits|permessi|" +
		"rechten|uprawnienia|permissão|permissões",
	"handle": "user name|username|benutzername|nombre de usuario|usuario|identifiant|nom d'utilisateur|nome utente|" +
		"gebruikersnaam|nazwa użytkownika|nome de utilizador",
	"ends": "last day|letzter tag|ende|austritt|último día|dernier jour|ultimo giorno|laatste dag|" +
		"ostatni dzień|último dia",
}

// columnNamed returns the member of a column by its name in any of the languages, "" for none.
func columnNamed(cell string) string {
	cell = strings.NewReplacer("’", "'", "‑", "-", "*", "", ":", "").Replace(cell)
	name := strings.ToLower(strings.Join(strings.Fields(cell), " "))
	if slices.Contains(ImportMembers(), name) {
		return name
	}
	for member, names := range headings {
		if slices.Contains(strings.Split(names, "|"), name) {
			return member
		}
	}
	return ""
}

// cleanCell removes what spreadsheets and web pages leave around a cell, and line breaks in names.
func cleanCell(l *templates.Language, member, cell string) string {
	cell = strings.TrimSpace(web.UnguardCell(cell))
	switch member {
	case "display_name", "given_name", "family_name", "handle":
		return strings.Join(strings.Fields(cell), " ")
	case "email":
		return strings.Trim(strings.TrimPrefix(cell, "mailto:"), "<>")
	case "ends", "created_at":
		return plainDate(l, cell)
	case "flags":
		words := strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(" \u00a0\n,;", r) })
		for i, word := range words {
			if name, day, has := strings.Cut(word, "@"); has {
				words[i] = name + "@" + plainDate(l, day)
			}
		}
		return strings.Join(words, " ")
	}
	return cell
}

var (
	dayFirst  = regexp.MustCompile(`^(\d{1,2})([./-]) ?(\d{1,2})[./-] ?(\d{4}|\d\d)(?: 0?0:00(?::00)?)?$`)
	yearFirst = regexp.MustCompile(`^(\d{4})[./-](\d{1,2})[./-](\d{1,2})$`)
)

// plainDate returns a date that is written as in the language in the form 2006-01-02, and everything else as it is.
// English writes 3/4/2030 for two days, so that it stays, and is refused.
func plainDate(l *templates.Language, s string) string {
	m := yearFirst.FindStringSubmatch(s)
	if m == nil {
		if m = dayFirst.FindStringSubmatch(s); m == nil {
			return s
		}
		first, _ := strconv.Atoi(m[1])
		second, _ := strconv.Atoi(m[3])
		english := m[2] == "/" && strings.HasPrefix(l.Tag(), "en")
		switch year := m[4]; {
		case len(year) == 2:
			m = []string{"", "20" + year, m[3], m[1]}
		default:
			m = []string{"", year, m[3], m[1]}
		}
		switch {
		case english && first <= 12 && second <= 12 && first != second:
			return s
		case english && second > 12:
			m[2], m[3] = m[3], m[2]
		}
	}
	return fmt.Sprintf("%s-%02s-%02s", m[1], m[2], m[3])
}

// named returns the row with the name that its parts make, if it has no other.
func (row ImportRow) named() ImportRow {
	m := row.Members
	if whole := strings.TrimSpace(m["given_name"] + " " + m["family_name"]); m["display_name"] == "" && whole != "" {
		m["display_name"] = whole
	}
	return row
}

// Record returns the cells of a row that ReadList reads again.
func (row ImportRow) Record(columns []string) (record []string) {
	for _, name := range columns {
		record = append(record, web.GuardCell(row.Members[name]))
	}
	return record
}
