package relyingparty_test

import (
	"cmp"
	"crypto/ecdsa"
	"net/http"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/rig"
)

// What the provider answers at a renewal replaces what it said before, and ends the session
// if it refuses. No answer changes nothing. The session ends after its lifetime, even if it
// is used.
func TestRenewal(t *testing.T) {
	t.Parallel()
	const (
		warned = "refreshing a provider's tokens failed; the login goes on with what is known"
		client = "the provider does not accept the gateway as its client; logins go on and roles get old until " +
			"client_id, client_secret and token_endpoint_auth_method are right"
		over = "login_ended_by_provider"
	)
	refuse := func(status int, code string) func(*rig.Provider) http.HandlerFunc {
		return func(p *rig.Provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				p.Reply(w, map[string]string{"error": code})
			}
		}
	}
	answer := func(key *ecdsa.PrivateKey, changes map[string]any) func(*rig.Provider) http.HandlerFunc {
		return func(p *rig.Provider) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { p.Reply(w, p.Tokens(cmp.Or(key, p.Key), changes)) }
		}
	}
	roles := func(value any) func(*rig.Provider) http.HandlerFunc {
		return answer(nil, map[string]any{"roles": value})
	}
	mallory := map[string]any{"sub": "2", "preferred_username": "mallory", "roles": []string{"admin"}}
	for name, c := range map[string]struct {
		renewed func(*rig.Provider) http.HandlerFunc
		roles   string // afterwards
		log     string // empty: nothing
	}{
		"other roles":             {roles([]string{"admin"}), "admin", ""},
		"one role":                {roles("admin"), "admin", ""},
		"roles in a number":       {roles(5), "", ""},
		"a role that is no text":  {roles([]any{"user", nil}), "", ""},
		"another unusable claim":  {answer(nil, map[string]any{"roles": []string{"admin"}, "email": "carol"}), "admin", ""},
		"no roles":                {roles(nil), "", ""},
		"another user":            {answer(nil, mallory), "", over},
		"another key":             {answer(rig.NewECKey(t), map[string]any{"roles": []string{"admin"}}), "", over},
		"invalid_grant":           {refuse(400, "invalid_grant"), "", over},
		"invalid_request, of Dex": {refuse(400, "invalid_request"), "", over},
		"invalid_client":          {refuse(401, "invalid_client"), "user", client},
		"too many requests":       {refuse(429, ""), "user", warned},
		"out of order":            {refuse(503, "invalid_grant"), "user", warned},
	} {
		r, p := rig.Delegated(t, "delegated: {lifetime: 30m}\n")
		p.Renewed = c.renewed(p)
		session := r.Carol()
		r.Log.Reset()
		r.Clock.Advance(5*time.Minute + time.Second) // the tokens have expired
		for range 2 {                                // the second request does not ask the provider
			if c.log == over {
				before := r.Reached()
				r.Want(401, "GET", "/delegated/", "", session)
				if r.Reached() != before {
					t.Errorf("%s: the request reached the upstream", name)
				}
				continue
			}
			r.Want(200, "GET", "/delegated/", "", session)
			h := r.LastHeader()
			if h.Get("X-Auth-Subject") != "small:1" || h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Roles") != c.roles {
				t.Errorf("%s: the upstream gets %v", name, h)
			}
		}
		for _, line := range []string{warned, client, over} {
			if got := strings.Count(r.Log.String(), line); (got == 1) != (line == c.log) || got > 1 {
				t.Errorf("%s: the log has %d times %q:\n%s", name, got, line, r.Log)
			}
		}
		if asked := p.Asked.Load(); asked != 2 {
			t.Errorf("%s: %d requests to the token endpoint", name, asked)
		}
		r.Clock.Advance(25 * time.Minute)
		r.Want(401, "GET", "/delegated/", "", session)
	}
}
