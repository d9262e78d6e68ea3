package main

import (
	"testing"
	"unicode"
)

// What others chose, such as the name of a device, is printed so that a terminal shows it.
func TestPrintable(t *testing.T) {
	t.Parallel()
	for _, plain := range []string{"", "alice", "Zoë Ünal 東京", `Mozilla/5.0 (X11; "x") \`} {
		if got := printable(plain); got != plain {
			t.Errorf("%q is printed as %q", plain, got)
		}
	}
	for _, evil := range []string{
		"\n", "\r", "\t", "\x1b[2J", "\x00", "\x7f", "\u009b2J", "\u2028", "\u202e", "\u200b", "\ufeff",
	} {
		for _, c := range printable("alice " + evil + " x") {
			if !unicode.IsPrint(c) {
				t.Errorf("%q is printed with %U", evil, c)
			}
		}
	}
}
