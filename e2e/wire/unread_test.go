package wire

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// startUnread starts the application of testdata/unread, and returns its URL and what it says.
func startUnread(t *testing.T) (url string, said *world.Output) {
	t.Helper()
	port, said := world.FreePort(t), &world.Output{}
	cmd := exec.Command("python3", "testdata/unread/server.py", port)
	cmd.Stdout, cmd.Stderr = said, said
	url = "http://127.0.0.1:" + port
	if err := world.Await(url, world.Spawn(t, cmd)); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return url, said
}

// forgedBody is a request as the gateway would write it for root.
const forgedBody = "GET /admin/secret HTTP/1.1\r\nHost: x\r\nX-Auth-User: root\r\n\r\n"

// forgedSeen is what the application says when it has served that.
const forgedSeen = "/admin/secret root"

// TestUnreadBody: an application that leaves bodies unread, as Python's http.server does, serves no
// request that a client has hidden in a body, and the client's next request gets its own answer.
// With POST, PUT and PATCH the gateway notices, says so, and no other gets through.
func TestUnreadBody(t *testing.T) {
	t.Parallel()
	for _, fast := range []bool{true, false} {
		t.Run(fmt.Sprintf("fast path %t", fast), func(t *testing.T) {
			t.Parallel()
			url, said := startUnread(t)
			g := world.Start(t, world.People+fmt.Sprintf("upstreams: {app: {url: %q, fast_path: %t}}\n", url, fast)+`
routes:
  - {match: /open/, upstream: app, auth: [none]}
  - {match: /admin/, upstream: app, auth: [session], policy: {roles: [admin]}}
`)
			for version, client := range map[string]*http.Client{"HTTP/1.1": g.Stranger11(), "HTTP/2": g.Stranger()} {
				attack := func(method string) {
					t.Helper()
					for _, sent := range []struct{ path, body string }{{"/open/x", forgedBody}, {"/open/y", ""}} {
						if a := g.Do(client, method, sent.path, sent.body); a.Status != http.StatusOK || a.Body != sent.path {
							t.Errorf("%s, %s %s: %d %q", version, method, sent.path, a.Status, a.Body)
						}
					}
				}
				for range 5 {
					for _, method := range []string{"GET", "DELETE", "OPTIONS"} {
						attack(method)
					}
				}
				if strings.Contains(said.String(), forgedSeen) {
					t.Fatalf("%s: the application has served a request of a body:\n%s", version, said)
				}
			}
			client := g.Stranger11()
			for range 100 { // an answer may be the wrong one until the gateway knows
				g.Do(client, "POST", "/open/x", forgedBody)
				if strings.Contains(g.Log.String(), "has sent bytes that belong to no response") {
					break
				}
			}
			if !strings.Contains(g.Log.String(), "reuse_connections: false") {
				t.Fatalf("the gateway does not notice:\n%s", g.Log)
			}
			// The application may serve requests from before at any time, so those from now on are others.
			later := strings.Replace(forgedBody, "/secret", "/later", 1)
			for range 20 {
				for _, method := range []string{"POST", "PUT", "PATCH"} {
					if a := g.Do(client, method, "/open/x", later); a.Status != http.StatusOK || a.Body != "/open/x" {
						t.Errorf("%s: %d %q", method, a.Status, a.Body)
					}
				}
			}
			if n := strings.Count(said.String(), "/admin/later"); n != 0 {
				t.Errorf("after the error %d requests of bodies were served", n)
			}
		})
	}
}
