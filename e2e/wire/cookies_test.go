package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestTenThousandCookies: the gateway finds its cookie among very many and very
// large ones, and the upstream gets the others unchanged.
func TestTenThousandCookies(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"limits: {max_header_bytes: 1048576}\nsession: {cookie: "+
		"__Host-session}\n"+
		"routes: [{match: /secure, upstream: app, auth: [session]}, {match: /public, upstream: app, auth: [none]}]\n")
	login := g.Do(g.Stranger(), "POST", "/login", world.AliceJSON, "Content-Type", world.TypeJSON)
	session := world.CookieOf(login)
	if attributes := login.Header.Get("Set-Cookie"); !strings.HasPrefix(session, "__Host-session=") ||
		!strings.Contains(attributes, "; Path=/;") ||
		!strings.Contains(attributes, "Secure") || !strings.Contains(attributes, "HttpOnly") ||
		strings.Contains(attributes, "Domain") {
		t.Fatalf("%d: browsers refuse the cookie %q", login.Status, attributes)
	}
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("c%d=%d", i, i))
	}
	all := strings.Join(many, "; ")
	huge := "a=" + strings.Repeat("x", 800_000)
	for _, test := range []struct {
		name, cookies string
		status        int
		others        string // cookies that the upstream gets
	}{
		{"ours among them", strings.Join(many[:5_000], "; ") + "; " + session + "; " + strings.Join(many[5_000:], "; "), 200,
			all},
		{"ours in a line of its own", all + "\nCookie: " + session, 200, all},
		{"ours before a huge one", session + "; " + huge, 200, huge},
		{"ours as many times", strings.Repeat(session+"; ", 10_000) + "a=b", 200, "a=b"},
		{"not ours", all, 401, ""},
		{"another with our name", session + "; " + all + "; __Host-session=x", 400, ""},
		{"a huge one with our name", "__Host-session=" + strings.Repeat("x", 800_000), 401, ""},
		{"names that are nearly ours", strings.ReplaceAll(all, "c", "__host-session"), 401, ""},
		{"nothing but delimiters", strings.Repeat(";", 500_000) + session, 200, ""},
		{"too much", strings.Repeat(all, 12), 431, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := g.Raw(t, "GET /secure HTTP/1.1\nHost: localhost\nCookie: "+test.cookies+"\n\n")
			if a.Status != test.status {
				t.Errorf("%d, expected %d", a.Status, test.status)
			}
			if test.status != http.StatusOK {
				up.None(t)
				return
			}
			m := up.One(t)
			if got := strings.Join(m.Values("Cookie"), "; "); got != test.others || m.Value(t, "X-Auth-User") != "alice" {
				t.Errorf("for %q the upstream gets the cookies %.100q, %d bytes of %d", m.Value(t, "X-Auth-User"), got, len(got),
					len(test.others))
			}
		})
	}
	if a := g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", session); a.Status != http.StatusOK {
		t.Errorf("afterwards: %d", a.Status)
	}
}
