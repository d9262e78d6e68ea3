package endpoint

import (
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"authgate/gateway/strictjson"
	"authgate/gateway/web"
)

// object is a JSON object, strictly read.
type object map[string]json.RawMessage

// parseObject reads body as one JSON object without double members.
func parseObject(body []byte) (object, error) {
	var o object
	err := strictjson.Unique(body)
	if err == nil {
		err = json.Unmarshal(body, &o)
	}
	if err != nil || o == nil || !utf8.Valid(body) {
		// Without the parser's words: they quote the body, which has secrets.
		return nil, &web.Error{Status: http.StatusBadRequest, Detail: "The body must be one JSON object, in UTF-8, without double members."}
	}
	return o, nil
}

// flag returns whether true is under name. Without the name it returns false. Any value
// but true and false is a 400.
func (o object) flag(name string) (bool, error) {
	raw, ok := o[name]
	if !ok {
		return false, nil
	}
	if value := string(raw); value != "true" && value != "false" {
		return false, &web.Error{
			Status: http.StatusBadRequest, Detail: `The field "` + name + `" must be true or false.`, Cause: errors.New("of another type"),
		}
	}
	return string(raw) == "true", nil
}

// text returns the string under name. Any other value there is a 400.
func (o object) text(name string) (string, error) {
	var s *string
	raw, ok := o[name]
	if ok {
		if err := json.Unmarshal(raw, &s); err != nil {
			s = nil
		}
	}
	if s == nil {
		return "", &web.Error{
			Status: http.StatusBadRequest, Detail: `The body must have the string field "` + name + `".`,
			Cause: errors.New("missing or of another type"),
		}
	}
	return *s, nil
}

// truth returns the boolean under name, and whether there is one.
func (o object) truth(name string) (value, ok bool) {
	var b *bool
	if err := json.Unmarshal(o[name], &b); err != nil || b == nil {
		return false, false
	}
	return *b, true
}
