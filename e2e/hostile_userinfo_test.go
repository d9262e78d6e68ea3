package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// said is a lie about the person: a member of userinfo with another value,
// or without one if that is nil.
func said(name string, value any) lie {
	return lie{person: func(_ *grant, person map[string]any) { putMember(person, name, value) }}
}

// wrongUserinfo are answers of the userinfo endpoint as a whole.
func wrongUserinfo(elsewhere string) map[string]wrong {
	plain := func(status int, mediaType, body string) lie {
		return lie{userinfo: whoeverItIs(func(w http.ResponseWriter, _ *http.Request) { sayPlain(w, status, mediaType, body) })}
	}
	const jwt, object = "application/jwt", "application/json"
	return map[string]wrong{
		"another sub":      {said("sub", "admin"), 502, "another person|sub"},
		"sub in capitals":  {lie{person: func(g *grant, p map[string]any) { p["sub"] = strings.ToUpper(g.sub) }}, 502, "another person|sub"},
		"no sub":           {said("sub", nil), 502, "sub"},
		"sub of a number":  {said("sub", 1), 502, "sub"},
		"several sub":      {lie{person: func(g *grant, p map[string]any) { p["sub"] = []string{g.sub, "admin"} }}, 502, "sub"},
		"401":              {plain(401, object, "{}"), 502, "401"},
		"403":              {plain(403, "text/html", "<h1>No</h1>"), 502, "403"},
		"500":              {plain(500, "text/plain", "oops"), 502, "500"},
		"201":              {lie{userinfo: repeating(func(sub string) string { return `{"sub":"` + sub + `"}` }, 201, object)}, 502, "201"},
		"204":              {lie{userinfo: whoeverItIs(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })}, 502, "204|EOF|empty"},
		"a page":           {plain(200, "text/html", "<h1>Welcome</h1>"), 502, ""},
		"nothing":          {plain(200, object, ""), 502, ""},
		"null":             {plain(200, object, "null"), 502, ""},
		"an array":         {plain(200, object, "[]"), 502, ""},
		"redirect":         {lie{userinfo: whoeverItIs(redirectAway(elsewhere))}, 502, "redirect"},
		"deep":             {plain(200, object, strings.Repeat(`{"a":`, 20_000)+"1"+strings.Repeat("}", 20_000)), 502, ""},
		"two members sub":  {lie{userinfo: repeating(func(sub string) string { return `{"sub":"admin","sub":"` + sub + `"}` }, 200, object)}, 502, "sub|twice|double|duplicate"},
		"two objects":      {lie{userinfo: repeating(func(sub string) string { return `{"sub":"` + sub + `"}{"roles":["admin"]}` }, 200, object)}, 502, ""},
		"two members role": {lie{userinfo: repeating(func(sub string) string { return `{"sub":"` + sub + `","roles":["a"],"roles":["admin"]}` }, 200, object)}, 502, "roles|twice|double|duplicate"},
		"a bomb":           {lie{userinfo: whoeverItIs(bomb)}, 502, "1048576|long|large|size"},
		"much":             {said("picture", strings.Repeat("a", 2<<20)), 502, "1048576|long|large|size"},
		"a JWT that is not signed": {lie{userinfo: repeating(func(sub string) string { return unsecured("none", []byte(`{"sub":"`+sub+`"}`)) }, 200, jwt)},
			502, "none"},
		"a JWT of another key": {lie{userinfo: repeatingSigned(func(k *hostileKeys, payload []byte) string {
			return jws(jose.ES256, k.unpublished, joseHeader{"kid": "good"}, payload)
		})}, 502, "sign|verif"},
		"a JWT of the public key": {lie{userinfo: repeatingSigned(func(k *hostileKeys, payload []byte) string {
			return jws(jose.HS256, publicPEM(k), joseHeader{"kid": "good"}, payload)
		})}, 502, "HS256"},
	}
}

// whoeverItIs answers so, whoever it is about.
func whoeverItIs(answer http.HandlerFunc) func(*grant) http.HandlerFunc {
	return func(*grant) http.HandlerFunc { return answer }
}

// repeating answers with what make makes of the right subject.
func repeating(make func(sub string) string, status int, mediaType string) func(*grant) http.HandlerFunc {
	return func(g *grant) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { sayPlain(w, status, mediaType, make(g.sub)) }
	}
}

// repeatingSigned is repeating for a JWT, about an administrator.
func repeatingSigned(make func(k *hostileKeys, payload []byte) string) func(*grant) http.HandlerFunc {
	return func(g *grant) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			sayPlain(w, http.StatusOK, "application/jwt", make(g.h.keys, []byte(`{"sub":"`+g.sub+`","roles":["admin"]}`)))
		}
	}
}

// bomb is 1 GB in 1 MB, if it is asked for in gzip.
func bomb(w http.ResponseWriter, _ *http.Request) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 1<<20)) // into memory
	_ = z.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bytes.Repeat(packed.Bytes(), 1<<10)) // members of gzip follow each other (RFC 1952, section 2.2)
}

