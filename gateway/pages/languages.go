package pages

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"golang.org/x/text/language"
)

// Each file has the texts of one language, and its name is the tag of the language
// (BCP 47). To add a language, add a file with all texts. To add a text, add it to
// each file, and write {{t "its.name"}} in a template.
//
//go:embed texts/*.yaml
var textFiles embed.FS

// fallback is the language of browsers that ask for none that there is. Its file has the names of
// all texts, and their places for values.
const fallback = "en"

// ownName is the text with the name of a language, in that language.
const ownName = "language.name"

// monthNames is the text with the twelve months.
const monthNames = "date.months"

// maxText is the length of a text of an operator's own, in characters.
const maxText = 1000

// pluralForms are the last parts of the names of texts that count something. A language needs
// those in which it counts.
var pluralForms = []string{"zero", "one", "two", "few", "many", "other"}

// builtIn returns the texts of all languages that the gateway brings along, the fallback first.
// They are read once, and must not be changed.
var builtIn = sync.OnceValues(readTexts)

func readTexts() ([]*texts, error) {
	files, err := textFiles.ReadDir("texts")
	if err != nil {
		return nil, err
	}
	var languages []*texts
	for _, file := range files {
		content, err := textFiles.ReadFile("texts/" + file.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file.Name(), path.Ext(file.Name()))
		l := &texts{}
		if l.tag, err = language.Parse(name); err != nil {
			return nil, fmt.Errorf("the name of %s is not a language: %w", file.Name(), err)
		}
		if err := yaml.UnmarshalWithOptions(content, &l.all, yaml.Strict()); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		if name == fallback {
			languages = append([]*texts{l}, languages...)
		} else {
			languages = append(languages, l)
		}
	}
	return languages, nil
}

// Texts are texts of an operator's own, by the tag of their language and their name. Those of a
// language that the pages have replace its texts; any other language is added.
type Texts map[string]map[string]string

// withOwn returns the languages with the texts of an operator's own. A new language has the
// other texts of the nearest one: de-CH those of de, and what is near to none those of the
// fallback.
func withOwn(languages []*texts, own Texts) ([]*texts, error) {
	all := slices.Clone(languages)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		tag, err := language.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("%q is not a language: %w", name, err)
		}
		near, _ := nearest(languages, tag)
		merged := &texts{tag: tag, all: merge(languages[near].all, own[name])}
		if languages[near].tag == tag {
			all[near] = merged
		} else {
			all = append(all, merged)
		}
	}
	return all, nil
}

// merge returns the texts of a language with those of an operator's own in their places. What the
// operator's texts count has no other forms than theirs.
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

// nearest returns the index of the language that is tag or above it. It reports false, and
// returns that of the fallback, if there is none.
func nearest(languages []*texts, tag language.Tag) (i int, ok bool) {
	for ; !tag.IsRoot(); tag = tag.Parent() {
		if i := slices.IndexFunc(languages, func(l *texts) bool { return l.tag == tag }); i >= 0 {
			return i, true
		}
	}
	return 0, false
}

// ParseLanguage returns the tag of a language in the form that [Texts] has.
func ParseLanguage(tag string) (string, error) {
	parsed, err := language.Parse(tag)
	if err != nil || parsed.IsRoot() {
		return "", fmt.Errorf("%q is no tag of a language; expected one like sv or pt-BR", tag)
	}
	return parsed.String(), nil
}

// Missing returns the names of the texts that a language of an operator's own has in English,
// because nobody has written them, sorted. It is an error if a new language does not say its own
// name. tag is what ParseLanguage returned.
func Missing(tag string, own map[string]string) ([]string, error) {
	languages, err := builtIn()
	if err != nil {
		return nil, err
	}
	parsed, err := language.Parse(tag)
	if err != nil {
		return nil, err
	}
	near, ok := nearest(languages, parsed)
	if languages[near].tag == parsed {
		return nil, nil
	}
	if own[ownName] == "" {
		return nil, fmt.Errorf("the text %s is missing: the name of the language in itself, like %s; users choose it by "+
			"that name", ownName, languages[0].all[ownName])
	}
	if ok {
		return nil, nil
	}
	var missing []string
	for name := range languages[0].all {
		if own[name] == "" && !strings.HasSuffix(name, ".one") {
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
	var names []string
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

// checkPlain checks what no text can have.
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

// brace matches what an operator may have meant as a place for a value.
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
