package webdav

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Read finds every URL that names a resource, and SetHeader changes nothing else.
func TestNamed(t *testing.T) {
	t.Parallel()
	const lock = "<urn:uuid:1>"
	for _, c := range []struct {
		destination, conditions string
		urls                    []string
		want                    string // If
	}{
		{"https://h/a%2Fb", "", []string{"https://h/a%2Fb"}, ""},
		{"/b", "(" + lock + ")", []string{"/b"}, "(" + lock + ")"},
		{"", "<https://h/x> (" + lock + ")", []string{"https://h/x"}, "<http://up/p0> (" + lock + ")"},
		{"d", "</x>(" + lock + ` ["a(<]>"] Not [W/"b"])` + " (not <DAV:no-lock>) <y?z>\t([c])",
			[]string{"d", "/x", "y?z"},
			"<http://up/p1>(" + lock + ` ["a(<]>"] Not [W/"b"])` + " (not <DAV:no-lock>) <http://up/p2>\t([c])"},
		{"", "<>()", []string{""}, "<http://up/p0>()"},
		{"", "(" + lock + ") (Not" + lock + ")", nil, ""},
		{"", "", nil, ""},
	} {
		h := http.Header{}
		if c.destination != "" {
			h.Set("Destination", c.destination)
		}
		if c.conditions != "" {
			h.Set("If", c.conditions)
		}
		n, err := Read(h)
		if err != nil || (n == nil) != (c.urls == nil) {
			t.Errorf("%q: %+v, %v", h, n, err)
			continue
		}
		if n == nil {
			continue
		}
		for i := range n.URLs {
			n.Paths = append(n.Paths, "/p"+string(rune('0'+i)))
		}
		n.SetHeader(h, "http://up")
		if !slices.Equal(n.URLs, c.urls) || h.Get("If") != c.want ||
			c.destination != "" && h.Get("Destination") != "http://up/p0" {
			t.Errorf("%q %q: %q, then %q", c.destination, c.conditions, n.URLs, h)
		}
	}
}

// What is dropped stays as it was.
func TestDrop(t *testing.T) {
	t.Parallel()
	for dropped, want := range map[string]string{
		"Destination": "/a <http://up/c> ([x])", "If": "http://up/b </c> ([x])", "": "http://up/b <http://up/c> ([x])",
	} {
		h := http.Header{"Destination": {"/a"}, "If": {"</c> ([x])"}}
		n, err := Read(h)
		if err != nil {
			t.Fatal(err)
		}
		n.Paths = []string{"/b", "/c"}
		n.Drop(func(name string) bool { return name == dropped })
		n.SetHeader(h, "http://up")
		if got := h.Get("Destination") + " " + h.Get("If"); got != want {
			t.Errorf("without %s: %s, want %s", dropped, got, want)
		}
	}
}

// What another program could read otherwise is refused.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{
		"Destination: ", "Destination: /a|Destination: /a", "If: (<a>)|If: (<a>)",
		"If: ", "If: x", "If: <https://h/x", "If: <https://h/x>",
		"If: (<a>", "If: (<a>))", "If: ((<a>))", "If: (<a)", "If: ([\"a])", "If: ([\"a\"b])", "If: ([a)", "If: (a)",
		"If: (<a>), <b> (<c>)", "If: [\"a\"]", "If: (No <a>)", "If: \"(<a>)\"",
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(lines, "|") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		if n, err := Read(h); err == nil {
			t.Errorf("%q: %+v", h, n)
		}
	}
}

// What is taken apart is put together again byte for byte, and what is sent names what was
// decided on, and nothing else.
func FuzzNamed(f *testing.F) {
	for _, seed := range []string{
		"</x> (<a:b>)", "(<a:b> [\"e\"]) (Not <c:d>)", "<https://h/x>([W/\"a>\"]) <y> ()",
		"<<>()", "<a>><b>()", "(<>)", "([\"]\"])",
	} {
		f.Add("/d", seed)
		f.Add("", seed)
	}
	f.Fuzz(func(t *testing.T, destination, conditions string) {
		h := http.Header{"If": {conditions}}
		if destination != "" {
			h["Destination"] = []string{destination}
		}
		n, err := Read(h)
		if err != nil || n == nil {
			return
		}
		n.Paths = n.URLs
		n.SetHeader(h, "")
		if h.Get("If") != conditions || h.Get("Destination") != destination {
			t.Fatalf("%q and %q are put together as %q", destination, conditions, h)
		}
		n.Paths = slices.Repeat([]string{"/p"}, len(n.URLs))
		n.SetHeader(h, "http://up")
		again, err := Read(h)
		if err != nil || len(again.URLs) != len(n.URLs) {
			t.Fatalf("%q: sent as %q, which names %+v: %v", conditions, h, again, err)
		}
		for _, url := range again.URLs {
			if url != "http://up/p" {
				t.Errorf("%q: sent as %q, which names %q", conditions, h, url)
			}
		}
	})
}
