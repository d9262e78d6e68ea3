// Package strictjson refuses JSON that two parsers could read differently.
//
// If an object has two members with the same name, encoding/json uses the last
// one, and other parsers use the first. An attacker who controls both could be one
// user to the gateway and another user elsewhere (RFC 7515, section 4; RFC 8259,
// section 4). The package checks nothing else, neither structure nor size.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// members with the same name.
func Unique(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := uniqueValue(d); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}

func uniqueValue(d *json.Decoder) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name.(string)] {
				return fmt.Errorf("member %q appears twice", name)
			}
			seen[name.(string)] = true
		}
		if err := uniqueValue(d); err != nil {
			return err
		}
	}
	_, err = d.Token() // the closing delimiter
	return err
}
