package world

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Dial opens a TLS connection to the gateway for one protocol (an ALPN name), with
// a time limit.
func (g *Instance) Dial(t testing.TB, protocol string) *tls.Conn {
	t.Helper()
	config := g.TLS()
	config.NextProtos = []string{protocol}
	conn := Must(tls.Dial("tcp", Authority(g.Base), config))(t)
	t.Cleanup(func() { conn.Close() })
	Limit(t, conn)
	return conn
}

// Limit sets the time limit of a connection.
func Limit(t testing.TB, conn net.Conn) {
	t.Helper()
	NoError(t, conn.SetDeadline(time.Now().Add(Patience)))
}

// Raw sends text over HTTP/1.1 and reads one answer. It sends CRLF for each line
// feed. The text has the empty line after the headers.
func (g *Instance) Raw(t testing.TB, text string) Answer {
	t.Helper()
	return Exchange(t, g.Dial(t, "http/1.1"), text)
}

// Exchange is Raw on a connection.
func Exchange(t testing.TB, conn net.Conn, text string) Answer {
	t.Helper()
	Limit(t, conn)
	go func() { // the answer may come before the end of the request
		_, _ = io.WriteString(conn, crlf(text))
	}()
	a, err := ReadAnswer(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("no answer to %.200q: %v", text, err)
	}
	return a
}

// crlf ends lines as HTTP/1.1 does.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

// ReadAnswer reads an answer over HTTP/1.1.
func ReadAnswer(in *bufio.Reader) (Answer, error) {
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}, err
}

// IdentityNames are the headers with the identity of the user.
var IdentityNames = []string{
	"X-Auth-User", "X-Auth-Subject", "X-Auth-Name", "X-Auth-Email", "X-Auth-Roles", "X-Auth-Mechanism",
	"X-Auth-Provider", "X-Auth-Actor",
}

// Spellings are names that some application reads as the header name.
func Spellings(name string) []string {
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

// Plain is Raw without TLS: it sends text from a local address to listen.http.
func (g *Instance) Plain(t testing.TB, from, text string) Answer {
	t.Helper()
	return Exchange(t, g.DialPlain(t, from), text)
}

// DialPlain connects to listen.http from a local address.
func (g *Instance) DialPlain(t testing.TB, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn := Must(dialer.DialContext(t.Context(), "tcp", Authority(g.HTTP)))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}
