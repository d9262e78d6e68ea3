package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// providerAdvisory has lies of a provider, or of a person with an account there,
// that opened a resource.
type providerAdvisory struct {
	name   string
	lies   []lie
	closed string // the resource
}

func providerAdvisories() []providerAdvisory {
	zero := base64.RawURLEncoding.EncodeToString(make([]byte, 64))
	return []providerAdvisory{
		{"CVE-2026-40574 oauth2-proxy, an address with two domains", []lie{
			userinfoWith("email", "mallory@evil.example@company.com"), userinfoWith("email", "mallory@evil.example,x@company.com"), userinfoWith("email", "mallory@company.com@evil.example"),
			userinfoWith("email", "mallory@evil.example\n@company.com"), userinfoWith("email", "mallory@evilcompany.com"), userinfoWith("email", "mallory@sub.company.com"), userinfoWith("email", "company.com"),
		}, "/company-resource"},
		{"CVE-2023-3128 Grafana, an address that is not verified", []lie{
			userinfoWith("email_verified", false), userinfoWith("email_verified", "false"), userinfoWith("email_verified", 0), userinfoWith("email_verified", "no"),
		}, "/company-resource"},
		{"CVE-2021-21411 oauth2-proxy, groups that are not checked", []lie{
			userinfoWith("roles", nil), userinfoWith("roles", []string{}), userinfoWith("roles", []string{"user"}), userinfoWith("roles", "admin"), userinfoWith("roles", []string{"ADMIN"}), userinfoWith("roles", []string{"administrator", "x-admin"}),
		}, "/admin-resource"},
		{"CVE-2022-21449 Java, a signature of zeros", []lie{
			idToken(func(k *hostileKeys, payload []byte) string { return unsigned(k.sign(payload)) + zero }),
			idToken(func(k *hostileKeys, payload []byte) string { return unsigned(k.sign(payload)) }),
		}, "/secure-resource"},
		{"CVE-2021-44878 pac4j, an ID token without a signature", []lie{
			idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("none", payload) }), idToken(func(_ *hostileKeys, payload []byte) string { return unsecured("NONE", payload) }),
		}, "/secure-resource"},
		{"CVE-2021-22573 google-oauth-client, an ID token that is not verified", []lie{
			idToken(func(k *hostileKeys, payload []byte) string { return swappedPayload(k.sign([]byte("{}")), payload) }),
		}, "/secure-resource"},
	}
}

// TestAdvisoriesProvider: no lie of a provider opens a resource.
func TestAdvisoriesProvider(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "one")
	s := startStage(t, "", h)
	c := s.visitor()
	s.enters(t, c, h, lie{})
	for _, path := range []string{"/secure-resource", "/company-resource", "/admin-resource"} {
		if s.isIn(t, c, path) == nil {
			t.Fatalf("%s is closed without a lie, so the test would prove nothing", path)
		}
	}
	for _, a := range providerAdvisories() {
		t.Run(a.name, func(t *testing.T) {
			for i, l := range a.lies {
				t.Run(fmt.Sprint("lie ", i), func(t *testing.T) { // the name is the subject of the person
					c := s.visitor()
					s.begin(t, c, h).finish(l)
					if s.isIn(t, c, a.closed) != nil {
						t.Errorf("it opens %s", a.closed)
					}
					if m := s.isIn(t, c, "/secure-resource"); m != nil && a.closed == "/company-resource" && strings.HasSuffix(m.value(t, "X-Auth-Email"), "@company.com") {
						t.Errorf("the upstream gets the address %q", m.value(t, "X-Auth-Email"))
					}
				})
			}
		})
	}
	t.Run("CVE-2024-21495 caddy-security, values that can be guessed", func(t *testing.T) { freshValues(t, s, h) })
	t.Run("CVE-2026-26998 Traefik, an answer without end", func(t *testing.T) { endlessAnswers(t, s, h) })
	t.Run("redirects", func(t *testing.T) {
		for _, a := range redirectAdvisories {
			t.Run(a.name, func(t *testing.T) {
				answers := map[string]answer{}
				for _, place := range a.attacks {
					query := "target_link_uri=" + url.QueryEscape(place) + "&return_to=" + url.QueryEscape(place)
					c := s.visitor()
					back := s.begin(t, c, h, query).finish(lie{})
					if back.status != http.StatusFound {
						t.Errorf("with %q the login fails: %d", place, back.status)
					}
					answers["the callback with "+place] = back
				}
				wantOwnOrigin(t, s.instance, answers)
			})
		}
	})
}

