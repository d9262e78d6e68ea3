package login

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"authgate/gateway/strictjson"
)

// strictJWT refuses a header or payload that two parsers could read differently because
// it has a duplicate member (RFC 7515, section 4; RFC 7519, section 4). It also refuses
// line breaks. Base64 skips them, so one token would have many spellings.
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
