package login

import (
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"authgate/gateway/identity/auth"
)

func TestDeviceOf(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"": "", chrome: chrome, "  curl/8.0 ": "curl/8.0", "a\tb\x00c\x7fd\u0085e": "abcde", "caf\xe9": "caf", "\xff": "",
		strings.Repeat("x", 300):                  strings.Repeat("x", maxUserAgent),
		strings.Repeat("x", maxUserAgent-1) + "é": strings.Repeat("x", maxUserAgent-1),
		"x" + strings.Repeat("é", maxUserAgent):   "x" + strings.Repeat("é", maxUserAgent/2-1),
		strings.Repeat("\x80", 300):               "",
	} {
		got := DeviceOf(&auth.Credentials{UserAgent: header}).UserAgent
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%.20q: got %q, want %q", header, got, want)
		}
	}
	for client, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "fe80::1%eth0": "fe80::1", "2001:db8::7": "2001:db8::7",
	} {
		if got := DeviceOf(&auth.Credentials{Client: netip.MustParseAddr(client)}).Client.String(); got != want {
			t.Errorf("%s: got %s, want %s", client, got, want)
		}
	}
	if got := DeviceOf(&auth.Credentials{}); got != (Device{}) {
		t.Errorf("without anything: got %+v", got)
	}
}
