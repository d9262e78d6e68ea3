package policy_test

import (
	"testing"

	"authgate/policy"
)

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.": false, "localhost.example": false, "128.0.0.1": false, "::2": false, "[::1]": false, "127.0.0.1.example": false,
	} {
		if got := policy.Loopback(host); got != want {
			t.Errorf("Loopback(%q) = %t", host, got)
		}
	}
}
