package strictyaml

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// scalar returns the text of a YAML string, for a value of a type, with its variables replaced.
func (d *decoder) scalar(n ast.Node, path string, t reflect.Type) (string, bool) {
	content, ok := d.written(n, path)
	if !ok {
		return "", false
	}
	expanded, blank, err := expand(content, d.Lookup, d.unset(content, path, t))
	if blank != "" {
		d.blank[path] = blank
	}
	if err != nil {
		d.wrong(n, path, "%v", err)
		return "", false
	}
	return expanded, true
}

// written returns a YAML string as it is written.
func (d *decoder) written(n ast.Node, path string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		if words := d.wordsAt(path); words != nil {
			d.wrong(n, path, "expected %s, found %s", orList(words), n.GetToken().Value)
			break
		}
		d.wrong(n, path, "expected a string, found %s; put it in quotes", describe(n))
	case *ast.NullNode:
		if words := d.wordsAt(path); words != nil {
			d.wrong(n, path, "expected %s, found nothing", orList(words))
			break
		}
		if value := commentAfterKey.FindString(d.lines[start(n).line-1]); value != "" {
			d.wrong(n, path, "expected a string, found a comment, which # begins; put the value in quotes")
			break
		}
		d.wrong(n, path, `expected a string, found nothing; write "" for an empty one`)
	default:
		d.wrong(n, path, "expected a string, found %s", describe(n))
	}
	return "", false
}

// wordsAt returns the only words that the value at path can be, which may be an element of a list; nil:
// any.
func (d *decoder) wordsAt(path string) []string {
	if strings.HasSuffix(path, "]") {
		path = path[:strings.LastIndexByte(path, '[')]
	}
	return d.words[path]
}

// commentAfterKey matches a comment in the place of a value, without a space after #: mostly it is
// a value, such as a colour.
var commentAfterKey = regexp.MustCompile(`:\s+#[^\s#]`)

// secret decodes a secret. An empty one must be written as such: that of a variable
// is a mistake, which would make a public client of a confidential one.
func (d *decoder) secret(n ast.Node, path string, v reflect.Value) {
	content, ok := d.written(n, path)
	if !ok {
		return
	}
	text, blank, err := expand(content, d.Lookup, d.unset(content, path, secretType))
	d.Reader.Redact(text)
	switch {
	case blank != "":
		err = fmt.Errorf("the environment variable %s is blank; set it, or write \"\" here for no secret", blank)
	case err == nil && text != "":
		if err = Secret(text).Check(); err != nil {
			err = fmt.Errorf("the secret %w%s", err, blockHint(n))
		}
	}
	if err != nil {
		d.wrong(n, path, "%v", err)
		return
	}
	named := text == "" || strings.Contains(content, "${")
	d.Document.secret = d.Document.secret || !named && !slices.Contains(d.PublicSecrets, Secret(text))
	v.SetString(text)
}

// blockHint says how to write a block without the line break at its end.
func blockHint(n ast.Node) string {
	block, ok := n.(*ast.LiteralNode)
	if !ok || !strings.HasSuffix(block.Value.Value, "\n") {
		return ""
	}
	return "; a block that begins with |- or >- has no line break at its end"
}

// hasVariable reports whether n is a string with a ${NAME}, which may stand for
// a value of another type.
func hasVariable(n ast.Node) bool {
	s, ok := n.(*ast.StringNode)
	return ok && strings.Contains(s.Value, "${")
}

// boolean decodes true or false.
func (d *decoder) boolean(n ast.Node, path string, v reflect.Value) {
	if b, ok := n.(*ast.BoolNode); ok {
		v.SetBool(b.Value)
		return
	}
	if !hasVariable(n) {
		d.wrong(n, path, "expected true or false, found %s", describe(n))
		return
	}
	s, ok := d.scalar(n, path, v.Type())
	if !ok {
		return
	}
	if s != "true" && s != "false" {
		d.wrong(n, path, "expected the variable to be true or false")
		return
	}
	v.SetBool(s == "true")
}

var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// integer decodes a whole number that is not negative.
func (d *decoder) integer(n ast.Node, path string, v reflect.Value) {
	const expected = "expected a whole number like 65536"
	var digits string
	switch {
	case n.Type() == ast.IntegerType:
		digits = n.GetToken().Value
	case hasVariable(n):
		var ok bool
		if digits, ok = d.scalar(n, path, v.Type()); !ok {
			return
		}
		if !decimal.MatchString(digits) {
			d.wrong(n, path, "%s in the variable", expected)
			return
		}
	case n.Type() == ast.StringType && decimal.MatchString(n.GetToken().Value):
		if quoted(n) {
			d.wrong(n, path, "%s, found a string; remove the quotes", expected)
			return
		}
		digits = n.GetToken().Value // too large for the parser
	default:
		d.wrong(n, path, "%s, found %s", expected, describe(n))
		return
	}
	if !decimal.MatchString(digits) {
		d.wrong(n, path, "%s, found %s; neither signs nor other bases than ten are supported", expected, digits)
		return
	}
	number, err := strconv.ParseInt(digits, 10, v.Type().Bits())
	if err != nil {
		d.wrong(n, path, "the number is too large")
		return
	}
	v.SetInt(number)
}

