package lab

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"authgate/e2e/bench/load"
	"authgate/e2e/bench/role"
)

// TestTraffic: each kind of traffic passes through the bare proxy, and the upstream sees as
// many messages as the clients.
func TestTraffic(t *testing.T) {
	t.Parallel()
	l := testLab(t, t.TempDir()+"/c.pem", t.TempDir()+"/k.pem")
	for kind, resource := range map[string]string{
		"download": "", "upload": role.UploadResource, "websocket": role.SocketResource,
		"events": role.EventsResource, "grpc": role.GRPCResource,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			upstream, scheme := play(t, "upstream")[0], "http://"
			if kind == "grpc" {
				scheme = "h2c://"
			}
			base := "https://" + play(t, "bare", "-upstream", scheme+upstream, "-certificate", l.Certificate, "-key", l.key)[0]
			var out strings.Builder
			to := strings.TrimSuffix(base+"/session/"+resource, "/")
			err := load.Play([]string{"-kind", kind, "-roots", l.Certificate, "-header", "X-Auth-User: alice",
				"-connections", "2", "-lasting", "300ms", "-bytes", fmt.Sprint(3 << 20), to}, &out)
			if err != nil {
				t.Fatal(err)
			}
			var requests, bytes int64
			if _, err := fmt.Sscanf(out.String(), "result %d %d", &requests, &bytes); err != nil {
				t.Fatalf("%v in %q", err, &out)
			}
			var answered, posted int64
			_, counts, err := l.Client.Get(t.Context(), "http://"+upstream+role.CountPath)
			if _, scanErr := fmt.Sscan(counts, &answered, &posted); err != nil || scanErr != nil {
				t.Fatal(err, scanErr)
			}
			large := kind == "download" || kind == "upload"
			if requests < 2 || requests > answered || large != (bytes == 6<<20) || (kind == "upload") != (posted == 6<<20) {
				t.Errorf("the clients saw %d messages and %d bytes, the upstream %d messages and %d bytes",
					requests, bytes, answered, posted)
			}
		})
	}
}

// play runs a role in this process until the test ends, and returns its addresses.
func play(t *testing.T, name string, args ...string) []string {
	t.Helper()
	stdin, stop := io.Pipe()
	addresses, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- role.Play(name, args, stdin, stdout) }()
	t.Cleanup(func() {
		stop.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", name, err)
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
func testLab(t *testing.T, certificate, key string) *Lab {
	t.Helper()
	l := &Lab{Certificate: certificate, key: key, both: os.DevNull}
	if err := l.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	l.Client.http.Timeout = 2 * time.Minute // a busy machine may take long for 100 MiB
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
	base := "https://" + play(t, "bare", "-upstream", "http://"+upstreams[1],
		"-certificate", l.Certificate, "-key", l.key)[0]
	if err := l.Client.forwards(t.Context(), base); err != nil {
		t.Error(err)
	}
	for resource, want := range map[string]int{"resource": len(role.Body), "1MiB": 1 << 20, "100MiB": 100 << 20} {
		status, answer, err := l.Client.Get(t.Context(), base+"/a/"+resource, "Authorization: Bearer x")
		if err != nil || status != http.StatusOK || len(answer) != want {
			t.Errorf("%s: status %d, %d bytes, error %v; want 200 and %d", resource, status, len(answer), err, want)
		}
	}
	response, err := l.Client.http.Post(base+"/a/resource", "text/plain", strings.NewReader("12345"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for i, want := range []string{"0 0\n", "4 5\n"} {
		if _, counts, err := l.Client.Get(t.Context(), "http://"+upstreams[i]+role.CountPath); counts != want || err != nil {
			t.Errorf("upstream %d counts %q, %v; want %q", i, counts, err, want)
		}
	}
}

// TestGateDecides: the role of a gate answers questions as a measurement needs.
func TestGateDecides(t *testing.T) {
	t.Parallel()
	l := testLab(t, t.TempDir()+"/c.pem", t.TempDir()+"/k.pem")
	if err := l.Client.decides(t.Context(), "http://"+play(t, "gate")[0], cookie, "X-Auth-User"); err != nil {
		t.Error(err)
	}
}

// TestForwards: a plain proxy must let the header through, without asking for more.
func TestForwards(t *testing.T) {
	t.Parallel()
	l := testLab(t, os.DevNull, os.DevNull)
	for answer, status := range map[string]int{
		"": http.StatusOK, "alice": http.StatusOK, "no gateway checks this": http.StatusUnauthorized,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, answer)
		}))
		if err := l.Client.forwards(t.Context(), server.URL); err == nil {
			t.Errorf("%d with %q: no error", status, answer)
		}
		server.Close()
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
		if err := l.Client.guarded(t.Context(), server.URL, "alice", "Authorization: right"); (err != nil) != c.fails {
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
			w.WriteHeader(map[bool]int{true: c.user, false: c.stranger}[r.Header.Get("Cookie") == "right" &&
				r.Host == "app.example.org"])
		}))
		l := testLab(t, os.DevNull, os.DevNull)
		gate := &Server{
			Address: strings.TrimPrefix(asked.URL, "http://"), path: "/verify", header: "Cookie: right", names: "X-User",
		}
		l.decide(gate)
		if err := gate.Check(t.Context()); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
		if got := gate.Target("", Question()).URL; got != asked.URL+"/verify" {
			t.Errorf("%s: asked at %s", name, got)
		}
		asked.Close()
	}
}

// TestImitate: both servers of a comparison get the same requests, each with its own
// credential if it needs one.
func TestImitate(t *testing.T) {
	t.Parallel()
	gateway := &Server{Address: "a", folder: "basic", header: "Authorization: x"}
	asked := func(s *Server) []string {
		to := s.Target("resource", []string{"A: b"})
		return append([]string{to.URL}, to.Headers...)
	}
	for name, c := range map[string]struct {
		subject, other Server
		want           [2][]string // the URLs and headers
	}{
		"a bare one beside authgate": {*gateway, Server{Address: "b"}, [2][]string{
			{"https://a/basic/resource", "Authorization: x", "A: b"}, {"https://b/basic/resource", "Authorization: x", "A: b"}}},
		"two of authgate": {*gateway, Server{Address: "b", folder: "session", header: "Cookie: y"}, [2][]string{
			{"https://a/basic/resource", "Authorization: x", "A: b"}, {"https://b/session/resource", "Cookie: y", "A: b"}}},
		"two bare ones": {Server{Address: "a"}, Server{Address: "b"}, [2][]string{
			{"https://a/session/resource", cookie, "A: b"}, {"https://b/session/resource", cookie, "A: b"}}},
	} {
		c.other.Imitate(&c.subject)
		if got := [2][]string{asked(&c.subject), asked(&c.other)}; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
