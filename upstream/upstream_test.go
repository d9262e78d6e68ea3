package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/upstream"

	"github.com/google/go-cmp/cmp"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	alice := map[string]string{
		"X-Auth-User":      "alice",
		"X-Auth-Subject":   "local:alice",
		"X-Auth-Name":      "Alice Example",
		"X-Auth-Email":     "alice@example.org",
		"X-Auth-Roles":     "user, admin",
		"X-Auth-Mechanism": "session",
		"X-Auth-Provider":  "local",
	}
	const (
		secret   = `{"message":"This is the secret resource."}` + "\n"
		notFound = `{"detail":"There is no such resource."}` + "\n"
		nobody   = `"user":"","subject":"","name":"","email":"","roles":[],"mechanism":"","provider":""}` + "\n"
		isAlice  = `"user":"alice","subject":"local:alice","name":"Alice Example","email":"alice@example.org",` +
			`"roles":["user","admin"],"mechanism":"session","provider":"local"}` + "\n"
		secure = `{"message":"This is for whoever is signed in.",`
		admin  = `{"message":"This is for administrators.",`
	)
	tests := []struct {
		name, method, path string
		header             map[string]string
		status             int
		body               string
	}{
		{"secret", "GET", "/secret-resource", nil, 200, secret},
		{"secret tells nobody's name", "GET", "/secret-resource", alice, 200, secret},
		{"secure", "GET", "/secure-resource", alice, 200, secure + isAlice},
		{"admin", "GET", "/admin-resource", alice, 200, admin + isAlice},
		{"no identity", "GET", "/secure-resource", nil, 200, secure + nobody},
		{"roles of nothing", "GET", "/admin-resource", map[string]string{"X-Auth-Roles": " ,,"}, 200, admin + nobody},
		{"query", "GET", "/secret-resource?a=b", nil, 200, secret},
		{"root", "GET", "/", nil, 404, notFound},
		{"unknown", "GET", "/secret-resource/more", alice, 404, notFound},
		{"other method", "POST", "/secret-resource", alice, 404, notFound},
	}
	handler := upstream.Handler()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, tt.path, http.NoBody)
			for key, value := range tt.header {
				r.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q, want application/json", got)
			}
			if diff := cmp.Diff(tt.body, w.Body.String()); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}
