package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// identityNames are the headers with the identity of the user.
var identityNames = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email", "X-Auth-Roles", "X-Auth-Mechanism", "X-Auth-Provider",
}

// originNames are the headers with the origin of a request.
var originNames = []string{
	"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-User", "Forwarded", "X-Real-IP",
}

// ownNames are the identity headers of the upstream renamed.
var ownNames = []string{"Remote-User", "X-Who.Subject", "X_Mail", "Groups"}

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
		return map[string]string{
			"X-Auth-User": user, "X-Auth-Subject": "local:" + user, "X-Auth-Roles": roles,
			"X-Auth-Mechanism": mechanism, "X-Auth-Provider": "local",
		}
	}
	named := func(identity map[string]string) map[string]string {
		identity["X-Auth-Name"], identity["X-Auth-Email"] = "Alice Example", "alice@example.org"
		return identity
	}
	return []asker{
		{"/public", "X-Nothing: 1", nil},
		{"/public", "Cookie: " + alice.session, nil},
		{"/basic", "Authorization: " + basicService, map[string]string{
			"X-Auth-User": "service", "X-Auth-Subject": "basic:service", "X-Auth-Mechanism": "basic", "X-Auth-Provider": "basic",
		}},
		{"/session", "Cookie: " + alice.session, named(local("alice", "session", "user,admin"))},
		{"/session", "Cookie: " + bob.session, local("bob", "session", "user")}, // bob has no name and no address
		{"/bearer", "Authorization: " + alice.access, named(local("alice", "bearer", "user,admin"))},
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
	c := g.stranger()
	names := slices.Concat(identityNames, originNames, ownNames)
	var lines, all, trailer strings.Builder
	for _, name := range names {
		for _, s := range spellings(name) {
			fmt.Fprintf(&lines, "%s: %s\n", s, spoofed)
			fmt.Fprintf(&lines, "%s: %s\n", s, spoofed) // twice
			fmt.Fprintf(&all, "%s, ", s)
		}
		for _, s := range []string{name, strings.ReplaceAll(name, "-", "_")} { // net/http takes 4 KiB of trailers
			fmt.Fprintf(&trailer, "%s: %s\n", s, spoofed)
		}
	}
	for name, request := range map[string]string{
		"headers": "GET %s HTTP/1.1\nHost: localhost\n%s\n" + lines.String() + "\n",
		"Connection": "GET %s HTTP/1.1\nHost: localhost\n%s\nConnection: close, " + strings.TrimSuffix(all.String(), ", ") + "\n" +
			lines.String() + "\n",
		"trailers": "POST %s HTTP/1.1\nHost: localhost\n%s\nTE: trailers\nTrailer: " + strings.TrimSuffix(all.String(), ", ") +
			"\nTransfer-Encoding: chunked\n\n4\nbody\n0\n" + trailer.String() + "\n",
		"trailers without Trailer": "POST %s HTTP/1.1\nHost: localhost\n%s\nTransfer-Encoding: chunked\n\n4\nbody\n0\n" +
			trailer.String() + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range askers(g.signIn(c, "alice"), g.signIn(c, "bob")) {
				a := g.raw(t, fmt.Sprintf(request, who.path, who.credential))
				if a.status != http.StatusOK {
					t.Fatalf("%s with %s: %d %s", who.path, who.credential, a.status, a.body)
				}
				wantOwnWord(t, up.one(t), who)
			}
		})
	}
	t.Run("HTTP/2", func(t *testing.T) {
		for _, who := range askers(g.signIn(c, "alice"), g.signIn(c, "bob")) {
			header, value, _ := strings.Cut(who.credential, ": ")
			fields := []field{{strings.ToLower(header), value}}
			for _, name := range names {
				for _, s := range spellings(strings.ToLower(name)) {
					if s == strings.ToLower(s) {
						fields = append(fields, field{s, spoofed}, field{s, spoofed})
					}
				}
			}
			if status, err := g.get2(t, who.path, fields...); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d, %v", who.path, status, err)
			}
			wantOwnWord(t, up.one(t), who)
		}
		if _, err := g.get2(t, "/public", field{"X-Auth-User", spoofed}); !errors.Is(err, errReset) {
			t.Errorf("a name in upper case: %v", err)
		}
		up.none(t)
	})
}

// wantOwnWord checks that the identity and origin headers are the gateway's.
func wantOwnWord(t *testing.T, m message, who asker) {
	t.Helper()
	want := map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "localhost"}
	for name, value := range who.identity {
		want[name] = value
	}
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

// TestTrustedProxies: the gateway believes what a trusted proxy adds to the
// headers of the client. The tests of package peer have the rules, and what it must
// not believe.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := startBehindProxy(t, `["127.0.0.1", "10.0.0.0/8"]`, people+app(up.url)+`
policies: {office: {networks: [203.0.113.0/24, "2001:db8::/32"]}}
routes:
  - {match: /, upstream: app, auth: [basic], policy: office}
  - {match: app.example.org/, upstream: app, auth: [none]}
`)
	for _, test := range []struct {
		name, headers string
		chain         string // X-Forwarded-For at the upstream
	}{
		{"the rightmost that is no proxy", "X-Forwarded-For: 198.51.100.7, 203.0.113.7, 10.1.2.3", "198.51.100.7, 203.0.113.7, 10.1.2.3, 127.0.0.1"},
		{"Forwarded", `Forwarded: for=198.51.100.7, For="[2001:db8::1]:4711", for=10.1.2.3;proto=https`,
			"198.51.100.7, [2001:db8::1]:4711, 10.1.2.3, 127.0.0.1"},
		{"another spelling besides", "X-Forwarded-For: 203.0.113.7\nx_forwarded_for: 6.6.6.6\nX.Forwarded.For: 6.6.6.6", "203.0.113.7, 127.0.0.1"},
		{"an identity", "X-Forwarded-For: 203.0.113.7\nX-Auth-User: admin\nx_auth_roles: admin", "203.0.113.7, 127.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			proto := "X-Forwarded-Proto: https\n"
			if strings.Contains(test.headers, "proto=https") {
				proto = ""
			}
			a := g.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\nAuthorization: "+basicService+"\n"+proto+test.headers+"\n\n")
			if a.status != http.StatusOK {
				t.Fatalf("status %d", a.status)
			}
			m := up.one(t)
			for name, want := range map[string]string{
				"X-Forwarded-For": test.chain, "X-Forwarded-Proto": "https", "X-Auth-User": "service", "X-Auth-Roles": "",
			} {
				if got := m.value(t, name); got != want {
					t.Errorf("the upstream gets %s: %q, expected %q", name, got, want)
				}
			}
		})
	}
	a := g.plain(t, "127.0.0.1", "GET /x HTTP/1.1\nHost: internal\nX-Forwarded-Proto: https\nX-Forwarded-Host: evil.example, App.Example.Org:443\n\n")
	if got := up.one(t).value(t, "X-Forwarded-Host"); a.status != http.StatusOK || got != "App.Example.Org:443" {
		t.Errorf("the host that the proxy adds: %d, X-Forwarded-Host %q", a.status, got)
	}
}

// plain is raw without TLS: it sends text from a local address to listen.http.
func (g *instance) plain(t testing.TB, from, text string) answer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", authority(g.http))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return exchange(t, conn, text)
}
