package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/upstream"
)

func TestHandler(t *testing.T) {
	alice := http.Header{
		"X-Auth-User": {"alice"}, "X-Auth-Subject": {"local:alice"}, "X-Auth-Name": {"Alice Example"}, "X-Auth-Email": {"alice@example.org"},
		"X-Auth-Roles": {"user, admin"}, "X-Auth-Mechanism": {"session"}, "X-Auth-Provider": {"local"},
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
		{"GET", "/admin-resource", http.Header{"X-Auth-Roles": {" ,,"}}, 200, `{"message":"This is for administrators.",` + stranger},
		{"GET", "/secret-resource/more", alice, 404, notFound},
		{"POST", "/secret-resource", alice, 404, notFound},
	} {
		r, w := httptest.NewRequest(tt.method, tt.path, http.NoBody), httptest.NewRecorder()
		r.Header = tt.header
		upstream.Handler().ServeHTTP(w, r)
		if w.Code != tt.status || w.Body.String() != tt.body || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s with %v: %d %s %s, want %d %s", tt.method, tt.path, tt.header, w.Code, w.Header().Get("Content-Type"), w.Body, tt.status, tt.body)
		}
	}
}
