package factors

import "testing"

// gaps are what people type or paste between the groups of a code, and around it.
var gaps = []string{
	" ", "-", "\t", "\r\n", "\u00a0", "\u202f", "\u3000", "\u2028", "\u0085", "\u200b", "\u2060", "\ufeff", "\u00ad",
	"\u200e",
	"\u2010", "\u2011", "\u2013", " \u2014 ", "\u2212", "\u30fb", ".", "_", "\u200b-\u00a0", "",
}

// A code is read as it was shown, whatever people or programs put between its groups. No other letter or
// digit takes the place of one.
func TestTypedCode(t *testing.T) {
	t.Parallel()
	for _, gap := range gaps {
		if got := TypedCode(gap + "ab2" + gap + "CD9" + gap); got != "AB2CD9" {
			t.Errorf("%q: %q", gap, got)
		}
	}
	for typed, want := range map[string]string{
		"": "", "-": "", "ſ": "ſ", "\u212a": "\u212a", "１": "１", "a\x00b": "A\x00B", "1+2": "1+2", "\xff": "\ufffd",
	} {
		if got := TypedCode(typed); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