// wrongPersons are what userinfo must not say about somebody.
func wrongPersons() map[string]wrong {
	wrongs := map[string]wrong{}
	for name, roles := range map[string]any{
		"a string": "admin", "a list in a string": "user,admin", "a number": 1, "true": true, "an object": map[string]any{"admin": true},
		"nested arrays": []any{[]string{"admin"}}, "a number among them": []any{"admin", 1}, "null among them": []any{"admin", nil},
	} {
		wrongs["roles are "+name] = wrong{said("roles", roles), 502, "roles.*array"}
	}
	for name, email := range map[string]any{
		"two": "a@evil@company.com", "two domains": "a@evil.example@company.com", "no name": "@company.com", "no domain": "a@", "no @": "company.com",
		"a space": "a b@company.com", "a line": "a@company.com\nb@evil.example", "a NUL": "a\x00@company.com", "an array": []string{"a@company.com"}, "a number": 1,
	} {
		wrongs["e-mail is "+name] = wrong{said("email", email), 502, "email"}
	}
	for name, username := range map[string]any{
		"two lines": "alice\r\nX-Auth-Roles: admin", "with a NUL": "ali\x00ce", "with a DEL": "alice\x7f", "with a C1 control": "alice\u0085", "with outer space": " alice",
		"too long": strings.Repeat("a", 256), "a number": 1, "an array": []string{"alice"},
	} {
		wrongs["user name is "+name] = wrong{said("preferred_username", username), 502, "preferred_username|user name"}
	}
	wrongs["the name is an array"] = wrong{said("name", []string{"Alice"}), 502, "name"}
	wrongs["email_verified is no boolean"] = wrong{said("email_verified", 0), 502, "email_verified"}
	wrongs["too many claims"] = wrong{said("address", strings.Repeat("a", 70_000)), 502, "claims"}
	return wrongs
}

// odd is somebody who gets in, and what the upstream learns and must not
// learn.
type odd struct {
	lie
	headers map[string]string // empty: not there
	admin   int               // status of what administrators may see
	company int               // status of what is for addresses of company.com
}

// odds are what is not refused, and must not give more than it should.
func odds() map[string]odd {
	// access makes the access token a JWT that says of itself who is an
	// administrator; userinfo does not.
	access := func(make func(g *grant, claims map[string]any) string) lie {
		return lie{
			person: func(_ *grant, p map[string]any) { delete(p, "roles") },
			claims: func(_ *grant, c map[string]any) { delete(c, "at_hash") },
			access: func(g *grant) string {
				return make(g, map[string]any{
					"iss": g.h.issuer, "sub": g.sub, "aud": "api", "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{"admin"}, "jti": rand.Text(),
				})
			},
		}
	}
	signing := func(name string, value any) lie {
		return access(func(g *grant, claims map[string]any) string {
			putMember(claims, name, value)
			return g.h.keys.sign(payloadOf(claims))
		})
	}
	admin, nobody := map[string]string{"X-Auth-Roles": "admin"}, map[string]string{"X-Auth-Roles": ""}
	unverified := map[string]string{"X-Auth-Email": "", "X-Auth-User": "alice"}
	return map[string]odd{
		"nothing odd": {lie{}, map[string]string{"X-Auth-User": "alice", "X-Auth-Email": "alice@company.com", "X-Auth-Roles": "user,admin"}, 200, 200},
		"unverified":  {said("email_verified", false), unverified, 200, 403},
		"unverified, in a string": {
			said("email_verified", "false"), unverified, 200, 403},
		"unverified, and no user name": {lie{person: func(_ *grant, p map[string]any) {
			p["email_verified"] = false
			delete(p, "preferred_username")
		}}, map[string]string{"X-Auth-Email": "", "X-Auth-User": "TestHostileUserinfo-odd-unverified-and-no-user-name"}, 200, 403},
		"unverified here, verified in the ID token": {lie{
			person: func(_ *grant, p map[string]any) { p["email_verified"] = false },
			claims: func(_ *grant, c map[string]any) { c["email"], c["email_verified"] = "alice@company.com", true },
		}, unverified, 200, 403},
		"unverified in the ID token": {lie{
			person: func(_ *grant, p map[string]any) { delete(p, "email_verified") },
			claims: func(_ *grant, c map[string]any) { c["email"], c["email_verified"] = "alice@company.com", false },
		}, unverified, 200, 403},
		"address of another domain": {said("email", "alice@company.com.evil.example"), map[string]string{"X-Auth-Email": "alice@company.com.evil.example"}, 200, 403},
		"no roles":                  {said("roles", nil), map[string]string{"X-Auth-Roles": ""}, 403, 200},
		"roles that are null": {lie{userinfo: repeating(func(sub string) string {
			return `{"sub":"` + sub + `","roles":null,"email":"alice@company.com"}`
		}, 200, "application/json")}, map[string]string{"X-Auth-Roles": ""}, 403, 200},
		"roles that are empty": {said("roles", []string{"", ""}), map[string]string{"X-Auth-Roles": ""}, 403, 200},
		"two roles in one":     {said("roles", []string{"user,admin"}), map[string]string{"X-Auth-Roles": ""}, 403, 200},
		"a role in lines":      {said("roles", []string{"user", "x\r\nX-Auth-Roles: admin", "admin\n"}), map[string]string{"X-Auth-Roles": "user"}, 403, 200},
		"a role in capitals":   {said("roles", []string{"Admin", "ADMIN"}), map[string]string{"X-Auth-Roles": "Admin,ADMIN"}, 403, 200},
		"a user name with a comma": {said("preferred_username", "bob,alice"),
			map[string]string{"X-Auth-User": "bob,alice"}, 200, 200},
		"a user name as of another provider": {said("preferred_username", "local:alice"),
			map[string]string{"X-Auth-User": "local:alice"}, 200, 200},
		"a name in lines":                      {said("name", "Alice\r\nX-Auth-Roles: owner\r\n\r\nGET /x HTTP/1.1"), map[string]string{"X-Auth-Name": "", "X-Auth-Roles": "user,admin"}, 200, 200},
		"a name beyond ASCII":                  {said("name", "Zoë Ångström 名"), map[string]string{"X-Auth-Name": "Zoë Ångström 名"}, 200, 200},
		"claims of a protocol":                 {said("iss", "https://evil.example"), map[string]string{"X-Auth-Provider": "hostile"}, 200, 200},
		"roles of the access token":            {signing("aud", "api"), admin, 200, 200},
		"roles of an access token, of another": {signing("sub", "admin"), nobody, 403, 200},
		"roles of an access token, expired":    {signing("exp", time.Now().Add(-time.Hour).Unix()), nobody, 403, 200},
		"roles of an access token, elsewhere":  {signing("iss", "https://evil.example"), nobody, 403, 200},
		"roles of an access token, unsigned": {access(func(_ *grant, claims map[string]any) string {
			return unsecured("none", payloadOf(claims)) + "AA"
		}), nobody, 403, 200},
		"roles of an access token, of another key": {access(func(g *grant, claims map[string]any) string {
			return jws(jose.ES256, g.h.keys.unpublished, joseHeader{"kid": "good"}, payloadOf(claims))
		}), nobody, 403, 200},
		"a signed answer": {lie{userinfo: repeatingSigned(func(k *hostileKeys, payload []byte) string { return k.sign(payload) })},
			map[string]string{"X-Auth-Roles": "admin"}, 200, 403},
	}
}

