package journey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"authgate/gateway/store/record"
)

// NewBrowserSecret returns a secret that binds login attempts to a browser.
func NewBrowserSecret() string { return newSecret() }

// BrowserSecret returns the secret that a browser has sent, or a new one if that is not valid. All
// tabs share it, so that each can finish its own sign-in.
func BrowserSecret(sent string) (secret string, known bool) {
	if ValidBrowserSecret(sent) {
		return sent, true
	}
	return NewBrowserSecret(), false
}

// ValidBrowserSecret reports whether secret has the form of a browser secret.
func ValidBrowserSecret(secret string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	return err == nil && len(raw) == 32 && len(secret) == base64.RawURLEncoding.EncodedLen(32)
}

// Binding returns a hash that identifies a browser's secret.
func Binding(secret string) string { return record.Hash([]byte(secret)) }

// Begun returns a proof for the host of public_url: the browser that has a session
// there also has a binding at another host. The browser brings the proof to the other
// host, which returns it to this browser alone. Only who knows the session can make the
// proof, and the proof does not reveal the session.
func Begun(session, host, binding string) string {
	mac := hmac.New(sha256.New, []byte(session))
	fmt.Fprintf(mac, "begun\x00%s\x00%s", host, binding)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ValidBinding reports whether binding has the form of a binding.
func ValidBinding(binding string) bool { return ValidBrowserSecret(binding) }

// newSecret returns 256 random bits in base64url.
func newSecret() string {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: crypto/rand
	return base64.RawURLEncoding.EncodeToString(secret)
}
