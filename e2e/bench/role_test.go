package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestTraffic: each kind of traffic passes through the bare proxy, and the upstream sees as
// many messages as the clients.
func TestTraffic(t *testing.T) {
	t.Parallel()
	l := testLab(t, t.TempDir()+"/c.pem", t.TempDir()+"/k.pem")
	for kind, resource := range map[string]string{
		"download": "", "upload": uploadResource, "websocket": socketResource, "events": eventsResource, "grpc": grpcResource,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			upstream, scheme := play(t, "upstream")[0], "http://"
			if kind == "grpc" {
				scheme = "h2c://"
			}
			base := "https://" + play(t, "bare", "-upstream", scheme+upstream, "-certificate", l.certificate, "-key", l.key)[0]
			var out strings.Builder
			err := makeTraffic([]string{"-kind", kind, "-url", strings.TrimSuffix(base+"/session/"+resource, "/"), "-roots", l.certificate,
				"-header", "X-Auth-User: alice", "-connections", "2", "-lasting", "300ms", "-bytes", fmt.Sprint(3 << 20)}, &out)
			if err != nil {
				t.Fatal(err)
			}
			seen, err := parseWrk(out.String())
			if err != nil {
				t.Fatal(err)
			}
			var answered, posted int64
			_, counts, err := l.get(t.Context(), "http://"+upstream+countPath)
			if _, scanErr := fmt.Sscan(counts, &answered, &posted); err != nil || scanErr != nil {
				t.Fatal(err, scanErr)
			}
			large := kind == "download" || kind == "upload"
			if seen.requests < 2 || seen.requests > answered || large != (seen.bytes == 6<<20) || (kind == "upload") != (posted == 6<<20) {
				t.Errorf("the clients saw %+v, the upstream %d messages and %d bytes", seen, answered, posted)
			}
		})
	}
	for _, args := range [][]string{{"-kind", "pigeons"}, {"-kind", "grpc", "-what"}} {
		if err := makeTraffic(args, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

// play runs a role in this process until the test ends, and returns its addresses.
func play(t *testing.T, role string, args ...string) []string {
	t.Helper()
	stdin, stop := io.Pipe()
	addresses, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- playRole(role, args, stdin, stdout) }()
	t.Cleanup(func() {
		stop.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", role, err)
		}
	})
	line := make([]byte, 256)
	n, err := addresses.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(line[:n]))
}

// testLab returns a lab with a certificate in these files.
func testLab(t *testing.T, certificate, key string) *lab {
	t.Helper()
	l := &lab{certificate: certificate, key: key, both: os.DevNull}
	if err := l.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	l.client.Timeout = 2 * time.Minute // a busy machine may take long for 100 MiB
	return l
}

// TestRolesForwardAll: the two roles work together over TLS as in a measurement, and
// count the requests and the bytes of their bodies.
func TestRolesForwardAll(t *testing.T) {
	t.Parallel()
	l := testLab(t, t.TempDir()+"/c.pem", t.TempDir()+"/k.pem")
	upstreams := play(t, "upstream")
	if len(upstreams) != 2 {
		t.Fatalf("the upstream has the addresses %v, want two", upstreams)
	}
	base := "https://" + play(t, "bare", "-upstream", "http://"+upstreams[1], "-certificate", l.certificate, "-key", l.key)[0]
	if err := l.forwards(t.Context(), base); err != nil {
		t.Error(err)
	}
	for resource, want := range map[string]int{"resource": len(body), "1MiB": 1 << 20, "100MiB": 100 << 20} {
		status, answer, err := l.get(t.Context(), base+"/a/"+resource, "Authorization: Bearer x")
		if err != nil || status != http.StatusOK || len(answer) != want {
			t.Errorf("%s: status %d, %d bytes, error %v; want 200 and %d", resource, status, len(answer), err, want)
		}
	}
	response, err := l.client.Post(base+"/a/resource", "text/plain", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for i, want := range []string{"0 0\n", "4 5\n"} {
		if _, counts, err := l.get(t.Context(), "http://"+upstreams[i]+countPath); counts != want || err != nil {
			t.Errorf("upstream %d counts %q, %v; want %q", i, counts, err, want)
		}
	}
}

// TestForwards: a plain proxy must let the header through, without asking for more.
func TestForwards(t *testing.T) {
	t.Parallel()
	l := testLab(t, os.DevNull, os.DevNull)
	for answer, status := range map[string]int{"": http.StatusOK, "alice": http.StatusOK, "no gateway checks this": http.StatusUnauthorized} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, answer)
		}))
		if err := l.forwards(t.Context(), server.URL); err == nil {
			t.Errorf("%d with %q: no error", status, answer)
		}
		server.Close()
	}
}

// TestIdlersStayOpen: a connection that the server closes, or an answer other than
// 200, fails the run.
func TestIdlersStayOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		fails bool
	}{"open": {"/", false}, "closing": {"/close", true}, "refused": {"/refuse", true}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/close":
				w.Header().Set("Connection", "close")
			case "/refuse":
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer server.Close()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		all := idlers{&idleRequests{conn, "GET " + c.path + " HTTP/1.1\r\nHost: a\r\n\r\n"}}
		defer all.close()
		if err := errors.Join(all.ask(), all.ask()); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
	}
}

// TestGuarded measures nothing unless the server answers with the user, and only to
// the credential.
func TestGuarded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stranger, user int // the status
		body           string
		fails          bool
	}{
		"guarded":      {http.StatusUnauthorized, http.StatusOK, "alice", false},
		"open":         {http.StatusOK, http.StatusOK, "alice", true},
		"closed":       {http.StatusUnauthorized, http.StatusUnauthorized, "", true},
		"another user": {http.StatusUnauthorized, http.StatusOK, "bob", true},
		"redirect":     {http.StatusUnauthorized, http.StatusFound, "alice", true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/signin")
			w.WriteHeader(map[bool]int{true: c.user, false: c.stranger}[r.Header.Get("Authorization") == "right"])
			io.WriteString(w, c.body)
		}))
		l := testLab(t, os.DevNull, os.DevNull)
		if err := l.guarded(t.Context(), server.URL, "alice", "Authorization: right"); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
		server.Close()
	}
}

// TestDecider measures no decisions unless the server tells the right user, and only to the
// credential.
func TestDecider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stranger, user int // the status
		names          string
		fails          bool
	}{
		"decides":      {http.StatusUnauthorized, http.StatusAccepted, "alice", false},
		"open":         {http.StatusOK, http.StatusOK, "alice", true},
		"closed":       {http.StatusUnauthorized, http.StatusForbidden, "alice", true},
		"another user": {http.StatusUnauthorized, http.StatusOK, "bob", true},
	} {
		asked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-User", c.names)
			w.WriteHeader(map[bool]int{true: c.user, false: c.stranger}[r.Header.Get("Cookie") == "right" && r.Host == "app.example.org"])
		}))
		l := testLab(t, os.DevNull, os.DevNull)
		gate := l.decider(&server{address: strings.TrimPrefix(asked.URL, "http://"), path: "/verify", header: "Cookie: right", names: "X-User"})
		if err := gate.check(t.Context()); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
		if got := gate.target(task{headers: question}).url; got != asked.URL+"/verify" {
			t.Errorf("%s: asked at %s", name, got)
		}
		asked.Close()
	}
}
