package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// Of a hundred clients of one login, those that answer are told of its end while the first
// client does not answer and the second cannot be reached. The log of the test has the time.
func TestLogoutTellsAll(t *testing.T) {
	t.Parallel()
	const many = 100
	told, held := make(chan string, many), make(chan struct{})
	answers := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/c0" {
			<-held
			return
		}
		audience, _ := claimsOf(t, r.FormValue("logout_token"))["aud"].(string)
		told <- audience + r.URL.Path
	}))
	defer answers.Close()
	defer close(held)

	yaml := strings.Builder{}
	for i := range many {
		home := answers.URL
		if i == 1 {
			home = "http://127.0.0.1:1"
		}
		fmt.Fprintf(&yaml, "    - {id: c%d, consent: skip, redirect_uris: ['https://c%d.example.net/cb'], "+
			"backchannel_logout_uri: '%s/c%d'}\n", i, i, home, i)
	}
	s := newServer(t, configuration+yaml.String())
	for i := range many {
		name := fmt.Sprintf("c%d", i)
		redirect := "https://" + name + ".example.net/cb"
		code := s.code(t, ask("client_id", name, "redirect_uri", redirect))
		if s.post(t, 200, "/oauth/token", redemption(code, "client_id", name, "redirect_uri", redirect)).ID == "" {
			t.Fatalf("%s gets no ID token", name)
		}
	}

	s.Want(200, "POST", "/logout", "", s.cookie)
	since, left := time.Now(), map[string]bool{}
	for i := 2; i < many; i++ {
		left[fmt.Sprintf("c%d/c%d", i, i)] = true
	}
	for len(left) > 0 {
		select {
		case one := <-told:
			if !left[one] {
				t.Errorf("%s is told once more, or for another", one)
			}
			delete(left, one)
		case <-time.After(time.Minute):
			t.Fatalf("%d clients are not told, such as %v", len(left), left)
		}
	}
	t.Logf("the last of %d clients is told %v after the logout", many-2, time.Since(since))
	// Had they waited for both clients that fail, each failure would be counted by now.
	if failed := rig.Sample(t, s.Registry, "authgate_backchannel_logouts_total", "result=failure"); failed > 1 {
		t.Errorf("%v clients were given up before the others were told", failed)
	}
}
