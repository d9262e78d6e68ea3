package pages

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
)

// monthNames is the text with the twelve months.
const monthNames = "date.months"

// maxText is the length of a text of an operator's own, in characters.
const maxText = 1000

// Texts are texts of an operator's own, by the tag of their language and their name. Those of a
// language that the pages have replace its texts; any other language is added.
type Texts map[string]map[string]string

// withOwn returns the languages with the texts of an operator's own.
func withOwn(languages []*texts, own Texts) ([]*texts, error) {
	all := slices.Clone(languages)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		tag, err := language.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("%q is not a language: %w", name, err)
		}
		merged := &texts{tag: tag, all: textsOf(languages, own, tag)}
		if i := index(languages, tag); i >= 0 {
			all[i] = merged
		} else {
			all = append(all, merged)
		}
	}
	return all, nil
}

// textsOf returns the texts of a language with those of an operator's own. A new language has the
// other texts of the one above it: de-CH those of de, and a language with none above it those of
// the fallback. These too are the operator's own where there are some.
func textsOf(languages []*texts, own Texts, tag language.Tag) map[string]string {
	var base map[string]string
	if i := index(languages, tag); i >= 0 {
		base = languages[i].all
	} else if above := tag.Parent(); !above.IsRoot() {
		base = textsOf(languages, own, above)
	} else {
		base = textsOf(languages, own, languages[0].tag)
	}
	return merge(base, own[tag.String()])
}

// merge returns the texts of a language with those of an operator's own in their places. A text
// with a count has only the operator's plural forms.
func merge(base, own map[string]string) map[string]string {
	merged := maps.Clone(base)
	for name := range own {
		if counted, ok := strings.CutSuffix(name, ".other"); ok {
			for _, form := range pluralForms {
				delete(merged, counted+"."+form)
			}
		}
	}
	maps.Copy(merged, own)
	return merged
}

// Missing returns the names of the texts that a language of an operator's own has in English,
// because neither it nor a language above it has them, sorted. It is an error if a new language
// does not say its own name. tag is a result of ParseLanguage.
func Missing(tag string, own Texts) ([]string, error) {
	languages, err := builtIn()
	if err != nil {
		return nil, err
	}
	parsed, err := language.Parse(tag)
	if err != nil || index(languages, parsed) >= 0 {
		return nil, err
	}
	if own[tag][ownName] == "" {
		return nil, fmt.Errorf("the text %s is missing: the name of the language in itself, like %s; "+
			"users choose it by that name", ownName, languages[0].all[ownName])
	}
	written := map[string]string{}
	for ; !parsed.IsRoot(); parsed = parsed.Parent() {
		if index(languages, parsed) >= 0 {
			return nil, nil
		}
		maps.Copy(written, own[parsed.String()])
	}
	var missing []string
	for name := range languages[0].all {
		if written[name] == "" && !strings.HasSuffix(name, ".one") {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// TextNames returns the names of all texts that there can be, sorted.
func TextNames() ([]string, error) {
	languages, err := builtIn()
	if err != nil {
		return nil, err
	}
	names := slices.Collect(maps.Values(errorTitles))
	for name := range languages[0].all {
		counted, ok := strings.CutSuffix(name, ".other")
		if !ok || languages[0].all[counted+".one"] == "" {
			names = append(names, name)
			continue
		}
		for _, form := range pluralForms {
			names = append(names, counted+"."+form)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// place matches a place for a value in a text.
var place = regexp.MustCompile(`\{[a-z]+\}`)

// placesIn returns the places for values in a text, each once, sorted.
func placesIn(text string) []string {
	places := place.FindAllString(text, -1)
	slices.Sort(places)
	return slices.Compact(places)
}

// CheckText checks a text of an operator's own. There must be a text of that name.
func CheckText(name, text string) error {
	languages, err := builtIn()
	if err != nil {
		return err
	}
	if err := checkPlain(text); err != nil {
		return err
	}
	if name == monthNames {
		if n := len(strings.Fields(text)); n != 12 {
			return fmt.Errorf("has %d words; expected the names of the twelve months, with spaces between them", n)
		}
	}
	pattern := languages[0].all[name]
	if pattern == "" { // a form that English does not have
		pattern = languages[0].all[name[:strings.LastIndexByte(name, '.')+1]+"other"]
	}
	want, got := placesIn(pattern), placesIn(text)
	stray := strings.ContainsAny(place.ReplaceAllString(text, ""), "{}")
	switch {
	case !stray && slices.Equal(want, got):
		return nil
	case len(want) == 0:
		return fmt.Errorf("has %s; no value is put into this text, so it can have no braces", listed(braces(text)))
	}
	return fmt.Errorf("has %s; expected %s, where a value is put in", listed(braces(text)), listed(want))
}

// checkPlain refuses content that no text can have.
func checkPlain(text string) error {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		return errors.New("is empty; remove the line to keep the text of the gateway")
	case n > maxText:
		return fmt.Errorf("has %d characters; at most %d fit on a page", n, maxText)
	case strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("contains a control character or a line break")
	}
	return nil
}

// brace matches text that an operator may have meant as a place for a value.
var brace = regexp.MustCompile(`\{[^{}]*\}?|\}`)

// braces returns everything in a text that looks like a place for a value, each once, sorted.
func braces(text string) []string {
	found := brace.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// listed returns places for an error message.
func listed(places []string) string {
	if len(places) == 0 {
		return "no braces"
	}
	return strings.Join(places, ", ")
}
