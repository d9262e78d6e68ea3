package apitokens

import (
	"testing"

	"authgate/internal/test/storetest"
)

// What a version has stored means the same to this one. Never change what a version stored:
// after an upgrade it is there; see recordsOfVersions in package login.
func TestTokensOfEarlierVersions(t *testing.T) {
	t.Parallel()
	storetest.WantKept(t, &tokenRecord{}, `{"id":"I","name":"git","user":"alice","version":"V",`+
		`"since":"2026-11-01T00:00:00Z","roles":["staff"],"created":"2026-11-23T04:00:00Z",`+
		`"expires":"2027-11-23T04:00:00Z","last_used":"2026-11-23T04:01:00Z"}`)
	storetest.WantKept(t, &entry{}, `{"id":"I","key":"api:K","expires":"2027-11-23T04:00:00Z"}`)
	storetest.WantNames(t, tokenRecord{}, entry{})
}
