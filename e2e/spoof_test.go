package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Headers with the identity of the user, with the origin of a request, and the
// identity headers of the upstream renamed.
var (
	identityNames = []string{"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email", "X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider"}
	originNames   = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-User", "Forwarded", "X-Real-IP"}
	ownNames      = []string{"Remote-User", "X-Who.Subject", "X_Mail", "Groups"}
)

// spellings are names that some application reads as the header name.
func spellings(name string) []string {
	all := []string{name, strings.ToLower(name), strings.ToUpper(name)}
	for _, mark := range []string{"-", "_", ".", "!", "~"} {
		s := strings.NewReplacer("-", mark, "_", mark, ".", mark).Replace(name)
		all = append(all, s, strings.ToLower(s), strings.ToUpper(s))
	}
	if first := strings.IndexAny(name, "-_."); first > 0 {
		all = append(all, name[:first]+"."+name[first+1:], name[:first]+"_"+name[first+1:])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

const spoofed = "spoofed.example"

// spoofing has routes for each mechanism, and an upstream with other identity
// headers.
func spoofing(up string) string {
	return people + fmt.Sprintf(`
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

func askers(alice, bob signIn) []asker {
	local := func(user, mechanism, roles string) map[string]string {
		identity := map[string]string{
			"X-Auth-User": user, "X-Auth-Subject": "local:" + user, "X-Auth-Roles": roles, "X-Auth-Mechanism": mechanism, "X-Auth-Provider": "local",
		}
		if user == "alice" { // bob has no name and no address
			identity["X-Auth-Name"], identity["X-Auth-Email"] = "Alice Example", "alice@example.org"
		}
		return identity
	}
	return []asker{
		{"/public", "X-Nothing: 1", nil},
		{"/public", "Cookie: " + alice.session, nil},
		{"/basic", "Authorization: " + basicService, map[string]string{
			"X-Auth-User": "service", "X-Auth-Subject": "basic:service", "X-Auth-Mechanism": "basic", "X-Auth-Provider": "basic",
		}},
		{"/session", "Cookie: " + alice.session, local("alice", "session", "user,admin")},
		{"/session", "Cookie: " + bob.session, local("bob", "session", "user")},
		{"/bearer", "Authorization: " + alice.access, local("alice", "bearer", "user,admin")},
		{"/kept", "Authorization: " + bob.access, local("bob", "bearer", "user")},
		{"/renamed", "Cookie: " + alice.session, map[string]string{
			"Remote-User": "alice", "X-Who.Subject": "local:alice", "X_Mail": "alice@example.org", "Groups": "user,admin", "X-Auth-Provider": "local",
		}},
		{"/renamed", "Cookie: " + bob.session, map[string]string{
			"Remote-User": "bob", "X-Who.Subject": "local:bob", "Groups": "user", "X-Auth-Provider": "local",
		}},
		{"/renamed/public", "X-Nothing: 1", nil},
	}
}

// TestSpoofedHeaders: identity and origin headers from a client do not reach the
// upstream, in any spelling and place.
func TestSpoofedHeaders(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, spoofing(up.url))
	all := askers(g.signIn(g.stranger(), "alice"), g.signIn(g.stranger(), "bob"))
	var written, lines, trailer []string
	var fields []field // of HTTP/2
	for _, name := range slices.Concat(identityNames, originNames, ownNames) {
		for _, s := range spellings(name) {
			written, lines = append(written, s), append(lines, s+": "+spoofed, s+": "+spoofed) // twice
			if s == strings.ToLower(s) {
				fields = append(fields, field{s, spoofed}, field{s, spoofed})
			}
		}
		trailer = append(trailer, name+": "+spoofed, strings.ReplaceAll(name, "-", "_")+": "+spoofed) // net/http takes 4 KiB of trailers
	}
	names, headers, trailers := strings.Join(written, ", "), strings.Join(lines, "\n")+"\n", strings.Join(trailer, "\n")+"\n"
	chunked := "Transfer-Encoding: chunked\n\n4\nbody\n0\n" + trailers + "\n"
	for name, request := range map[string]string{
		"headers":                  "GET %s HTTP/1.1\nHost: localhost\n%s\n" + headers + "\n",
		"Connection":               "GET %s HTTP/1.1\nHost: localhost\n%s\nConnection: close, " + names + "\n" + headers + "\n",
		"trailers":                 "POST %s HTTP/1.1\nHost: localhost\n%s\nTE: trailers\nTrailer: " + names + "\n" + chunked,
		"trailers without Trailer": "POST %s HTTP/1.1\nHost: localhost\n%s\n" + chunked,
	} {
		for _, who := range all {
			if a := g.raw(t, fmt.Sprintf(request, who.path, who.credential)); a.status != http.StatusOK {
				t.Fatalf("%s: %s with %s: %d %s", name, who.path, who.credential, a.status, a.body)
			}
			wantOwnWord(t, up.one(t), who)
		}
	}
	for _, who := range all {
		header, value, _ := strings.Cut(who.credential, ": ")
		if status, err := g.get2(t, who.path, append(fields, field{strings.ToLower(header), value})...); err != nil || status != http.StatusOK {
			t.Fatalf("HTTP/2: %s: %d, %v", who.path, status, err)
		}
		wantOwnWord(t, up.one(t), who)
	}
	if _, err := g.get2(t, "/public", field{"X-Auth-User", spoofed}); !errors.Is(err, errReset) {
		t.Errorf("HTTP/2: a name in upper case: %v", err)
	}
	up.none(t)
}

// wantOwnWord checks that the identity and origin headers are the gateway's.
func wantOwnWord(t *testing.T, m message, who asker) {
	t.Helper()
	want := map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost"}
	maps.Copy(want, who.identity)
	for _, name := range slices.Concat(identityNames, originNames, ownNames) {
		if slices.Contains(ownNames, name) && !strings.HasPrefix(who.path, "/renamed") {
			continue // an ordinary header for the other upstream
		}
		if got := m.value(t, name); got != want[name] {
			t.Errorf("%s with %s: the upstream gets %s: %q, expected %q", who.path, who.credential, name, got, want[name])
		}
	}
	if len(m.trailer) > 0 || len(m.values("Trailer")) > 0 {
		t.Errorf("%s: the upstream gets a trailer: %q %q", who.path, m.values("Trailer"), m.trailer)
	}
}

// TestTrustedProxies: the gateway believes what a trusted proxy adds to the headers of
// the client. The tests of package peer have the rules, and what it must not believe.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := startBehindProxy(t, `["127.0.0.1", "10.0.0.0/8"]`, people+app(up.url)+`
policies: {office: {networks: [203.0.113.0/24, "2001:db8::/32"]}}
routes: [{match: app.example.org/, upstream: app, auth: [basic], policy: office}]
`)
	for headers, chain := range map[string]string{
		"X-Forwarded-Proto: https\nX-Forwarded-Host: evil.example, App.Example.Org:443\nX-Forwarded-For: 198.51.100.7, 203.0.113.7, 10.1.2.3\n" +
			"x_forwarded_for: 6.6.6.6\nX-Auth-User: admin": "198.51.100.7, 203.0.113.7, 10.1.2.3, 127.0.0.1",
		`Forwarded: for=198.51.100.7, For="[2001:db8::1]:4711", for=10.1.2.3;proto=https;host="App.Example.Org:443"`: "198.51.100.7, [2001:db8::1]:4711, 10.1.2.3, 127.0.0.1",
	} {
		if a := g.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: internal\nAuthorization: "+basicService+"\n"+headers+"\n\n"); a.status != http.StatusOK {
			t.Fatalf("%s: %d", headers, a.status)
		}
		m := up.one(t)
		for name, want := range map[string]string{
			"X-Forwarded-For": chain, "X-Forwarded-Proto": "https", "X-Forwarded-Host": "App.Example.Org:443", "X-Auth-User": "service",
		} {
			if got := m.value(t, name); got != want {
				t.Errorf("%s: the upstream gets %s: %q, expected %q", headers, name, got, want)
			}
		}
	}
}

// plain is raw without TLS: it sends text from a local address to listen.http.
func (g *instance) plain(t testing.TB, from, text string) answer {
	t.Helper()
	return exchange(t, g.dialPlain(t, from), text)
}

// dialPlain connects to listen.http from a local address.
func (g *instance) dialPlain(t testing.TB, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn := must(dialer.DialContext(t.Context(), "tcp", authority(g.http)))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}
