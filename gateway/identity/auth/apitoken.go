package auth

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// APITokenMark is how each API token of the gateway begins. Scanners for leaked secrets find it.
const APITokenMark = "agt_"

// IsAPIToken reports whether a token says that it is one of the gateway's API tokens. It may not be a
// valid one.
func IsAPIToken(token string) bool { return strings.HasPrefix(token, APITokenMark) }

// BearsAPIToken reports whether the Authorization header presents an API token as Bearer.
func (c *Credentials) BearsAPIToken() bool { return c.Scheme == "bearer" && IsAPIToken(c.Value) }

// APITokenInPassword reports whether the password of Basic credentials says that it is an API token.
// It reads as much as it can of malformed credentials, so that no part of a token counts as
// something else.
func (c *Credentials) APITokenInPassword() bool {
	if c.Scheme != "basic" {
		return false
	}
	var space [512]byte // on the stack, for almost all credentials
	pair, _ := base64.StdEncoding.AppendDecode(space[:0], []byte(c.Value))
	_, password, _ := bytes.Cut(pair, []byte(":"))
	return bytes.HasPrefix(password, []byte(APITokenMark))
}

// PresentsToken reports whether the Authorization header presents a token: as Bearer, or as the
// password of Basic.
func (c *Credentials) PresentsToken() bool { return c.Scheme == "bearer" || c.APITokenInPassword() }
