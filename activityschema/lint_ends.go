package activityschema

import (
	"slices"
	"strings"
	"unicode"
)

// A statedEnd is what the names on the way to a value say of the activity: that it
// began there, ended there, or either. whole is set if they say nothing besides.
type statedEnd struct{ begin, end, whole bool }

// Words for the ends of an activity. The first and the last of something are often
// not its ends.
var (
	beginWords = []string{"start", "begin", "beginning", "origin", "first"}
	endWords   = []string{"end", "finish", "destination", "last"}
	homeWords  = []string{"home", "door", "doorstep", "house"}
	unsure     = []string{"first", "last"}
)

// besideEnds are words that may stand beside those without changing what they mean.
var besideEnds = []string{
	"lat", "lon", "lng", "long", "latitude", "longitude", "latlng", "latlon", "latlong", "lnglat", "lonlat", "longlat", "coordinates", "coordinate",
	"coords", "coord", "position", "pos", "location", "loc", "point", "gps", "geo", "geopoint", "place", "activity", "session", "ride", "run", "track",
	"map", "degrees", "deg", "e", "semicircles", "raw", "value", "data", "of", "the", "at",
}

// otherEnds are words for what begins and ends elsewhere than the activity.
var otherEnds = []string{
	"lap", "laps", "split", "splits", "segment", "segments", "effort", "efforts", "interval", "intervals", "climb", "climbs", "descent", "descents", "hill",
	"sprint", "sprints", "section", "sections", "leg", "legs", "pause", "pauses", "stop", "stops", "break", "breaks", "best", "fastest", "longest", "photo",
	"photos", "surface", "surfaces", "ascent", "ascents",
}

// namedEnd tells what the names of path say. An item of a list, but the first, begins
// or ends after others.
func namedEnd(path []string) (named statedEnd) {
	if path[0] != "custom" {
		return statedEnd{}
	}
	named.whole = true
	for _, name := range path[1:] {
		if len(name) > longestName {
			return statedEnd{}
		}
		if name == "0" {
			named.whole = false
			continue
		}
		for _, word := range wordsOf(name) {
			word = endWord(word)
			begin, end, home := slices.Contains(beginWords, word), slices.Contains(endWords, word), slices.Contains(homeWords, word)
			switch {
			case begin || end || home:
				named.begin = named.begin || begin || home
				named.end = named.end || end || home
				named.whole = named.whole && !slices.Contains(unsure, word)
			case slices.Contains(otherEnds, word), word != "" && isDigit(word[0]):
				return statedEnd{}
			case !slices.Contains(besideEnds, word):
				named.whole = false
			}
		}
	}
	return named
}

// endWord returns the word for an end that name, written in one, begins with, as
// startlat does; otherwise name.
func endWord(name string) string {
	for _, words := range [...][]string{beginWords, endWords, homeWords} {
		for _, word := range words {
			if rest, ok := strings.CutPrefix(name, word); ok && slices.Contains(besideEnds, rest) {
				return word
			}
		}
	}
	return name
}

// wordsOf returns the words of a name, in lower case: start, lat of startLat,
// START_LAT and "start lat". A number is a word of its own, but not after letters:
// those of latE7 and lat1 say nothing.
func wordsOf(name string) (words []string) {
	fields := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for _, field := range fields {
		if isDigit(field[0]) {
			words = append(words, field)
			continue
		}
		from, lower := 0, false
		for i, r := range field {
			switch {
			case unicode.IsDigit(r):
				if i > from {
					words = append(words, strings.ToLower(field[from:i]))
				}
				from, lower = i+len(string(r)), false
				continue
			case unicode.IsUpper(r) && lower:
				words = append(words, strings.ToLower(field[from:i]))
				from = i
			}
			lower = unicode.IsLower(r)
		}
		if from < len(field) {
			words = append(words, strings.ToLower(field[from:]))
		}
	}
	return words
}
