package login

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/identity/auth"
)

// maxUserAgent is how much of a User-Agent header a login keeps, in bytes.
const maxUserAgent = 256

// Device is where a login comes from. The client chooses its User-Agent, so a device is for people
// to recognise, and decides nothing.
type Device struct {
	Client    netip.Addr `json:"client,omitzero"` // neither mapped to IPv6 nor with a zone
	UserAgent string     `json:"user_agent,omitempty"`
}

// DeviceOf returns the device that credentials come from.
func DeviceOf(creds *auth.Credentials) Device {
	return Device{Client: creds.Client.Unmap().WithZone(""), UserAgent: shortUserAgent(creds.UserAgent)}
}

// shortUserAgent returns at most maxUserAgent bytes of a header, in UTF-8 and
// without control characters.
func shortUserAgent(header string) string {
	if len(header) > maxUserAgent {
		end := maxUserAgent
		for end > 0 && !utf8.RuneStart(header[end]) {
			end--
		}
		header = header[:end]
	}
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, header)
	return strings.Clone(strings.TrimSpace(clean)) // not a part of the whole header
}