// freshValues: state, nonce and code challenge are long, and new in each attempt.
func freshValues(t *testing.T, s *stage, h *hostile) {
	const attempts = 30
	seen := map[string]bool{}
	c := s.visitor() // one browser, because attempts of one browser may share values
	for range attempts {
		request := s.begin(t, c, h).request
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			value := request.Get(name)
			if len(value) < 22 || seen[value] || seen[value[:6]] {
				t.Errorf("%s is %q, which is short or not new", name, value)
			}
			seen[value], seen[value[:6]] = true, true
		}
	}
}

// endlessAnswers: the gateway stops reading an answer at its limit.
func endlessAnswers(t *testing.T, s *stage, h *hostile) {
	const enough = 64 << 20
	for name, endless := range map[string]func(*atomic.Int64) lie{
		"token": func(sent *atomic.Int64) lie {
			return lie{token: func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, sent) }}
		},
		"userinfo": func(sent *atomic.Int64) lie {
			return userinfoAnswer(func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, sent) })
		},
	} {
		var sent atomic.Int64
		c := s.visitor()
		a := s.begin(t, c, h).finish(endless(&sent))
		if sent.Load() > enough {
			t.Errorf("%s: the gateway took %d bytes", name, sent.Load())
		}
		s.isOut(t, c, a)
	}
}

// TestAdvisoriesIssuers: a token of one issuer does not pass for another issuer.
func TestAdvisoriesIssuers(t *testing.T) {
	t.Parallel()
	one, two := newHostile(t, "one"), newHostile(t, "two")
	up := record(t)
	config := app(up.url) + "token:\n  trusted_issuers:\n"
	for _, h := range []*hostile{one, two} {
		config += fmt.Sprintf("    - {name: %s, issuer: %q, audience: [api]}\n", h.name, h.issuer)
	}
	g := start(t, config+`
policies: {one: {providers: [one]}, two: {providers: [two]}, write: {scopes: [write]}}
routes:
  - {match: /one, upstream: app, auth: [bearer], policy: one}
  - {match: /two, upstream: app, auth: [bearer], policy: two}
  - {match: /write, upstream: app, auth: [bearer], policy: write}
`)
	c := g.stranger()
	token := func(says, signs *hostile, scope string) string {
		now := time.Now()
		return "Bearer " + signs.keys.sign(payloadOf(map[string]any{
			"iss": says.issuer, "sub": "alice", "aud": "api", "scope": scope, "iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(), "jti": scope,
		}))
	}
	asks := func(path, token string) []message {
		g.do(c, "GET", path, "", "Authorization", token)
		return up.all()
	}
	t.Run("CVE-2026-33496 Oathkeeper, one cache for several issuers", func(t *testing.T) {
		for range 3 { // cold and warm
			if got := asks("/one", token(one, one, "read")); len(got) != 1 || got[0].value(t, "X-Auth-Provider") != "one" {
				t.Fatalf("the issuer's own route is closed: %q\n%s", got, g.log)
			}
			if got := asks("/two", token(one, one, "read")); len(got) > 0 {
				t.Errorf("the token opens the route of another issuer: %q", got)
			}
			// The keys of both issuers have the same kid.
			if got := append(asks("/two", token(two, one, "read")), asks("/one", token(two, one, "read"))...); len(got) > 0 {
				t.Errorf("an issuer's key signs for another: %q", got)
			}
		}
	})
	t.Run("CVE-2021-32701 Oathkeeper, one cache for all scopes", func(t *testing.T) {
		reads := token(one, one, "read")
		for range 3 {
			if got := asks("/one", reads); len(got) != 1 {
				t.Fatalf("%d requests reach the upstream", len(got))
			}
			if got := asks("/write", reads); len(got) > 0 {
				t.Errorf("a token with the scope read writes: %q", got)
			}
		}
		if got := asks("/write", token(one, one, "read write")); len(got) != 1 {
			t.Errorf("with the scope write, %d requests reach the upstream", len(got))
		}
	})
	t.Run("CVE-2022-21449 Java, an access token with a signature of zeros", func(t *testing.T) {
		for _, zeros := range []int{0, 1, 63, 64, 65, 96, 132} {
			forged := unsigned(token(one, one, "write")) + base64.RawURLEncoding.EncodeToString(make([]byte, zeros))
			if got := append(asks("/one", forged), asks("/write", forged)...); len(got) > 0 {
				t.Errorf("%d zeros are a signature: %q", zeros, got)
			}
		}
	})
}
