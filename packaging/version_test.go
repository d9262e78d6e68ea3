package main

import (
	"testing"
	"time"
)

func TestFileVersion(t *testing.T) {
	t.Parallel()
	committed := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	for described, want := range map[string]string{
		"v1.2.3":                            "1.2.3",
		"v1.2.3-dirty":                      "1.2.3+dirty",
		"v1.2.3-5-g8396dcb01234":            "1.2.3+5.g8396dcb01234",
		"v1.3.0-rc.1":                       "1.3.0~rc.1",
		"v1.3.0-rc.1-5-g8396dcb01234-dirty": "1.3.0~rc.1+5.g8396dcb01234.dirty",
		"8396dcb01234":                      "0.0~git20261123.8396dcb01234",
		"8396dcb01234-dirty":                "0.0~git20261123.8396dcb01234+dirty",
	} {
		if got, err := fileVersion(described, committed); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", described, got, err, want)
		}
	}
	for _, described := range []string{"", "devel", "v1.2", "p-docs", "v1.2.3_4", "v1.2.3-a b"} {
		if got, err := fileVersion(described, committed); err == nil {
			t.Errorf("%q is the version %q, want an error", described, got)
		}
	}
}
