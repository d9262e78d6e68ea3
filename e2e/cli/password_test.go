package cli

import (
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/people/password"
)

// costlyHash returns a hash as `authgate hash-password` makes it: it takes
// 19 MiB and some work to check.
func costlyHash(t testing.TB, plain string) string {
	t.Helper()
	return world.Must(password.New(plain))(t)
}

// isHashOf reports whether text is a hash of a password.
func isHashOf(text, plain string) bool {
	hash, err := password.Parse(text)
	return err == nil && hash.Verify(plain)
}
