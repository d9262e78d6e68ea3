//go:build interop

package apps

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// clientRoutes has a route for each way to sign in.
const clientRoutes = world.People + `
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /session, upstream: app, auth: [session]}
  - {match: /bearer, upstream: app, auth: [bearer]}
`

// The programs of clients do the same: a request without credentials, one by Basic, one with
// a session from the sign-in form, and one with an API token. They print the four
// statuses. $1 is the URL of the gateway, $2 the file of its authority, $3 an API token.
const (
	curlClient = `
curl() { command curl -sS --cacert "$ca" -o /dev/null -w '%{http_code} ' "$@"; }
base=$1 ca=$2
curl "$base/session"
curl -u service:s3rvice "$base/basic"
command curl -sS --cacert "$ca" -o /dev/null -b jar -c jar -d username=alice --data-urlencode password=wonderland "$base/login"
curl -b jar "$base/session"
curl -H "Authorization: Bearer $3" "$base/bearer"
`
	wgetClient = `
get() { wget -q -S -O /dev/null --ca-certificate="$ca" "$@" 2>&1 | sed -n 's/^ *HTTP[^ ]* \([0-9]*\).*/\1/p' | tail -n 1 | tr '\n' ' '; }
base=$1 ca=$2
get "$base/session"
get --user=service --password=s3rvice "$base/basic"
wget -q -O /dev/null --ca-certificate="$ca" --save-cookies=jar --keep-session-cookies --post-data='username=alice&password=wonderland' "$base/login" || true
get --load-cookies=jar "$base/session"
get --header="Authorization: Bearer $3" "$base/bearer"
`
	requestsClient = `
import sys, requests
base, ca, token = sys.argv[1:]
s = requests.Session()
s.verify, s.trust_env = ca, False
said = [s.get(base + "/session").status_code, s.get(base + "/basic", auth=("service", "s3rvice")).status_code]
s.post(base + "/login", data={"username": "alice", "password": "wonderland"}, allow_redirects=False)
print(*said, s.get(base + "/session").status_code, requests.get(base + "/bearer", headers={"Authorization": "Bearer " + token}, verify=ca).status_code)
`
	httpxClient = `
import ssl, sys, httpx
base, ca, token = sys.argv[1:]
with httpx.Client(verify=ssl.create_default_context(cafile=ca), base_url=base, trust_env=False) as s:
    said = [s.get("/session").status_code, s.get("/basic", auth=("service", "s3rvice")).status_code]
    s.post("/login", data={"username": "alice", "password": "wonderland"})
    print(*said, s.get("/session").status_code, s.get("/bearer", headers={"Authorization": "Bearer " + token}).status_code)
`
	fetchClient = `
const [base, , token] = process.argv.slice(2)
const get = async (path, headers = {}) => (await fetch(base + path, { headers })).status
const said = [await get('/session'), await get('/basic', { Authorization: 'Basic ' + btoa('service:s3rvice') })]
const form = new URLSearchParams({ username: 'alice', password: 'wonderland' })
const signedIn = await fetch(base + '/login', { method: 'POST', body: form, redirect: 'manual' })
const Cookie = signedIn.headers.getSetCookie().map(c => c.split(';')[0]).join('; ')
console.log(...said, await get('/session', { Cookie }), await get('/bearer', { Authorization: 'Bearer ' + token }))
`
)

// TestClients: clients that others wrote sign in in each way.
func TestClients(t *testing.T) {
	for name, c := range map[string]struct{ interpreter, file, program string }{
		"curl":     {"sh", "client.sh", curlClient},
		"wget":     {"sh", "client.sh", wgetClient},
		"requests": {python(), "client.py", requestsClient},
		"httpx":    {python(), "client.py", httpxClient},
		"fetch":    {"node", "client.mjs", fetchClient},
	} {
		t.Run(name, func(t *testing.T) {
			up := world.Record(t)
			g := world.Start(t, clientRoutes+world.App(up.URL))
			token, dir := g.APIToken("alice"), t.TempDir()
			world.WriteAll(t, dir, map[string]string{c.file: strings.TrimLeft(c.program, "\n")})
			cmd := exec.Command(c.interpreter, c.file, g.Base, filepath.Join(g.Dir, g.CA), token)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "NODE_EXTRA_CA_CERTS="+filepath.Join(g.Dir, g.CA))
			if got := strings.TrimSpace(runs(t, cmd)); got != "401 200 200 200" {
				t.Errorf("the client gets %s", got)
			}
			wantClient(t, up)
		})
	}
	t.Run("net_http", func(t *testing.T) {
		up := world.Record(t)
		g := world.Start(t, clientRoutes+world.App(up.URL))
		token, c := g.APIToken("alice"), g.Client()
		got := fmt.Sprint(g.Status(c, "GET", "/session"), g.Status(c, "GET", "/basic", "Authorization", world.BasicService),
			g.Do(c, "POST", "/login", "username=alice&password=wonderland", "Content-Type", world.TypeForm).Status,
			g.Status(c, "GET", "/session"), g.Status(c, "GET", "/bearer", "Authorization", "Bearer "+token))
		if want := fmt.Sprint(http.StatusUnauthorized, http.StatusOK, http.StatusOK, http.StatusOK,
			http.StatusOK); got != want {
			t.Errorf("the client gets %s, expected %s", got, want)
		}
		wantClient(t, up)
	})
}

// python is Debian's Python, which has Debian's packages.
func python() string {
	if _, err := os.Stat("/usr/bin/python3"); err == nil {
		return "/usr/bin/python3"
	}
	return "python3"
}

// wantClient checks what reached the upstream.
func wantClient(t *testing.T, up *world.Recorder) {
	t.Helper()
	var got [][3]string
	for _, m := range up.All() {
		got = append(got, [3]string{m.Value(t, "X-Auth-User"), m.Value(t, "X-Auth-Mechanism"),
			m.Value(t, "Authorization") + m.Value(t, "Cookie")})
	}
	want := [][3]string{{"service", "basic", ""}, {"alice", "session", ""}, {"alice", "bearer", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the upstream got (-want +got):\n%s", diff)
	}
}
