package pages

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// texts are the texts of one language, by their names. A text can have places for
// values: words in braces.
type texts struct {
	tag language.Tag
	all map[string]string
}

// leftward reports whether the language is written from right to left.
func (l *texts) leftward() bool {
	script, _ := l.tag.Script()
	switch script.String() {
	case "Arab", "Hebr", "Thaa", "Syrc", "Nkoo", "Adlm", "Rohg":
		return true
	}
	return false
}

// text returns a text with its values, which are given as name and value in turn.
func (l *texts) text(key string, values ...any) (string, error) {
	text, err := l.pattern(key)
	return filled(text, values), err
}

// errorTitles are the texts of an operator's own for a page on which something is wrong, by the
// names of its title. Without one, it is the title as title.error says it.
var errorTitles = map[string]string{
	"signin.title": "signin.title.error", "code.title": "code.title.error",
	"people.title": "people.title.error", "invite.title": "invite.title.error", "device.title": "device.title.error",
	"manage.password": "manage.title.error", "factors.title": "manage.title.error",
	"manage.programs": "manage.title.error",
}

// titled returns the title of a page, and tells if something on it is wrong.
func (l *texts) titled(key string, wrong bool) (string, error) {
	title, err := l.text(key)
	if !wrong || err != nil {
		return title, err
	}
	if own := l.all[errorTitles[key]]; own != "" {
		return own, nil
	}
	return l.text("title.error", "title", title)
}

// strong is text with emphasized values, as HTML.
func (l *texts) strong(key string, values ...any) (template.HTML, error) {
	marked := make([]any, len(values))
	for i, value := range values {
		if marked[i] = value; i%2 == 1 {
			marked[i] = "<strong>" + template.HTMLEscapeString(fmt.Sprint(value)) + "</strong>"
		}
	}
	text, err := l.pattern(key)
	return template.HTML(filled(template.HTMLEscapeString(text), marked)), err
}

// pattern returns a text with its places for values.
func (l *texts) pattern(key string) (string, error) {
	text, ok := l.all[key]
	if !ok {
		return "", fmt.Errorf("the language %s has no text %q", l.tag, key)
	}
	return text, nil
}

// filled returns a pattern with values in its places.
func filled(pattern string, values []any) string {
	if len(values) == 0 {
		return pattern
	}
	pairs := make([]string, len(values))
	for i, value := range values {
		if pairs[i] = fmt.Sprint(value); i%2 == 0 {
			pairs[i] = "{" + pairs[i] + "}"
		}
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}

// count is text with the value {n}, in the form that the language has for that number. Without
// that form it is key.other.
func (l *texts) count(key string, n int) (string, error) {
	if form := key + "." + pluralForm(l.tag, n); l.all[form] != "" {
		return l.text(form, "n", n)
	}
	return l.text(key+".other", "n", n)
}

// pluralForm returns the word of the Unicode CLDR for the form in which a language counts n
// things.
func pluralForm(tag language.Tag, n int) string {
	switch plural.Cardinal.MatchPlural(tag, n, 0, 0, 0, 0) {
	case plural.Zero:
		return "zero"
	case plural.One:
		return "one"
	case plural.Two:
		return "two"
	case plural.Few:
		return "few"
	case plural.Many:
		return "many"
	}
	return "other"
}

// date writes a point in time, in UTC.
func (l *texts) date(t time.Time) (string, error) {
	t = t.UTC()
	months := strings.Fields(l.all["date.months"])
	if len(months) != 12 {
		return "", fmt.Errorf("the language %s has %d months", l.tag, len(months))
	}
	return l.text("date.minute", "day", t.Day(), "month", months[t.Month()-1], "year", t.Year(),
		"time", t.Format("15:04"))
}

// wait writes how long to wait, rounded up.
func (l *texts) wait(d time.Duration) (string, error) {
	if d <= 90*time.Second {
		return l.count("wait.seconds", int((d+time.Second-1)/time.Second))
	}
	return l.count("wait.minutes", int((d+time.Minute-1)/time.Minute))
}

// mechanism returns the users' name of a mechanism, or the name of an unknown one.
func (l *texts) mechanism(name string) (string, error) {
	switch name {
	case "basic":
		return l.text("mechanism.basic")
	case "session":
		return l.text("mechanism.session")
	case "bearer":
		return l.text("mechanism.bearer")
	case "oidc":
		return l.text("mechanism.oidc")
	}
	return name, nil
}

// provider returns the users' name of the place where an account is stored: the name of a
// configured provider, or this service.
func (l *texts) provider(name string) (string, error) {
	switch name {
	case "local", "basic":
		return l.text("provider.local")
	}
	return name, nil
}
