package policy

import (
	"cmp"
	"testing"
)

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]Place{
		"/":                                {"", "", "/"},
		"/wiki":                            {"", "", "/wiki"},
		"/wiki/":                           {"", "", "/wiki/"},
		"/wiki/{$}":                        {"", "", "/wiki/"},
		"/{page...}":                       {"", "", "/"},
		"GET Wiki.Example.org./a%20b/ü/":   {"GET", "wiki.example.org", "/a%20b/%C3%BC/"},
		"[2001:DB8::1]/{rest...}":          {"", "[2001:db8::1]", "/"},
		"POST example.org/x":               {"POST", "example.org", "/x"},
		"/a%3Fb":                           {"", "", "/a%3Fb"},
		"/{tenant}/wiki/":                  {"", "", ""},
		"example.org/files/{name}":         {"", "example.org", ""},
		"*.apps.example.org/":              {"", "*.apps.example.org", ""},
		"GET *.apps.example.org/{$}":       {"GET", "*.apps.example.org", ""},
		"example.org/{tenant}/{page...}":   {"", "example.org", ""},
		"example.org/a/{tenant}/{$}":       {"", "example.org", ""},
		"example.org/users/{id}/settings/": {"", "example.org", ""},
	} {
		if got, ok := PlaceOf(pattern); !ok || got != want {
			t.Errorf("%s: %+v, %t; want %+v", pattern, got, ok, want)
		}
		if want.Path != "" && !matchesPlace(t, pattern, want) {
			t.Errorf("%s does not match its place %+v", pattern, want)
		}
	}
	for _, pattern := range []string{"", "example.org", "/{", "CONNECT /", "/a/../b", "/{rest...}/x"} {
		if got, ok := PlaceOf(pattern); ok {
			t.Errorf("%q: %+v", pattern, got)
		}
	}
}

// matchesPlace reports whether a pattern matches the request of who opens a place.
func matchesPlace(t *testing.T, pattern string, place Place) bool {
	t.Helper()
	table, err := NewTable([]Route{{Pattern: pattern, Mechanisms: []Mechanism{None}}})
	if err != nil {
		t.Fatal(err)
	}
	path, err := ParseTarget(place.Path)
	if err != nil {
		t.Fatal(err)
	}
	_, ok := table.Match(&Request{
		Method: cmp.Or(place.Method, "GET"), Host: cmp.Or(place.Host, "other.example.org"), Path: path,
	})
	return ok
}
