// Package strictjson refuses JSON that two parsers could read differently.
//
// If an object has two members with the same name, encoding/json uses the last
// one, and other parsers use the first. An attacker who controls both could be one
// user to the gateway and another user elsewhere (RFC 7515, section 4; RFC 8259,
// section 4). [Parse] bounds nesting and refuses text that is not UTF-8 as well. The package looks at
// neither structure nor size.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
)

// Object decodes one JSON object in which no object has two members with the same name.
// Numbers are json.Number.
func Object(raw []byte) (map[string]any, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&members); err != nil { // first, because it limits the depth
		return nil, err
	}
	if members == nil {
		return nil, errors.New("is null, expected an object")
	}
	return members, Unique(raw)
}

// Unique returns an error unless raw is one JSON value in which no object has two
// members with the same name. It wraps ErrDuplicate for the name.
func Unique(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var first json.RawMessage
	if err := d.Decode(&first); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	_, err := parse(first, math.MaxInt, nil)
	return err
}
