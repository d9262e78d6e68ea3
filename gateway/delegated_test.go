package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store/storetest"
)

// A user has ten minutes at the provider. An older attempt is refused without a
// request to the provider. A younger attempt of the same browser is not affected.
func TestAttemptEnds(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	early := r.leave("")
	r.clock.Advance(10*time.Minute - time.Second)
	late := r.leave(early.cookie)
	if late.cookie != early.cookie {
		t.Error("a second attempt is bound to another cookie")
	}
	r.want(302, "GET", early.target, "", early.cookie)
	r.clock.Advance(10 * time.Minute)
	w := r.want(400, "GET", late.target, "", late.cookie)
	if w.Header()["Set-Cookie"] != nil || !strings.Contains(detailOf(t, w), "took too long") || p.asked.Load() != 1 {
		t.Errorf("after ten minutes: %q %s, %d requests to the token endpoint", w.Header()["Set-Cookie"], w.Body, p.asked.Load())
	}
}

// What does not say who it is, and proves nothing, refuses no user and no token: a claim
// that cannot be used is absent.
func TestDecorationRefusesNoUser(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := p.rig(trusting(t, p.asIssuer("small")), "")
	for _, changes := range []map[string]any{
		{"preferred_username": ""}, {"preferred_username": 5}, {"preferred_username": "carol "},
		{"preferred_username": "ca\u200brol"}, {"preferred_username": "boss@example.org"},
		{"name": map[string]any{"first": "C"}}, {"name": strings.Repeat("x", 2_000)},
		{"email": "carol"}, {"email": []string{"c@example.org"}}, {"email": "c@example.org", "email_verified": "True"},
		{"roles": "admin"}, {"roles": 5}, {"iat": nil}, {"iat": "now"}, {"sid": ""}, {"scope": 5},
		{"azp": nil}, {"azp": ""}, {"at_hash": nil}, {"at_hash": ""},
	} {
		p.claims = changes
		for path, credential := range map[string]string{"/delegated/": r.carol(), "/bearer/": p.bearer(changes)} {
			r.want(200, "GET", path, "", credential)
			h := r.upstream.last().Header
			want := [...]string{"carol", "", "user"}
			if changes["preferred_username"] != nil {
				want[0] = "1"
			}
			switch changes["roles"] {
			case "admin":
				want[2] = "admin"
			case 5:
				want[2] = ""
			}
			got, name := [...]string{h.Get("X-Auth-User"), h.Get("X-Auth-Email"), h.Get("X-Auth-Roles")}, h.Get("X-Auth-Name")
			if got != want || name != "" {
				t.Errorf("%.100v at %s: the upstream gets %v and the name %.20q, want %v", changes, path, got, name, want)
			}
		}
	}
	for _, changes := range []map[string]any{{"sub": ""}, {"sub": 5}, {"exp": 1}, {"aud": "another"}} {
		before := r.upstream.count()
		w := r.want(401, "GET", "/bearer/", "", p.bearer(changes))
		if r.upstream.count() != before || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%v: %v, %d requests reached the upstream", changes, w.Header(), r.upstream.count()-before)
		}
	}
}

// Whichever operation of the store fails, a sign-in at a provider ends in 503 and
// without a session.
func TestDelegatedStoreFails(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	r.leave("") // from here on, the provider is known
	for step, least := range map[string]int{"the beginning": 1, "the callback": 3} {
		failed := 0
		eachFailure(t, r, outages["once"], func(broken func(*http.Request) *httptest.ResponseRecorder) {
			q := request("GET", "/login", "")
			if step == "the callback" {
				back := r.leave("")
				q = request("GET", back.target, "", back.cookie)
			}
			switch w := broken(q); w.Code {
			case http.StatusServiceUnavailable:
				failed++
				checkUnavailable(t, r, w, 0)
			case http.StatusFound:
				if step == "the callback" && jarOf(w).line("session") == "" {
					t.Error("302 without a session")
				}
			default:
				t.Errorf("%s: %d %s", step, w.Code, w.Body)
			}
		})
		if failed < least {
			t.Errorf("%d operations of %s noticed that the store failed", failed, step)
		}
	}
}

// Anyone can begin to sign in at a provider. What that leaves in the store is bounded
// for each client.
func TestAttemptsOfOneClientAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	for range 1000 {
		r.leave("")
	}
	r.want(429, "GET", "/login", "")
	if kept := len(storetest.Keys(t, r.store, "attempt:")); kept != 1000 {
		t.Errorf("%d attempts are kept", kept)
	}
}
