package strictyaml

import (
	"encoding/json"
	"regexp"
	"strings"
)

// plainText matches what is a text in YAML without quotes too, but for the words of YAML.
var (
	plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./@+-]*$`)
	yamlWord  = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// plain reports whether a text needs no quotes.
func plain(text string) bool { return plainText.MatchString(text) && !yamlWord.MatchString(text) }

// Text writes a text as a value, in quotes if it needs some.
func Text(text string) string {
	if plain(text) {
		return text
	}
	return Quoted(text)
}

// Key writes a text as a key, in quotes if it needs some. No ${ in a key is a variable.
func Key(text string) string {
	if plain(text) {
		return text
	}
	return QuotedJSON(text)
}

// Quoted writes a text in double quotes, in which no ${ is a variable.
func Quoted(text string) string { return QuotedJSON(variable.ReplaceAllString(text, "$$$0")) }

// QuotedJSON writes a text as JSON does.
func QuotedJSON(text string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // a text can always be encoded
	}
	return strings.TrimSuffix(quoted.String(), "\n")
}