// payloadOf are claims as they are signed.
func payloadOf(claims map[string]any) []byte {
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err) // of a test's own making
	}
	return payload
}

// TestHostileUserinfo: whatever is wrong with what the provider says about the
// person, nobody gets in as somebody else or with more rights.
func TestHostileUserinfo(t *testing.T) {
	t.Parallel()
	h, elsewhere := newHostile(t, "hostile"), forbiddenPlace(t)
	s := startStage(t, "", h)
	for group, wrongs := range map[string]map[string]wrong{"answer": wrongUserinfo(elsewhere), "person": wrongPersons()} {
		t.Run(group, func(t *testing.T) {
			for name, w := range wrongs {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s.refuses(t, h, w)
				})
			}
		})
	}
	t.Run("odd", func(t *testing.T) {
		for name, o := range odds() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := s.visitor()
				s.enters(t, c, h, o.lie)
				s.getsAsFar(t, c, o)
			})
		}
	})
	t.Run("endless", func(t *testing.T) {
		var sent atomic.Int64
		s.refuses(t, h, wrong{lie{userinfo: whoeverItIs(func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, &sent) })}, 502, "1048576|long|large|size"})
		// What it does not read stays in the buffers of the system.
		if got := sent.Load(); got < 1<<20 || got > 32<<20 {
			t.Errorf("the gateway took %d bytes of what had no end", got)
		}
	})
	s.check(t)
}

// getsAsFar checks what the upstream learns about somebody, and what they may
// see.
func (s *stage) getsAsFar(t *testing.T, c *http.Client, o odd) {
	t.Helper()
	m := s.isIn(t, c, "/secure-resource")
	if m == nil {
		t.Fatal("who has signed in is not in")
	}
	wantHeaders(t, *m, o.headers)
	wantHeaders(t, *m, map[string]string{"X-Auth-Subject": "hostile:" + subjectOf(t), "X-Auth-Mechanism": "oidc", "Cookie": ""})
	for path, want := range map[string]int{"/admin-resource": o.admin, "/company-resource": o.company, "/alice-resource": 403, "/local-resource": 401} {
		if got := s.ask(t, c, "GET", path).status; got != want {
			t.Errorf("%s is %d, expected %d", path, got, want)
		}
	}
	var me map[string]any
	if err := json.Unmarshal([]byte(s.ask(t, c, "GET", "/me").body), &me); err != nil || me["provider"] != "hostile" {
		t.Errorf("/me: %v, %v", me, err)
	}
	if page := s.ask(t, c, "GET", "/me", "Accept", "text/html"); page.status != 200 {
		t.Errorf("/me as a page: %d", page.status)
	}
}
