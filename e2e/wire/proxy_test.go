package wire

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestForwardedRequest: the upstream gets exactly these bytes, over HTTP/1.1 and
// HTTP/2. TestRewrite and its neighbors in package gateway have the rules.
func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+`
routes:
  - {match: /app/, upstream: app, auth: [none], strip_prefix: /app, headers: {set: {X-Env: production}, remove: [X-Debug]}}
  - {match: /session, upstream: app, auth: [session]}
  - {match: /kept, upstream: app, auth: [session], forward_credentials: true}
`)
	session := g.SignIn(g.Stranger(), "alice").Session
	alice := []string{
		"X-Auth-Email: alice@example.org", "X-Auth-Mechanism: session", "X-Auth-Name: Alice Example",
		"X-Auth-Provider: local", "X-Auth-Roles: user,admin", "X-Auth-Subject: local:alice", "X-Auth-User: alice",
	}
	origin := []string{"Host: localhost", "X-Forwarded-For: 127.0.0.1",
		"X-Forwarded-Host: localhost", "X-Forwarded-Proto: https", "X-Request-Id: 7f3c.A_b-9"}
	for _, c := range []struct {
		target string
		header []string
		line   string
		want   []string // besides origin
	}{
		{"/app/x%41;y?a=%zz&b", []string{"x-env: spoofed", "x-debug: 1", "x-line: 1", "x-line: 2", "x-line: 1"},
			"/x%41;y?a=%zz&b", []string{"X-Env: production", "X-Forwarded-Prefix: /app", "X-Line: 1", "X-Line: 2", "X-Line: 1"}},
		{"/%61pp/app/?",
			[]string{`cookie: a="x, y"; b=%41; c=; d; e==é=; session_idx=1; ` + session + `; f=1`, "authorization: Basic x"},
			"/app/?",
			[]string{`Cookie: a="x, y"; b=%41; c=; d; e==é=; session_idx=1; f=1`, "Authorization: Basic x",
				"X-Env: production", "X-Forwarded-Prefix: /app"}},
		{"/session", []string{"cookie: " + session, "authorization: Basic YXBwOmFwcA==", "user-agent: me/1"}, "/session",
			append([]string{"Authorization: Basic YXBwOmFwcA==", "User-Agent: me/1"}, alice...)},
		{"/kept", []string{"cookie: a=b; " + session}, "/kept", append([]string{"Cookie: a=b; " + session}, alice...)},
	} {
		header := append(c.header, "x-request-id: 7f3c.A_b-9")
		check := func(protocol string) {
			t.Helper()
			got := up.One(t)
			want := slices.Concat(origin, c.want)
			slices.Sort(got.Head)
			slices.Sort(want)
			if got.Line != "GET "+c.line+" HTTP/1.1" || !slices.Equal(got.Head, want) {
				t.Errorf("%s over %s becomes %s\n%q, expected %s\n%q", c.target, protocol, got.Line, got.Head, c.line, want)
			}
		}
		hop := "Connection: close, X-Hop, X-Auth-User\nX-Hop: 1\nKeep-Alive: 1\n" +
			"Proxy-Authorization: Basic x\nProxy-Connection: close\n"
		g.Raw(t, "GET "+c.target+" HTTP/1.1\nHost: localhost\n"+hop+strings.Join(header, "\n")+"\n\n")
		check("HTTP/1.1")
		var fields []field
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			fields = append(fields, field{name, value})
		}
		if status, err := get2(t, g, c.target, fields...); err != nil || status != http.StatusOK {
			t.Errorf("%s over HTTP/2: %d, %v", c.target, status, err)
		}
		check("HTTP/2")
	}
}

// TestResponses checks what the client gets: the coding, cookies and trailers of the
// upstream, and answers without a body.
func TestResponses(t *testing.T) {
	t.Parallel()
	g := world.Start(t, targets+world.App(world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Set-Cookie"], h["Etag"], h["Trailer"] = []string{"a=1", "b=2"}, []string{`"1"`}, []string{"X-Sum"}
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "hello") // which is not gzip: it must pass as it is
		h.Set("X-Sum", "5")
		h.Set(http.TrailerPrefix+"X-Late", "6")
	})))
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.Stranger(), "HTTP/1.1": g.Stranger11()} {
		for _, want := range []struct {
			method, condition, summary string
		}{
			{"GET", "", `200 "hello" "gzip" "1" [a=1 b=2] 5 6`},
			{"HEAD", "", `200 "" "gzip" "1" [a=1 b=2]  `},
			{"GET", `"1"`, `304 "" "" "1" [a=1 b=2]  `},
		} {
			q := world.Must(http.NewRequest(want.method, g.Base+"/", nil))(t)
			q.Header.Set("If-None-Match", want.condition)
			a := world.Must(c.Do(q))(t)
			defer a.Body.Close()
			body, h := world.Must(io.ReadAll(a.Body))(t), a.Header
			got := fmt.Sprintf("%d %q %q %s %v %s %s", a.StatusCode, body, h.Get("Content-Encoding"), h.Get("Etag"),
				h["Set-Cookie"], a.Trailer.Get("X-Sum"), a.Trailer.Get("X-Late"))
			if got != want.summary {
				t.Errorf("%s by %s: %s, expected %s", want.method, protocol, got, want.summary)
			}
		}
	}
}
