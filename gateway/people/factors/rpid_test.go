package factors

import "testing"

// TestCheckRPID checks which RP IDs a host can have.
func TestCheckRPID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, host string
		valid    bool
	}{
		{"auth.example.org", "auth.example.org", true},
		{"example.org", "auth.example.org", true},
		{"example.org", "a.b.example.org", true},
		{"localhost", "localhost", true},
		{"gateway", "gateway", true}, // a name in a network of one's own
		{"corp.internal", "auth.corp.internal", true},
		{"example.co.uk", "auth.example.co.uk", true},
		{"alice.github.io", "alice.github.io", true},
		{"xn--bcher-kva.example", "auth.xn--bcher-kva.example", true},
		{"org", "auth.example.org", false},
		{"co.uk", "example.co.uk", false},
		{"github.io", "alice.github.io", false},
		{"internal", "auth.internal", false},
		{"localhost", "auth.localhost", false},
		{"ample.org", "example.org", false},
		{"auth.example.org", "example.org", false},
		{"other.example.org", "auth.example.org", false},
		{"Example.org", "auth.example.org", false},
		{"Auth.example.org", "Auth.example.org", false},
		{"", "auth.example.org", false},
		{"", "", false},
		{".example.org", "auth.example.org", false},
		{"example.org.", "auth.example.org.", false},
		{"example.org:8443", "example.org:8443", false},
		{"https://example.org", "https://example.org", false},
		{"bücher.example", "bücher.example", false},
		{"127.0.0.1", "127.0.0.1", false},
		{"0.0.1", "127.0.0.1", false},
		{"1", "127.0.0.1", false},
		{"::1", "::1", false},
		{"[::1]", "[::1]", false},
		{"a b", "a b", false},
	} {
		if err := CheckRPID(c.id, c.host); (err == nil) != c.valid {
			t.Errorf("%q at %q: got %v", c.id, c.host, err)
		}
	}
}

// TestNewRelyingParty checks which origins a relying party can have.
func TestNewRelyingParty(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"https://auth.example.org":      true,
		"https://auth.example.org:8443": true,
		"https://auth.example.org:443":  false,
		"https://auth.example.org/":     false,
		"https://auth.example.org?":     false,
		"https://u@auth.example.org":    false,
		"https://Auth.example.org":      false,
		"http://auth.example.org":       false,
		"https://":                      false,
		"auth.example.org":              false,
		"https://other.test":            false,
		"https://[::1]:8443":            false,
		"":                              false,
	} {
		if _, err := NewRelyingParty("example.org", "", origin); (err == nil) != valid {
			t.Errorf("%q: got %v", origin, err)
		}
	}
}
