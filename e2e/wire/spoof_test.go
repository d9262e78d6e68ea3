package wire

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// Headers with the origin of a request, and the identity headers of the upstream renamed.
var (
	originNames = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port",
		"X-Forwarded-User", "Forwarded", "X-Real-IP", "X-Auth-Assertion"}
	ownNames = []string{"Remote-User", "X-Who.Subject", "X_Mail", "Groups"}
)

const spoofed = "spoofed.example"

// spoofing has routes for each mechanism, and an upstream with other identity
// headers.
func spoofing(up string) string {
	return world.People + fmt.Sprintf(`
upstreams:
  app: {url: %[1]q}
  renamed:
    url: %[1]q
    identity_headers: {user: Remote-User, subject: X-Who.Subject, email: X_Mail, roles: Groups, name: "", mechanism: ""}
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /session, upstream: app, auth: [session]}
  - {match: /bearer, upstream: app, auth: [bearer]}
  - {match: /kept, upstream: app, auth: [session, bearer], forward_credentials: true}
  - {match: /renamed, upstream: renamed, auth: [session]}
  - {match: /renamed/public, upstream: renamed, auth: [none]}
`, up)
}

// asker is a user on a route, and the identity that the upstream gets.
type asker struct {
	path       string
	credential string // a header line
	identity   map[string]string
}

func askers(alice, bob world.Login) []asker {
	local := func(user, mechanism, roles string) map[string]string {
		identity := map[string]string{
			"X-Auth-User": user, "X-Auth-Subject": "local:" + user, "X-Auth-Roles": roles, "X-Auth-Mechanism": mechanism,
			"X-Auth-Provider": "local",
		}
		if user == "alice" { // bob has no name and no address
			identity["X-Auth-Name"], identity["X-Auth-Email"] = "Alice Example", "alice@example.org"
		}
		return identity
	}
	return []asker{
		{"/public", "X-Nothing: 1", nil},
		{"/public", "Cookie: " + alice.Session, nil},
		{"/basic", "Authorization: " + world.BasicService, map[string]string{
			"X-Auth-User": "service", "X-Auth-Subject": "basic:service", "X-Auth-Mechanism": "basic", "X-Auth-Provider": "basic",
		}},
		{"/session", "Cookie: " + alice.Session, local("alice", "session", "user,admin")},
		{"/session", "Cookie: " + bob.Session, local("bob", "session", "user")},
		{"/bearer", "Authorization: " + alice.Access, local("alice", "bearer", "user,admin")},
		{"/kept", "Authorization: " + bob.Access, local("bob", "bearer", "user")},
		{"/renamed", "Cookie: " + alice.Session, map[string]string{
			"Remote-User": "alice", "X-Who.Subject": "local:alice", "X_Mail": "alice@example.org", "Groups": "user,admin",
			"X-Auth-Provider": "local",
		}},
		{"/renamed", "Cookie: " + bob.Session, map[string]string{
			"Remote-User": "bob", "X-Who.Subject": "local:bob", "Groups": "user", "X-Auth-Provider": "local",
		}},
		{"/renamed/public", "X-Nothing: 1", nil},
	}
}

