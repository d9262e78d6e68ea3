package login

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/provider"
)

// rotatingServer is a provider, seen from the network, whose refresh tokens
// are good once: a second use ends everything, as RFC 9700, section 4.14.2,
// recommends. Its userinfo can be out of order.
type rotatingServer struct {
	mu       sync.Mutex
	refresh  string // the one token that is good; empty when everything has ended
	userinfo int    // status
	role     string // the one that the person has
}

// RoundTrip implements http.RoundTripper.
func (s *rotatingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/token":
		if s.refresh == "" || r.FormValue("refresh_token") != s.refresh {
			s.refresh = ""
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.WriteString(`{"error":"invalid_grant"}`)
			break
		}
		s.refresh = newSecretText()
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": newSecretText(), "token_type": "Bearer", "expires_in": 1200, "refresh_token": s.refresh})
	case "/userinfo":
		w.WriteHeader(s.userinfo)
		_ = json.NewEncoder(w).Encode(map[string]any{"sub": testPerson, "roles": []string{s.role}})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (s *rotatingServer) setUserinfo(status int, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.userinfo, s.role = status, role
}

// A provider that has rotated the refresh token and then fails to say who it
// is for is a provider that is down for the moment, which ends no login: the
// new refresh token is not lost with the answer of userinfo, and the roles are
// fresh soon after it is up again.
func TestUserinfoThatFailsInARenewalEndsNothing(t *testing.T) {
	t.Parallel()
	renewing(t, func(t *testing.T, d *delegation) {
		server := &rotatingServer{refresh: newSecretText(), userinfo: http.StatusOK, role: "auditor"}
		party := provider.New(provider.Options{
			Name: "keycloak", ClientID: "authgate", ClientSecret: "secret", RolesClaim: "roles", Trusted: server, Now: time.Now,
			Endpoints: provider.Endpoints{Authorization: "https://id.example.org/", Token: "https://id.example.org/token", Userinfo: "https://id.example.org/userinfo"},
		})
		t.Cleanup(party.Close)
		d = d.instance(func(o *UsersOptions) { o.Providers["keycloak"] = party })
		grant := d.grant("user")
		grant.Tokens.Refresh = server.refresh
		s := d.signIn(t, grant)

		renew := func(after time.Duration) {
			t.Helper()
			time.Sleep(after)
			if _, err := d.by(t, s); err != nil {
				t.Errorf("the login has ended: %v", err)
			}
			synctest.Wait()
		}
		renew(15 * time.Minute) // the control
		d.wantIn(t, s, "auditor")
		d.wantReported(t, s, false)
		server.setUserinfo(http.StatusServiceUnavailable, "")
		renew(15 * time.Minute)
		d.wantReported(t, s, false, provider.ErrFault)
		server.setUserinfo(http.StatusOK, "admin")
		renew(time.Minute)
		d.wantIn(t, s, "admin")
		for _, report := range d.reports.take() {
			t.Errorf("reported, ended %v: %v", report.ended, report.err)
		}
	})
}
