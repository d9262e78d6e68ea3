package headername

import (
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/internal/test/headernametest"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"X-Auth-User": "X-Auth-User", "x-auth-user": "X-Auth-User", "X_AUTH.USER": "X-Auth-User", "_x": "-X", "": "",
		"X--Auth": "X--Auth", // no known server makes one of two
	} {
		if got := Fold(name); got != want {
			t.Errorf("%q folds to %q, want %q", name, got, want)
		}
	}
	for _, name := range headernametest.Spellings("X-Auth-User") {
		if got := Fold(name); got != "X-Auth-User" {
			t.Errorf("%q folds to %q", name, got)
		}
	}
}

// The tables are looked up by folded names, so their own names must be folded.
func TestNamesAreFolded(t *testing.T) {
	t.Parallel()
	for name, class := range exact {
		if Fold(name) != name || Of(name) != class {
			t.Errorf("%q of class %d folds to %q of class %d", name, class, Fold(name), Of(name))
		}
	}
	for i, f := range families {
		if Fold(f.prefix) != f.prefix {
			t.Errorf("%q folds to %q", f.prefix, Fold(f.prefix))
		}
		if got := Of(f.prefix + "Qqq"); got != f.class {
			t.Errorf("a name that begins with %q is of class %d, want %d: one before it in the list hides it",
				f.prefix, got, families[i].class)
		}
	}
}

// Headers of HTTP are looked up by folded names, and are none that a product trusts for an
// identity.
func TestOfHTTP(t *testing.T) {
	t.Parallel()
	for _, name := range append(append([]string{}, ofHTTP...), familiesOfHTTP...) {
		if Fold(name) != name || !OfHTTP(name) {
			t.Errorf("%q folds to %q", name, Fold(name))
		}
	}
	for name, class := range exact {
		switch of := OfHTTP(name); {
		case class == Framed && !of:
			t.Errorf("%q frames messages, and could contain an identity", name)
		case class == Identity && of:
			t.Errorf("%q is of HTTP, and a product trusts it", name)
		}
	}
	for _, name := range []string{"X-Auth-User", "Remote-User", "X-Real-Ip", "Acceptance", "Security-Level"} {
		if OfHTTP(name) {
			t.Errorf("%q is of HTTP", name)
		}
	}
}

// Folding is what CGI does to names, and the filter passes over nothing that
// matters.
func FuzzFold(f *testing.F) {
	for name := range exact {
		f.Add(name)
		f.Add(strings.ToLower(strings.ReplaceAll(name, "-", "!")))
	}
	for _, family := range families {
		f.Add(family.prefix + "x")
		f.Add(strings.ReplaceAll(family.prefix, "-", "_") + strings.Repeat("x", 70))
	}
	const configured = "q.Own_Name"
	filter := NewFilter(configured)
	f.Fuzz(func(t *testing.T, name string) {
		if !httpguts.ValidHeaderFieldName(name) {
			return
		}
		folded := Fold(name)
		if headernametest.CGI(folded) != headernametest.CGI(name) || Fold(folded) != folded ||
			http.CanonicalHeaderKey(folded) != folded {
			t.Errorf("%q folds to %q", name, folded)
		}
		if !filter.Finds(name) && (Of(folded) != Free || folded == Fold(configured)) {
			t.Errorf("the filter passes over %q, which is of class %d", name, Of(folded))
		}
	})
}
