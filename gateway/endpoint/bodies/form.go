// Package bodies reads the bodies of requests to the gateway's own endpoints, strictly: one JSON
// object, or a form. Its errors quote nothing of a body, which may have secrets.
package bodies

import (
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	"authgate/gateway/proxy/web"
)

// OrForm names the types of bodies, to the client, where an endpoint reads a form too.
const OrForm = web.TypeJSON + " or " + web.TypeForm

// ReadForm returns the form of a request, which has each of the named fields once. Any other form is a
// 400 with that detail, and another type of body is a 415.
func ReadForm(ex *web.Exchange, detail string, once ...string) (url.Values, error) {
	if ex.MediaType() != web.TypeForm {
		return nil, web.UnsupportedMedia(web.TypeForm)
	}
	values, err := ParseForm(ex.Body, once...)
	if err != nil {
		return nil, web.BadRequest(detail, nil)
	}
	return values, nil
}

// ParseForm returns the fields of a form in UTF-8, which has each of the named ones once. The error is
// for operators.
func ParseForm(body []byte, once ...string) (url.Values, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errors.New("malformed encoding") // the parser's words quote the body
	}
	for _, all := range values {
		for _, value := range all {
			if !utf8.ValidString(value) {
				return nil, errors.New("invalid UTF-8")
			}
		}
	}
	for _, name := range once {
		if len(values[name]) != 1 {
			return nil, fmt.Errorf("there are %d fields %s", len(values[name]), name)
		}
	}
	return values, nil
}
