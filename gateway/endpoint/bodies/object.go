package bodies

import (
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/strictjson"
)

// Object is a JSON object, strictly read.
type Object map[string]json.RawMessage

// ReadObject returns the body of a request, which must be JSON. expected are the types that
// a 415 names.
func ReadObject(ex *web.Exchange, expected string) (Object, error) {
	if ex.MediaType() != web.TypeJSON {
		return nil, web.UnsupportedMedia(expected)
	}
	return ParseObject(ex.Body)
}

// ParseObject reads body as one JSON object without double members.
func ParseObject(body []byte) (Object, error) {
	var o Object
	err := strictjson.Unique(body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil || o == nil || !utf8.Valid(body) {
		// Without the parser's words: they quote the body, which has secrets.
		return nil, web.BadRequest("The body must be one JSON object, in UTF-8, without double members.", nil)
	}
	return o, nil
}

// Flag returns whether true is under name. Without the name it returns false. Any value
// but true and false is a 400.
func (o Object) Flag(name string) (bool, error) {
	raw, ok := o[name]
	if !ok {
		return false, nil
	}
	if value := string(raw); value != "true" && value != "false" {
		return false, web.BadRequest(`The field "`+name+`" must be true or false.`, errors.New("of another type"))
	}
	return string(raw) == "true", nil
}

// Text returns the string under name. Any other value there is a 400.
func (o Object) Text(name string) (string, error) {
	var s *string
	raw, ok := o[name]
	if ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			s = nil
		}
	}
	if s == nil {
		return "", web.BadRequest(`The body must have the string field "`+name+`".`,
			errors.New("missing or of another type"))
	}
	return *s, nil
}

// Texts returns the array of strings under name. Any other value there, or none, is a 400.
func (o Object) Texts(name string) ([]string, error) {
	var given []*string // JSON's null would be an empty string
	if err := json.Unmarshal(o[name], &given); err != nil || given == nil || slices.Contains(given, nil) {
		return nil, web.BadRequest(`The field "`+name+`" must be an array of strings.`, nil)
	}
	texts := make([]string, len(given))
	for i, text := range given {
		texts[i] = *text
	}
	return texts, nil
}
