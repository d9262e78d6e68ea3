package web

import "testing"

func TestNegotiate(t *testing.T) {
	t.Parallel()
	for want, accepts := range map[string][]string{
		TypeJSON: {
			"*/*", "*", "application/json", "application/*", "text/plain", "image/png",
			"application/problem+json;q=0, application/json",
			// A page is not preferred.
			"application/json, text/html;q=0.9", "text/html;q=0.5, */*", "text/html;q=0.1, application/json;q=0.2", "text/html;q=0.9, application/*",
			"text/html;q=0", "text/html;q=0.0, */*", "text/*;q=0.5, text/html;q=0, application/json;q=0.1", "text/html, application/json", "application/json, text/html",
			// Browsers that load something else than a page, and scripts.
			"image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8", "text/css,*/*;q=0.1",
			"application/json, text/plain, */*", "application/json, text/javascript, */*; q=0.01",
			// Garbage is never a page.
			",", ";", "/", "html", "text/", "/html", "text/html/x", ";q=1", "text/html;q=x", "text/html;q=-1", "text/html;q=NaN", "\x00", "text/html\x00",
		},
		TypeProblem: { // where it is named, at any place (design B.2)
			"application/problem+json", "Application/Problem+JSON", "application/json, application/problem+json",
			"application/problem+json, application/json", "application/json, application/problem+json;q=0.5",
			"application/problem+json, */*;q=0.1", "*/*, application/problem+json",
		},
		TypeHTML: {
			"text/html", "TEXT/HTML", "text/html;charset=utf-8", "text/html ; level=1 ; q=0.7", "text/*", "application/problem+json;q=0.5, text/html",
			"text/html, application/json;q=0.9", "application/json;q=0.9, text/html", "text/html;q=0.5, */*;q=0.1",
			"application/json;q=0.1, text/html;q=0.2", "text/html, */*",
			// Browsers that load a page: Firefox, Chrome, an old Edge.
			"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
			"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
			"text/html, application/xhtml+xml, image/jxr, */*",
		},
	} {
		for _, accept := range accepts {
			if got := Negotiate(request("/", "Accept: "+accept)); got != want {
				t.Errorf("Accept: %s: %s, want %s", accept, got, want)
			}
		}
	}
	if got := Negotiate(request("/")); got != TypeJSON {
		t.Errorf("without Accept: %s", got)
	}
	// A list may be cut over several lines (RFC 9110, section 5.3).
	if got := Negotiate(request("/", "Accept: application/json;q=0.5", "Accept: text/html")); got != TypeHTML {
		t.Errorf("over two lines: %s, want %s", got, TypeHTML)
	}
}
