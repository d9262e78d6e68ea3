package login

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"authgate/gateway/strictjson"
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
		if err := strictjson.Unique(raw); err != nil {
			return fmt.Errorf("%s: %w", [...]string{"header", "payload"}[i], err)
		}
	}
	return nil
}
