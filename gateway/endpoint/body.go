package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"unicode/utf8"

	"authgate/gateway/strictjson"
	"authgate/gateway/web"
)

// JSONOrForm names the types of bodies, to the client, where an endpoint reads both.
const JSONOrForm = web.TypeJSON + " or " + web.TypeForm

// Object is a JSON object, strictly read.
type Object map[string]json.RawMessage

// JSONBody returns the body of a request, which must be JSON. expected are the types that
// a 415 names.
func JSONBody(ex *web.Exchange, expected string) (Object, error) {
	if ex.MediaType() != web.TypeJSON {
		return nil, UnsupportedMedia(expected)
	}
	return ParseObject(ex.Body)
}

// UnsupportedMedia is the error of a body of another type than those expected.
func UnsupportedMedia(expected string) error {
	return &web.Error{Status: http.StatusUnsupportedMediaType, Detail: "The body must be " + expected + "."}
}

// BadRequest is the error of a request that cannot be understood. cause is for operators;
// it may be nil.
func BadRequest(detail string, cause error) error {
	return &web.Error{Status: http.StatusBadRequest, Detail: detail, Cause: cause}
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
		return nil, BadRequest("The body must be one JSON object, in UTF-8, without double members.", nil)
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
		return false, BadRequest(`The field "`+name+`" must be true or false.`, errors.New("of another type"))
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
		return "", BadRequest(`The body must have the string field "`+name+`".`, errors.New("missing or of another type"))
	}
	return *s, nil
}

// Texts returns the array of strings under name. Any other value there, or none, is a 400.
func (o Object) Texts(name string) ([]string, error) {
	var given []*string // JSON's null would be an empty string
	if err := json.Unmarshal(o[name], &given); err != nil || given == nil || slices.Contains(given, nil) {
		return nil, BadRequest(`The field "`+name+`" must be an array of strings.`, nil)
	}
	texts := make([]string, len(given))
	for i, text := range given {
		texts[i] = *text
	}
	return texts, nil
}
