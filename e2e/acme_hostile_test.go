package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// asked returns the commands that Redis got so far, except those by which
// instances confirm contact.
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

// acmeProtocol is the ALPN name of TLS-ALPN-01 (RFC 8737).
const acmeProtocol = "acme-tls/1"

// challengesForOthers: challenges for names that are not configured reach
// neither Redis nor the authority.
func (g *acmeGateway) challengesForOthers(t *testing.T, up *recorder, redis *redisServer) {
	t.Helper()
	told, before, after := g.p.log.String(), "", ""
	for i := range 5 { // the gateway may send commands of its own, but not each time
		before = asked(t, redis)
		other := fmt.Sprintf("other%d.test", i) // which is in no cache
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

// challengesFor sends both kinds of challenges, which belong to no order.
func (g *acmeGateway) challengesFor(t *testing.T, name string) {
	t.Helper()
	config := &tls.Config{ServerName: name, NextProtos: []string{acmeProtocol}, InsecureSkipVerify: true}
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

// challengesForIts: many challenges for the configured name that belong to no
// order are refused and do not fill the log.
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

// speaksNothing: a connection for challenges serves no request.
func (g *acmeGateway) speaksNothing(t *testing.T, up *recorder) {
	t.Helper()
	for _, text := range []string{
		"GET /open HTTP/1.1\r\nHost: " + gateName + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		config := &tls.Config{ServerName: gateName, NextProtos: []string{acmeProtocol, "other"}, InsecureSkipVerify: true}
		conn, err := tls.Dial("tcp", g.secure, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		limit(t, conn)
		if got := conn.ConnectionState().NegotiatedProtocol; got != acmeProtocol {
			t.Errorf("the protocol is %q", got)
		}
		_, _ = io.WriteString(conn, text) // the gateway may have closed it
		if answer, _ := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("over %s, it answers %q", acmeProtocol, answer)
		}
	}
	up.none(t)
}
