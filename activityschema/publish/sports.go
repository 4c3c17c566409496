package publish

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cairn-id/cairn/activityschema"
)

// sportWords are parts of the names of sports that programs write, in the languages of the pages,
// without blanks and letters beyond ASCII. The first match counts.
var sportWords = []struct {
	sport activityschema.Sport
	sub   activityschema.SubSport
	words string
}{
	{activityschema.SportOther, "", "motor motoc ski skat eislauf langlauf horse narty narciar schaats"},
	{activityschema.SportCycling, activityschema.SubSportIndoor, "virtualrid virtualcycl virtualbik indoorcycl " +
		"indoorbik indoorrid spinning hometrainer rollentrainer"},
	{activityschema.SportRunning, activityschema.SubSportIndoor, "virtualrun indoorrun treadmill laufband tapis " +
		"loopband biena esteira"},
	{activityschema.SportCycling, activityschema.SubSportMountain,
		"mountainbik mountaincycl mountainrid bikemountain ridemountain mtb vtt btt"},
	{activityschema.SportCycling, activityschema.SubSportGravel, "gravel"},
	{activityschema.SportCycling, activityschema.SubSportRoad, "roadbik roadcycl roadrid racebik rennrad " +
		"racefiets szosow"},
	{activityschema.SportRunning, activityschema.SubSportTrail, "trailrun runtrail traillauf traillopen"},
	{activityschema.SportRunning, activityschema.SubSportTrack, "trackrun runtrack"},
	{activityschema.SportHiking, "", "hik mountaineering snowshoe trek wander bergsteig bergtour rando senderism " +
		"excursionism escursion wandelen wdrwk turystyka"},
	{activityschema.SportCycling, "", "cycl bik ride fahrrad radfahr radsport radtour radeln velo vlo cicli bici " +
		"fiets wielren pedala rower kolarst"},
	{activityschema.SportRunning, "", "run jog lauf footing course courir correr corrida corriendo carrera corsa " +
		"hardlop rennen bieg"},
	{activityschema.SportWalking, "", "walk gehen spazier marche marcha promenade camina paseo " +
		"camminat passeggiat lopen wandeling spacer marsz chodz caminhad"},
	{activityschema.SportSwimming, activityschema.SubSportIndoor, "lapswim poolswim"},
	{activityschema.SportSwimming, "", "swim schwimm natation nataci nadar nager " +
		"nuoto zwem pywan natao"},
}

// stravaTypes are the numbers that older GPX files of Strava have instead of names.
var stravaTypes = map[string]activityschema.Sport{
	"1": activityschema.SportCycling, "4": activityschema.SportHiking, "9": activityschema.SportRunning,
	"10": activityschema.SportWalking, "16": activityschema.SportSwimming,
}

// sportNamed returns the sport for a name, or SportOther.
func sportNamed(name string) (activityschema.Sport, activityschema.SubSport) {
	if sport, ok := stravaTypes[strings.TrimSpace(name)]; ok {
		return sport, ""
	}
	name = letters(name)
	if name == "rad" {
		return activityschema.SportCycling, ""
	}
	for _, s := range sportWords {
		for _, word := range strings.Fields(s.words) {
			if strings.Contains(name, word) {
				return s.sport, s.sub
			}
		}
	}
	return activityschema.SportOther, ""
}

// letters returns the ASCII letters of a name in lower case.
func letters(name string) string {
	return strings.Map(func(c rune) rune {
		if c > unicode.MaxASCII || !unicode.IsLetter(c) {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
}

// fitSubSports maps the sub-sports of the profile, and fitIndoor are those that are indoors. Others are dropped.
var (
	fitSubSports = map[float64]activityschema.SubSport{
		3: activityschema.SubSportTrail, 4: activityschema.SubSportTrack, 7: activityschema.SubSportRoad,
		8: activityschema.SubSportMountain, 9: activityschema.SubSportMountain, 13: activityschema.SubSportTrack,
		46: activityschema.SubSportGravel, 47: activityschema.SubSportMountain,
	}
	fitIndoor = []float64{1, 5, 6, 14, 15, 16, 17, 25, 27, 45, 58, 68}
)

// fitSportOf maps a sport and sub-sport of the profile. Fitness equipment counts as the sport that it simulates.
func fitSportOf(sport, sub float64) (activityschema.Sport, activityschema.SubSport) {
	to := activityschema.SportOther
	switch sport {
	case 1:
		to = activityschema.SportRunning
	case 2, 21:
		to = activityschema.SportCycling
	case 5:
		to = activityschema.SportSwimming
	case 11:
		to = activityschema.SportWalking
	case 16, 17, 35:
		to = activityschema.SportHiking
	case 4:
		switch sub {
		case 1, 45:
			to = activityschema.SportRunning
		case 5, 6:
			to = activityschema.SportCycling
		case 27:
			to = activityschema.SportWalking
		}
	}
	switch {
	case slices.Contains(fitIndoor, sub):
		return to, activityschema.SubSportIndoor
	case to == activityschema.SportOther:
		return to, "" // downhill skiing is not mountain biking
	}
	return to, fitSubSports[sub]
}
