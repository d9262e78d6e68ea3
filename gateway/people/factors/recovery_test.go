package factors

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func withCodes() (Set, []string) {
	return Set{TOTP: &TOTP{}}.WithRecoveryCodes("alice")
}

// TestRecoveryCodes checks the form of new codes, and that none comes twice.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[2-9A-HJ-KMNP-TV-Z]{4}(-[2-9A-HJ-KMNP-TV-Z]{4}){3}$`)
	seen, symbols := map[string]bool{}, map[rune]bool{}
	for range 100 {
		set, codes := withCodes()
		if len(codes) != 10 || len(set.Recovery) != 10 {
			t.Fatalf("got %d codes and %d hashes, want 10", len(codes), len(set.Recovery))
		}
		for i, code := range codes {
			if !form.MatchString(code) || seen[code] || strings.Contains(strings.Join(set.Recovery, " "), code) {
				t.Errorf("got %q, twice, in another form, or not hashed", code)
			}
			if !isHash(set.Recovery[i]) || slices.Contains(set.Recovery[:i], set.Recovery[i]) {
				t.Errorf("got the hash %q", set.Recovery[i])
			}
			seen[code] = true
			for _, symbol := range code {
				symbols[symbol] = true
			}
		}
	}
	if len(symbols) != len(recoverySymbols)+1 {
		t.Errorf("a thousand codes have only %d symbols", len(symbols))
	}
}

// TestSpend checks that each code counts once, as it is typed, and takes no other with it.
func TestSpend(t *testing.T) {
	t.Parallel()
	full, codes := withCodes()
	set := full
	for i, code := range codes {
		plain := strings.ReplaceAll(code, "-", "")
		typed := []string{code, plain, strings.ToLower(code), " " + strings.ReplaceAll(code, "-", " ") + " ",
			strings.ToLower(plain[:3]) + "-" + plain[3:], strings.ReplaceAll(code, "-",
				gaps[i%len(gaps)]) + gaps[i%len(gaps)]}[i%6]
		rest, ok := set.Spend("alice", typed)
		if !ok || len(rest.Recovery) != 9-i || rest.TOTP == nil {
			t.Fatalf("%q: got %v and %d codes left", typed, ok, len(rest.Recovery))
		}
		if again, ok := rest.Spend("alice", code); ok || len(again.Recovery) != 9-i {
			t.Errorf("%q counts twice", code)
		}
		set = rest
	}
	if len(full.Recovery) != 10 {
		t.Error("the set itself has changed")
	}
}

// TestSpendRefused checks what is no code of the set.
func TestSpendRefused(t *testing.T) {
	t.Parallel()
	set, codes := withCodes()
	for !strings.Contains(codes[0], "S") {
		set, codes = withCodes()
	}
	for name, typed := range map[string]string{
		"empty": "", "dashes": "----", "a TOTP code": "123456", "shorter": codes[0][:18], "longer": codes[0] + "2",
		"another": "2222-2222-2222-2222", "its hash": set.Recovery[0], "a plus": codes[0] + "+",
		"a folded symbol": strings.Replace(codes[0], "S", "ſ", 1),
		"long":            codes[0] + strings.Repeat("-", maxTyped),
	} {
		if rest, ok := set.Spend("alice", typed); ok || len(rest.Recovery) != 10 {
			t.Errorf("%s: %q counts", name, typed)
		}
	}
	if _, ok := set.Spend("bob", codes[0]); ok {
		t.Error("a hash that was copied to another account counts")
	}
	alone := Set{Recovery: set.Recovery}
	if _, ok := alone.Spend("alice", codes[0]); ok {
		t.Error("a code counts without a factor that it could stand for")
	}
}

var unseen = regexp.MustCompile(`[\s\v\x{85}\p{Z}\p{P}\p{Cf}−]`)

// FuzzSpend checks that a text counts only if it is a code of the set, up to case, punctuation
// and what is not seen, and that it takes one code.
func FuzzSpend(f *testing.F) {
	set, codes := withCodes()
	f.Add(codes[0], "", 0)
	f.Add("----", " -", 3)
	f.Add("2222-2222-2222-2222", "\u212a", 99)
	f.Fuzz(func(t *testing.T, typed, noise string, at int) {
		at = int(uint(at) % uint(len(codes[0])))
		for _, typed := range []string{typed, codes[1][:at] + noise + codes[1][at:]} {
			rest, ok := set.Spend("alice", typed)
			plain := strings.ToUpper(unseen.ReplaceAllString(typed, ""))
			is := !strings.Contains(typed, "ſ") && // which ToUpper makes an S of
				slices.ContainsFunc(codes, func(c string) bool { return strings.ReplaceAll(c, "-", "") == plain })
			if ok && (!is || len(rest.Recovery) != 9) || !ok && len(rest.Recovery) != 10 {
				t.Fatalf("%q: got %v with %d codes left", typed, ok, len(rest.Recovery))
			}
			if is && len(typed) <= maxTyped && !ok {
				t.Fatalf("%q is refused", typed)
			}
		}
	})
}
