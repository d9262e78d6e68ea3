package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/acme"
)

// asked are the commands that Redis has been sent so far, but for those by
// which an instance sees that it is there.
func asked(t *testing.T, redis *redisServer) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(redis.Do(t, "INFO", "commandstats")) {
		command, rest, _ := strings.Cut(line, ":")
		if calls, _, _ := strings.Cut(rest, ","); calls != "" && !slices.Contains([]string{"cmdstat_info", "cmdstat_role", "cmdstat_ping"}, command) {
			fmt.Fprintln(&all, command, calls)
		}
	}
	return all.String()
}

// TestACMEHostile: who is no authority gets nothing by challenges.
func TestACMEHostile(t *testing.T) {
	t.Parallel()
	p, redis, up := startPebble(t, days), startRedis(t), record(t)
	g, _ := p.twins(up, redis)
	g.run()
	roots := p.trust()
	g.obtains(roots)
	g.challengesForOthers(t, up, redis)
	g.challengesForIts(t, up)
	g.speaksNothing(t, up)
	g.worksOverTLS(t, up, roots)
}

// challengesForOthers: challenges for names that are not configured reach
// neither Redis nor the authority.
func (g *acmeGateway) challengesForOthers(t *testing.T, up *recorder, redis *redisServer) {
	t.Helper()
	told, before, after := g.p.log.String(), "", ""
	for i := range 5 { // the gateway may do something by itself, but not each time
		before = asked(t, redis)
		other := fmt.Sprintf("other%d.test", i) // which no cache knows
		for _, name := range []string{other, other + "." + gateName, "*." + gateName, "127.0.0.1", ""} {
			g.challengesFor(t, name)
		}
		if after = asked(t, redis); after == before {
			break
		}
	}
	if after != before {
		t.Errorf("challenges for other names have reached Redis: before\n%s\nafter\n%s", before, after)
	}
	if g.p.log.String() != told {
		t.Error("challenges for other names have reached the authority")
	}
	up.none(t)
}

// challengesFor asks for both kinds, which nobody has ordered.
func (g *acmeGateway) challengesFor(t *testing.T, name string) {
	t.Helper()
	config := &tls.Config{ServerName: name, NextProtos: []string{acme.Protocol}, InsecureSkipVerify: true}
	if conn, err := tls.Dial("tcp", g.secure, config); err == nil {
		t.Errorf("a challenge for %q is answered", name)
		conn.Close()
	}
	const target = "/.well-known/acme-challenge/x"
	request := "GET " + target + " HTTP/1.1\nHost: " + name + "\n"
	a := g.plain(t, "127.0.0.1", request+"\n")
	if want := g.public + target; a.status != http.StatusPermanentRedirect || a.header.Get("Location") != want {
		t.Errorf("a challenge for %q: %d to %q, expected to %q", name, a.status, a.header.Get("Location"), want)
	}
	if a := g.plain(t, "127.0.0.1", request+"Cookie: session_id=x\n\n"); a.status != http.StatusForbidden {
		t.Errorf("a challenge for %q with a credential: %d", name, a.status)
	}
}

// challengesForIts: many challenges for its name, of which none is under way,
// are refused, and fill no log.
func (g *acmeGateway) challengesForIts(t *testing.T, up *recorder) {
	t.Helper()
	const many = 100
	before := len(g.entries())
	for range many {
		g.challengesFor(t, gateName)
	}
	lines := 0
	for _, entry := range g.entries()[before:] {
		if entry["msg"] != "request" {
			lines++
		}
	}
	if lines > 20 {
		t.Errorf("%d challenges make %d lines in the log", many, lines)
	}
	up.none(t)
}

// speaksNothing: over a connection for challenges nobody is served.
func (g *acmeGateway) speaksNothing(t *testing.T, up *recorder) {
	t.Helper()
	for _, text := range []string{
		"GET /open HTTP/1.1\r\nHost: " + gateName + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		config := &tls.Config{ServerName: gateName, NextProtos: []string{acme.Protocol, "other"}, InsecureSkipVerify: true}
		conn, err := tls.Dial("tcp", g.secure, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		limit(t, conn)
		if got := conn.ConnectionState().NegotiatedProtocol; got != acme.Protocol {
			t.Errorf("the protocol is %q", got)
		}
		_, _ = io.WriteString(conn, text) // it may have hung up before
		if answer, _ := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("over %s, it answers %q", acme.Protocol, answer)
		}
	}
	up.none(t)
}
