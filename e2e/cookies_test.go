package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestTenThousandCookies: the gateway finds its cookie among very many and very
// large ones, and the upstream gets the others unchanged.
func TestTenThousandCookies(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"limits: {max_header_bytes: 1048576}\nsession: {cookie: __Host-session}\n"+
		"routes: [{match: /secure, upstream: app, auth: [session]}, {match: /public, upstream: app, auth: [none]}]\n")
	login := g.do(g.stranger(), "POST", "/login", right, "Content-Type", typeJSON)
	session := cookieOf(login)
	if attributes := login.header.Get("Set-Cookie"); !strings.HasPrefix(session, "__Host-session=") || !strings.Contains(attributes, "; Path=/;") ||
		!strings.Contains(attributes, "Secure") || !strings.Contains(attributes, "HttpOnly") || strings.Contains(attributes, "Domain") {
		t.Fatalf("%d: browsers refuse the cookie %q", login.status, attributes)
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
		{"ours among them", strings.Join(many[:5_000], "; ") + "; " + session + "; " + strings.Join(many[5_000:], "; "), 200, all},
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
			a := g.raw(t, "GET /secure HTTP/1.1\nHost: localhost\nCookie: "+test.cookies+"\n\n")
			if a.status != test.status {
				t.Errorf("%d, expected %d", a.status, test.status)
			}
			if test.status != http.StatusOK {
				up.none(t)
				return
			}
			m := up.one(t)
			if got := strings.Join(m.values("Cookie"), "; "); got != test.others || m.value(t, "X-Auth-User") != "alice" {
				t.Errorf("for %q the upstream gets the cookies %.100q, %d bytes of %d", m.value(t, "X-Auth-User"), got, len(got), len(test.others))
			}
		})
	}
	if a := g.do(g.stranger(), "GET", "/secure", "", "Cookie", session); a.status != http.StatusOK {
		t.Errorf("afterwards: %d", a.status)
	}
}
