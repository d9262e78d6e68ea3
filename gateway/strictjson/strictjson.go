// Package strictjson refuses JSON that two parsers could read in two ways.
//
// Tokens, logins and what providers say are read by encoding/json, which lets
// the last of two members of one name count; others take the first. An
// attacker who can write both would be two people at once (RFC 7515, section
// 4; RFC 8259, section 4). Nothing else is checked here: not the form, not
// the size.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Unique returns an error unless raw is one JSON value in which no object has
// two members of one name.
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
				return fmt.Errorf("member %q stands twice", name)
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
