package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// untyped is an application that names the type of a response only if it is asked to, and
// writes what looks like a page.
func untyped(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = nil // else net/http guesses one
	if named, ok := r.URL.Query()["type"]; ok {
		w.Header()["Content-Type"] = named
	}
	io.WriteString(w, "<html>a page, or data of a user")
	if r.URL.Query().Has("long") {
		http.NewResponseController(w).Flush()
		w.Write(make([]byte, 100_000))
	}
}

// A response without Content-Type reaches the client without one: the gateway guesses
// none, over HTTP/1.1 and HTTP/2 and on both ways to the upstream.
func TestNoContentTypeIsInvented(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := edit(t, baseConfig, `{url: "http://app.invalid"}`, `{url: "http://app.invalid", fast_path: `+fast+`}`)
		r := newNetworkRig(t, yaml, untyped)
		for _, http2 := range []bool{false, true} {
			front := httptest.NewUnstartedServer(r.Gateway)
			front.EnableHTTP2 = http2
			front.StartTLS()
			t.Cleanup(front.Close)
			for target, want := range map[string][]string{
				"/public/": nil, "/public/?long": nil, "/public/?type=": {""},
				"/public/?type=text/x&long": {"text/x"}, "/public/?type=text/x": {"text/x"},
			} {
				for _, method := range []string{"GET", "HEAD", "POST", "GET"} { // the last one may find an idle connection
					q, err := http.NewRequestWithContext(t.Context(), method, front.URL+target, nil)
					if err != nil {
						t.Fatal(err)
					}
					q.Host = "gw.example"
					answer, err := front.Client().Do(q)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil {
						t.Fatal(err)
					}
					answer.Body.Close()
					got, ok := answer.Header["Content-Type"]
					if answer.StatusCode != 200 || !slices.Equal(got, want) || ok != (want != nil) ||
						(answer.ProtoMajor == 2) != http2 {
						t.Errorf("fast path %s, %s, %s %s: %d, Content-Type %q, want %q",
							fast, answer.Proto, method, target, answer.StatusCode, got, want)
					}
				}
			}
		}
	}
}

// Pragma says nothing about shared caches, so the response is private all the same, on
// both ways and whatever the length of the header. What the application says itself stays.
func TestPragmaSaysNothing(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		yaml := edit(t, baseConfig, `{url: "http://app.invalid"}`, `{url: "http://app.invalid", fast_path: `+fast+`}`)
		r := newNetworkRig(t, yaml, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Pragma", "no-cache")
			if own := r.URL.Query().Get("own"); own != "" {
				w.Header().Set("Cache-Control", own)
			}
			w.Header().Set("X-Long", strings.Repeat("x", len(r.URL.Query().Get("long"))))
		})
		alice := r.login(aliceIn)
		for target, want := range map[string]string{
			"/session/": "private", "/session/?long=" + strings.Repeat("x", 3000): "private", "/public/": "",
			"/session/?own=no-cache": "no-cache", "/session/?own=no-cache&long=" + strings.Repeat("x", 3000): "no-cache",
			"/session/?own=public": "public",
		} {
			for range 2 { // the second one may find an idle connection
				w := r.do("GET", target, "", alice.cookie)
				if got := w.Header().Get("Cache-Control"); w.Code != 200 || got != want || w.Header().Get("Pragma") != "no-cache" {
					t.Errorf("fast path %s, %.40s: %d, Cache-Control %q, want %q", fast, target, w.Code, got, want)
				}
			}
		}
	}
}
