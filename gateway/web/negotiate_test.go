package web

import "testing"

func TestNegotiate(t *testing.T) {
	t.Parallel()
	const j, p, h = TypeJSON, TypeProblem, TypeHTML
	for _, c := range []struct{ accept, want string }{
		{"", j},
		{"*/*", j}, // curl
		{"*", j},
		{"application/json", j},
		{"application/problem+json", p},
		{"text/html", h},
		{"TEXT/HTML", h},
		{"Application/Problem+JSON", p},
		{"text/html;charset=utf-8", h},
		{"text/html ; level=1 ; q=0.7", h},
		{"text/*", h},
		{"application/*", j},
		{"text/plain", j},
		{"image/png", j},
		// Design B.2: problem+json where it is named, at any place.
		{"application/json, application/problem+json", p},
		{"application/problem+json, application/json", p},
		{"application/json, application/problem+json;q=0.5", p},
		{"application/problem+json, */*;q=0.1", p},
		{"*/*, application/problem+json", p},
		{"application/problem+json;q=0, application/json", j},
		{"application/problem+json;q=0.5, text/html", h}, // prefers the page
		// HTML where it is preferred.
		{"text/html, application/json;q=0.9", h},
		{"application/json;q=0.9, text/html", h},
		{"application/json, text/html;q=0.9", j},
		{"text/html;q=0.5, */*", j},
		{"text/html;q=0.5, */*;q=0.1", h},
		{"text/html;q=0.1, application/json;q=0.2", j},
		{"application/json;q=0.1, text/html;q=0.2", h},
		{"text/html;q=0.9, application/*", j},
		{"text/html, */*", h},
		{"text/html;q=0", j},
		{"text/html;q=0.0, */*", j},
		{"text/*;q=0.5, text/html;q=0, application/json;q=0.1", j},
		{"text/html, application/json", j}, // no preference
		{"application/json, text/html", j},
		// Browsers that load a page: Firefox, Chrome, Safari, an old Edge.
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", h},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7", h},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", h},
		{"text/html, application/xhtml+xml, image/jxr, */*", h},
		// Browsers that load something else, and scripts.
		{"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", j},
		{"text/css,*/*;q=0.1", j},
		{"application/json, text/plain, */*", j},
		{"application/json, text/javascript, */*; q=0.01", j},
		// Garbage is never a page.
		{",", j}, {";", j}, {"/", j}, {"html", j}, {"text/", j}, {"/html", j}, {"text/html/x", j}, {";q=1", j},
		{"text/html;q=x", j}, {"text/html;q=-1", j}, {"text/html;q=NaN", j}, {"\x00", j}, {"text/html\x00", j},
	} {
		r := request("/")
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		if got := Negotiate(r); got != c.want {
			t.Errorf("Accept: %s: %s, want %s", c.accept, got, c.want)
		}
	}
}

// A list may be cut over several lines (RFC 9110, section 5.3).
func TestNegotiateLines(t *testing.T) {
	t.Parallel()
	r := request("/", "Accept: application/json;q=0.5", "Accept: text/html")
	if got := Negotiate(r); got != TypeHTML {
		t.Errorf("got %s, want %s", got, TypeHTML)
	}
}
