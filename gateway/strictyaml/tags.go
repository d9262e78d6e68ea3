package strictyaml

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SetDefaults sets the fields of the struct that section points to, and of the structs in it, to their
// tags default. A default of a list has its elements with spaces between them.
func SetDefaults(section any) { setDefaults(reflect.ValueOf(section).Elem()) }

func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if text, ok := field.Tag.Lookup("default"); ok {
			setText(v.Field(i), text)
		} else if field.IsExported() {
			setDefaults(v.Field(i))
		}
	}
}

// setText sets a value to the one that a tag has as text. Tags are part of the program, so a text that
// does not fit the type is a fault of the program's.
func setText(v reflect.Value, text string) {
	var value any
	var err error
	switch v.Interface().(type) {
	case time.Duration:
		value, err = ParseDuration(text)
	case *url.URL:
		value, err = url.Parse(text)
	case []string:
		value = strings.Fields(text)
	case string:
		value = text
	case bool:
		value, err = strconv.ParseBool(text)
	case float64:
		value, err = strconv.ParseFloat(text, 64)
	default:
		value, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("strictyaml: a tag has %q for a %s: %v", text, v.Type(), err))
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
}

// checkTags makes the checks that the tags of a field declare for its value at path.
//
//   - min and max are bounds of a number, of a duration, or of the characters of a text, and range has
//     both, as in "1s..24h". With zero, 0 is in bounds too, and means what that tag says. why ends the
//     message about max, or about min if there is no max.
//   - check names functions of Options.Checks. Those for texts check each element of a list.
func (d *Document) checkTags(path string, v reflect.Value, f field) {
	if message := f.outOfBounds(v); message != "" {
		d.Fault(path, "%s", message)
	}
	for name := range strings.FieldsSeq(f.tag.Get("check")) {
		one := d.reader.Checks[name]
		check := func(path string, v reflect.Value) {
			if v.Type() != secretType || !d.stood[path] { // the form of a stand-in says nothing about the secret
				one(d, path, v.String())
			}
		}
		if v.Kind() != reflect.Slice {
			check(path, v)
			continue
		}
		for i := range v.Len() {
			check(path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	}
}

// outOfBounds returns how a value is beyond the bounds in the tags of its field, or "".
func (f field) outOfBounds(v reflect.Value) string {
	low, high, ranged := strings.Cut(f.tag.Get("range"), "..")
	if !ranged {
		low, high = f.tag.Get("min"), f.tag.Get("max")
	}
	zero, orZero := f.tag.Lookup("zero")
	if low+high == "" || orZero && v.IsZero() {
		return ""
	}
	is, why, seconds := amount(v), f.why, ""
	if v.Type() == durationType {
		seconds = "s"
	}
	if zero != "" {
		zero = fmt.Sprintf(", or 0%s for %s", seconds, zero)
	}
	below := low != "" && is < amount(bound(v.Type(), low))
	above := high != "" && is > amount(bound(v.Type(), high))
	switch {
	case !below && !above:
		return ""
	case ranged && v.Kind() == reflect.Float64:
		return fmt.Sprintf("must be from %s to %s%s", low, high, why)
	case ranged:
		from, to := bound(v.Type(), low), bound(v.Type(), high)
		return fmt.Sprintf("%v is out of range; expected %v to %v%s", v, from, to, zero)
	case below && high != "":
		why = ""
	case v.Kind() == reflect.String:
		return fmt.Sprintf("has %v characters; at most %s%s", is, high, why)
	case above && low != "":
		return "is longer than " + high + why
	case above:
		return "must be at most " + high + why
	}
	if seconds != "" && is == 0 {
		return "must be longer than 0" + why
	}
	return "must be at least " + low + zero + why
}

// bound returns a bound of values of a type.
func bound(t reflect.Type, text string) reflect.Value {
	if t.Kind() == reflect.String {
		t = reflect.TypeFor[int]()
	}
	v := reflect.New(t).Elem()
	setText(v, text)
	return v
}

// amount returns a value as its bounds count it.
func amount(v reflect.Value) float64 {
	switch v.Kind() {
	case reflect.String:
		return float64(utf8.RuneCountInString(v.String()))
	case reflect.Float64:
		return v.Float()
	}
	return float64(v.Int())
}

// CheckUnion checks the section at path, whose key word says which of its other keys there are: those
// with one of the words in the tag of. The tag need tells what a key is that may not be left out. known
// tells that the word is one of them.
func (d *Document) CheckUnion(path, key string, section any) (known bool) {
	v, has := reflect.ValueOf(section), []string(nil)
	fields := fieldsOf(v.Type())
	word, words := v.Field(fields[key].index).String(), fields[key].words
	if at := Join(path, key); word == "" && !d.Broken(at) {
		d.Missing(at, "is needed: %s", orList(words))
	}
	if !slices.Contains(words, word) {
		return false
	}
	belongs := func(f field) bool { return slices.Contains(strings.Fields(f.tag.Get("of")), word) }
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if f := fields[name]; belongs(f) && !f.file {
			has = append(has, name)
		}
	}
	for name, f := range fields {
		at := Join(path, name)
		need, needed := f.tag.Lookup("need")
		switch {
		case f.file || f.tag.Get("of") == "":
		case !belongs(f) && d.Given(at):
			d.Fault(at, "is no option of the %s %s, which has %s; remove this key", key, word, strings.Join(has, ", "))
		case belongs(f) && needed && v.Field(f.index).IsZero() && !d.Broken(at):
			d.Missing(at, "is needed with the %s %s: %s", key, word, cmp.Or(need, f.why))
		}
	}
	return true
}
