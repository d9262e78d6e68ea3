package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/upstream"
)

func TestHandler(t *testing.T) {
	alice := http.Header{
		"X-Auth-User": {"alice"}, "X-Auth-Subject": {"local:alice"}, "X-Auth-Name": {"Alice Example"},
		"X-Auth-Email": {"alice@example.org"}, "X-Auth-Roles": {"user, admin"},
		"X-Auth-Mechanism": {"session"}, "X-Auth-Provider": {"local"},
	}
	const (
		secret   = `{"message":"This is the secret resource."}` + "\n"
		notFound = `{"detail":"There is no such resource."}` + "\n"
		stranger = `"user":"","subject":"","name":"","email":"","roles":[],"mechanism":"","provider":""}` + "\n"
		isAlice  = `"user":"alice","subject":"local:alice","name":"Alice Example","email":"alice@example.org",` +
			`"roles":["user","admin"],"mechanism":"session","provider":"local"}` + "\n"
	)
	for _, tt := range []struct {
		method, path string
		header       http.Header
		status       int
		body         string
	}{
		{"GET", "/secret-resource?a=b", alice, 200, secret},
		{"GET", "/secure-resource", alice, 200, `{"message":"This is for signed-in users.",` + isAlice},
		{"GET", "/admin-resource", http.Header{"X-Auth-Roles": {" ,,"}}, 200,
			`{"message":"This is for administrators.",` + stranger},
		{"GET", "/secret-resource/more", alice, 404, notFound},
		{"POST", "/secret-resource", alice, 404, notFound},
	} {
		r, w := httptest.NewRequest(tt.method, tt.path, http.NoBody), httptest.NewRecorder()
		r.Header = tt.header
		upstream.Handler().ServeHTTP(w, r)
		if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s with %v: %d %s %s, want %d %s",
				tt.method, tt.path, tt.header, w.Code, w.Header().Get("Content-Type"), w.Body, tt.status, tt.body)
		}
	}
}

// A browser gets the same resources as pages, and a front page. What a header says is
// text.
func TestPages(t *testing.T) {
	const chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
	forged := http.Header{
		"X-Auth-User": {"<script>alert(1)</script>"}, "X-Auth-Roles": {"user,admin"}, "X-Forwarded-Host": {"gw.example:8443"},
	}
	for _, tt := range []struct {
		method, path, accept string
		status               int
		part                 string // empty: JSON
	}{
		{"GET", "/", chromium, 200, "curl --cacert data/ca.pem -u service:s3rvice https://gw.example:8443/secret-resource"},
		{"GET", "/secret-resource", chromium, 200, "This is the secret resource."},
		{"GET", "/secure-resource", chromium, 200, "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>"},
		{"GET", "/admin-resource", "text/html", 200, "<td>user, admin</td>"},
		{"GET", "/nothing", chromium, 404, "There is no such resource."},
		{"POST", "/", chromium, 404, "There is no such resource."},
		{"GET", "/", "*/*", 404, ""},
		{"GET", "/secure-resource", "*/*", 200, ""},
		{"GET", "/secure-resource", "application/json, text/html", 200, ""},
	} {
		r, w := httptest.NewRequest(tt.method, tt.path, http.NoBody), httptest.NewRecorder()
		r.Header = forged.Clone()
		r.Header.Set("Accept", tt.accept)
		upstream.Handler().ServeHTTP(w, r)
		media, body := w.Header().Get("Content-Type"), w.Body.String()
		isPage := media == "text/html; charset=utf-8" && strings.Contains(body, tt.part) &&
			!strings.Contains(body, "<script") &&
			strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")
		if w.Code != tt.status || w.Header().Get("Vary") != "Accept" && tt.status == 200 ||
			tt.part != "" && !isPage || tt.part == "" && media != "application/json" {
			t.Errorf("%s %s for %s: %d %v %s", tt.method, tt.path, tt.accept, w.Code, w.Header(), body)
		}
	}
	r, w := httptest.NewRequest("GET", "/", http.NoBody), httptest.NewRecorder()
	r.Header = http.Header{"Accept": {chromium}, "X-Forwarded-Host": {"x; rm -rf"}}
	upstream.Handler().ServeHTTP(w, r)
	if body := w.Body.String(); strings.Contains(body, "rm -rf") ||
		!strings.Contains(body, "https://localhost:8443/login") {
		t.Errorf("the front page takes over what is no host: %s", body)
	}
}
