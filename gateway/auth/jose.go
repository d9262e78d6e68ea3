package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// strictJWT refuses header and payload that two parsers could read in two
// ways: a member that stands twice (RFC 7515, section 4; RFC 7519, section 4).
// Line breaks, which base64 skips, would give one token many spellings.
func strictJWT(token string) error {
	if strings.ContainsAny(token, "\r\n") {
		return errors.New("line break in the token")
	}
	for i, part := range strings.SplitN(token, ".", 3)[:2] {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil {
			return err
		}
		if err := UniqueMembers(raw); err != nil {
			return fmt.Errorf("%s: %w", [...]string{"header", "payload"}[i], err)
		}
	}
	return nil
}

// UniqueMembers returns an error unless raw is one JSON value in which no
// object has two members of one name, which parsers read in different ways
// (RFC 8259, section 4).
func UniqueMembers(raw []byte) error {
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