// TestSpoofedHeaders: identity and origin headers from a client do not reach the
// upstream, in any spelling and place.
func TestSpoofedHeaders(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, spoofing(up.URL))
	all := askers(g.SignIn(g.Stranger(), "alice"), g.SignIn(g.Stranger(), "bob"))
	var written, lines, trailer []string
	var fields []field // of HTTP/2
	for _, name := range slices.Concat(world.IdentityNames, originNames, ownNames) {
		for _, s := range world.Spellings(name) {
			written, lines = append(written, s), append(lines, s+": "+spoofed, s+": "+spoofed) // twice
			if s == strings.ToLower(s) {
				fields = append(fields, field{s, spoofed}, field{s, spoofed})
			}
		}
		trailer = append(trailer, name+": "+spoofed,
			strings.ReplaceAll(name, "-", "_")+": "+spoofed) // net/http takes 4 KiB of trailers
	}
	names, headers, trailers := strings.Join(written, ", "), strings.Join(lines, "\n")+"\n", strings.Join(trailer,
		"\n")+"\n"
	chunked := "Transfer-Encoding: chunked\n\n4\nbody\n0\n" + trailers + "\n"
	for name, request := range map[string]string{
		"headers": "GET %s HTTP/1.1\nHost: localhost\n%s\n" + headers + "\n",
		"Connection": "GET %s HTTP/1.1\nHost: localhost\n%s\nConnection: " +
			"close, " + names + "\n" + headers + "\n",
		"trailers":                 "POST %s HTTP/1.1\nHost: localhost\n%s\nTE: trailers\nTrailer: " + names + "\n" + chunked,
		"trailers without Trailer": "POST %s HTTP/1.1\nHost: localhost\n%s\n" + chunked,
	} {
		for _, who := range all {
			if a := g.Raw(t, fmt.Sprintf(request, who.path, who.credential)); a.Status != http.StatusOK {
				t.Fatalf("%s: %s with %s: %d %s", name, who.path, who.credential, a.Status, a.Body)
			}
			wantOwnWord(t, up.One(t), who)
		}
	}
	for _, who := range all {
		header, value, _ := strings.Cut(who.credential, ": ")
		if status, err := get2(t, g, who.path, append(fields, field{strings.ToLower(header), value})...); err != nil ||
			status != http.StatusOK {
			t.Fatalf("HTTP/2: %s: %d, %v", who.path, status, err)
		}
		wantOwnWord(t, up.One(t), who)
	}
	if _, err := get2(t, g, "/public", field{"X-Auth-User", spoofed}); !errors.Is(err, errReset) {
		t.Errorf("HTTP/2: a name in upper case: %v", err)
	}
	up.None(t)
}

// wantOwnWord checks that the identity and origin headers are the gateway's.
func wantOwnWord(t *testing.T, m world.Message, who asker) {
	t.Helper()
	want := map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https",
		"X-Forwarded-Host": "localhost"}
	maps.Copy(want, who.identity)
	for _, name := range slices.Concat(world.IdentityNames, originNames, ownNames) {
		if slices.Contains(ownNames, name) && !strings.HasPrefix(who.path, "/renamed") {
			continue // an ordinary header for the other upstream
		}
		if got := m.Value(t, name); got != want[name] {
			t.Errorf("%s with %s: the upstream gets %s: %q, expected %q", who.path, who.credential, name, got, want[name])
		}
	}
	if len(m.Trailer) > 0 || len(m.Values("Trailer")) > 0 {
		t.Errorf("%s: the upstream gets a trailer: %q %q", who.path, m.Values("Trailer"), m.Trailer)
	}
}

// TestTrustedProxies: the gateway believes what a trusted proxy adds to the headers of
// the client. The tests of package peer have the rules, and what it must not believe.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.StartBehindProxy(t, `["127.0.0.1", "10.0.0.0/8"]`, world.People+world.App(up.URL)+`
policies: {office: {networks: [203.0.113.0/24, "2001:db8::/32"]}}
routes: [{match: app.example.org/, upstream: app, auth: [basic], policy: office}]
`)
	for headers, chain := range map[string]string{
		"X-Forwarded-Proto: https\nX-Forwarded-Host: evil.example, App.Example.Org:443\nX-Forwarded-For: " +
			"198.51.100.7, 203.0.113.7, 10.1.2.3\n" +
			"x_forwarded_for: 6.6.6.6\nX-Auth-User: admin": "198.51.100.7, 203.0.113.7, 10.1.2.3, 127.0.0.1",
		`Forwarded: for=198.51.100.7, For="[2001:db8::1]:4711";proto=https;host="App.Example.Org:443", ` +
			`for=10.1.2.3;proto=http;host=internal`: "198.51.100.7, 2001:db8::1, 10.1.2.3, 127.0.0.1",
	} {
		if a := g.Plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: internal\nAuthorization: "+world.BasicService+
			"\n"+headers+"\n\n"); a.Status != http.StatusOK {
			t.Fatalf("%s: %d", headers, a.Status)
		}
		m := up.One(t)
		for name, want := range map[string]string{
			"X-Forwarded-For": chain, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "App.Example.Org:443",
			"X-Auth-User": "service",
		} {
			if got := m.Value(t, name); got != want {
				t.Errorf("%s: the upstream gets %s: %q, expected %q", headers, name, got, want)
			}
		}
	}
}
