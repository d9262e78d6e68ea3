package grants

import (
	"encoding/base64"
	"strings"
	"testing"
)

// Codes and tokens are recognized in any text, whether or not they are valid.
func TestContainsOwn(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{codeMark, refreshMark, deviceMark} {
		own := newSecret(mark).String()
		if len(own) != length || length != 72 {
			t.Errorf("%q has %d characters", own, len(own))
		}
		for text, want := range map[string]bool{
			own: true, "Bearer " + own: true, own + "B": true, "agc_" + own: true, "_" + own: true, "a:" + own + "@x": true,
			own + own: true, strings.Repeat("agr_", 100) + own: true,

			"": false, mark: false, own[1:]: false, own[:len(own)-1]: false, own[:len(own)-1] + "!": false,
			strings.ToLower(own): false,
			"agx_" + own[4:]:     false, other(mark) + own[4:]: false, strings.Repeat(mark, 16<<10): false,
			base64.StdEncoding.EncodeToString([]byte(own)): false, // the caller decodes
		} {
			if got := ContainsOwn(text); got != want {
				t.Errorf("%.90q: %t, want %t", text, got, want)
			}
		}
	}
}

// other returns another mark than that one.
func other(mark string) string {
	if mark == codeMark {
		return refreshMark
	}
	return codeMark
}

// FuzzContainsOwn checks that a code is found in any text, and that nothing panics.
func FuzzContainsOwn(f *testing.F) {
	f.Add("Bearer ", "")
	f.Add("agc", "_agd_")
	f.Add("agr_AGR_", "agr_")
	f.Fuzz(func(t *testing.T, before, after string) {
		ContainsOwn(before + after)
		for _, mark := range []string{codeMark, refreshMark, deviceMark} {
			own := newSecret(mark).String()
			if !ContainsOwn(before + own + after) {
				t.Errorf("%q is not found between %q and %q", own, before, after)
			}
		}
	})
}

// FuzzUserCode checks that user codes are those that were made, in any spelling that people use.
func FuzzUserCode(f *testing.F) {
	f.Add("bcdf-ghjk")
	f.Add(" B C D F G H J K ")
	f.Add("BCDFGHJA")
	f.Add("ſcdfghjk")
	f.Fuzz(func(t *testing.T, typed string) {
		key, ok := userCodeKey(typed)
		letters := strings.ToUpper(strings.NewReplacer("-", "", " ", "", "\t", "").Replace(typed))
		want := len(letters) == 8 && strings.Trim(letters, userLetters) == ""
		if ok && !want || ok != (key != "") {
			t.Errorf("%q: %q, %t", typed, key, ok)
		}
		if again, _ := userCodeKey(letters); ok && again != key {
			t.Errorf("%q and %q differ", typed, letters)
		}
	})
}