var decimalFraction = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// fraction decodes a number that is not negative, such as 0.25.
func (d *decoder) fraction(n ast.Node, path string, v reflect.Value) {
	const expected = "expected a number like 0.25"
	var digits string
	switch {
	case n.Type() == ast.IntegerType, n.Type() == ast.FloatType:
		digits = n.GetToken().Value
	case hasVariable(n):
		var ok bool
		if digits, ok = d.scalar(n, path, v.Type()); !ok {
			return
		}
		if !decimalFraction.MatchString(digits) {
			d.wrong(n, path, "%s in the variable", expected)
			return
		}
	default:
		d.wrong(n, path, "%s, found %s", expected, describe(n))
		return
	}
	number, err := strconv.ParseFloat(digits, 64)
	if err != nil || !decimalFraction.MatchString(digits) {
		d.wrong(n, path, "%s, found %s; neither signs nor exponents are supported", expected, digits)
		return
	}
	v.SetFloat(number)
}

// quoted reports whether a string is in quotes.
func quoted(n ast.Node) bool {
	return strings.HasPrefix(strings.TrimSpace(n.GetToken().Origin), `"`) ||
		strings.HasPrefix(strings.TrimSpace(n.GetToken().Origin), "'")
}

// duration decodes a duration.
func (d *decoder) duration(n ast.Node, path string, v reflect.Value) {
	const expected = "expected a duration like 90s, 15m, 1h30m or 7d"
	var s string
	switch n.Type() {
	case ast.IntegerType:
		s = n.GetToken().Value
		if s != "0" {
			d.wrong(n, path, "%s, found a number without a unit", expected)
			return
		}
	case ast.StringType:
		var ok bool
		if s, ok = d.scalar(n, path, v.Type()); !ok {
			return
		}
	default:
		d.wrong(n, path, "%s, found %s", expected, describe(n))
		return
	}
	duration, err := ParseDuration(s)
	switch {
	case err != nil:
		d.wrong(n, path, "%s", expected)
	case duration < 0:
		d.wrong(n, path, "expected a duration that is not negative")
	default:
		v.SetInt(int64(duration))
	}
}

// leadingDays matches a duration that begins with days: its sign, the number of
// days, and the rest.
var leadingDays = regexp.MustCompile(`^([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)d([0-9.].+)?$`)

// ParseDuration is time.ParseDuration with days of 24 hours before the other units.
func ParseDuration(s string) (time.Duration, error) {
	found := leadingDays.FindStringSubmatch(s)
	if found == nil {
		return time.ParseDuration(s)
	}
	sign, days, rest := found[1], found[2], found[3]
	day, err := time.ParseDuration(sign + days + "h")
	if err != nil || rest == "" && day.Abs() <= math.MaxInt64/24 {
		return 24 * day, err
	}
	more, err := time.ParseDuration(sign + rest)
	if err != nil {
		return 0, err
	}
	sum := 24*day + more
	if day.Abs() > math.MaxInt64/24 || (more > 0 && sum < more) || (more < 0 && sum > more) {
		return 0, errors.New("the duration is too long")
	}
	return sum, nil
}

// describe names the kind of a node. It leaves out the value, which may be a
// secret.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.StringNode, *ast.LiteralNode:
		return "a string"
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	case *ast.AliasNode:
		return "an alias"
	case *ast.TagNode:
		return "a tag"
	}
	return fmt.Sprintf("a %v", n.Type())
}

// variable matches ${…}, escaped or not, and the beginning of one.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)(\}?)`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// beforeDefault is between the name of a variable and its default.
const beforeDefault = ":-"

// expand replaces each ${NAME} by the environment variable, and ${NAME:-default} by
// the default if it is not set. $${NAME} is the text ${NAME}. Any other $ is the
// character itself, as in password hashes. unset returns what takes the place of a
// variable that is not set; false: nothing does. blank is the name of a variable that is
// set and blank, if there is one.
func expand(s string, lookup, unset func(string) (string, bool)) (expanded, blank string, err error) {
	var wrong []string
	expanded = variable.ReplaceAllStringFunc(s, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		parts := variable.FindStringSubmatch(found)
		name, fallback, hasDefault := strings.Cut(parts[1], beforeDefault)
		switch {
		case strings.Contains(fallback, "${"):
			wrong = append(wrong, "the default of a variable cannot contain another variable")
			return ""
		case parts[2] == "" || !variableName.MatchString(name):
			wrong = append(wrong,
				"${ must be followed by the name of an environment variable and }; write $${ for the text ${ itself")
			return ""
		}
		value, ok := lookup(name)
		if !ok && !hasDefault {
			value, ok = unset(name)
		}
		switch {
		case !ok && hasDefault:
			return fallback
		case !ok:
			wrong = append(wrong, fmt.Sprintf("the environment variable %s is not set; "+
				"set it, or write $${%s} if the text ${%s} is meant", name, name, name))
		case strings.TrimSpace(value) == "":
			blank = name
		}
		if err := checkText(value); err != nil {
			wrong = append(wrong, fmt.Sprintf("the environment variable %s %v", name, err))
		}
		return value
	})
	if wrong != nil {
		err = errors.New(strings.Join(wrong, "; "))
	}
	return expanded, blank, err
}
