package wire

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// landings returns for each address the origin to which it leads from a page, or
// "". It asks the parser of Node.js, which follows the URL standard as browsers
// do.
func landings(t *testing.T, page string, addresses []string) []string {
	t.Helper()
	question := world.Must(json.Marshal(map[string]any{"page": page, "addresses": addresses}))(t)
	cmd := exec.CommandContext(t.Context(), "node", "--eval", `
		const { page, addresses } = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(addresses.map((address) => {
			try {
				const u = new URL(address, page);
				return u.host === "" ? u.protocol : u.protocol + "//" + u.host
			} catch { return "" }
		})));`)
	cmd.Stdin = strings.NewReader(string(question))
	answer, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("asking Node.js: %v\n%s", err, answer)
	}
	var origins []string
	if err := json.Unmarshal(answer, &origins); err != nil || len(origins) != len(addresses) {
		t.Fatalf("Node.js answers for %d of %d addresses: %v", len(origins), len(addresses), err)
	}
	return origins
}

// oddAddresses are the addresses of the advisories, and many combinations of their
// parts. They are the same in each run.
func oddAddresses() []string {
	all := []string{"", "/", "/x", "/x?y=//z", "/x/y?z=\\\\", "/é", "/%C3%A9", "/%25", "?x", "x"}
	for _, a := range redirectAdvisories {
		all = append(all, a.attacks...)
	}
	parts := []string{
		"/", "/", "/", `\`, `\`, "//", ".", "..", "%2e", "%2f", "%5c", "%09", "%00", "\t", "\n", "\r", "\x00", " ", "\u00a0",
		"\u2028", "\u3000", "；", "／", "。", "@", ":", "?", "#", ";", "&", "=",
		"evil.example", "localhost", "https:", "http:", "HTTPS:", "javascript:", "x", "é", "[", "]", "|", "^", "%", "443",
		"8443",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1500 {
		address := strings.Repeat("/", min(1, random.IntN(4)))
		for range 1 + random.IntN(7) {
			address += parts[random.IntN(len(parts))]
		}
		all = append(all, address)
	}
	return all
}

// TestReturnToInBrowsers: a browser stays on this origin for any return_to, by the
// URL parser of Node.js.
func TestReturnToInBrowsers(t *testing.T) {
	t.Parallel()
	g := world.Start(t, world.People+world.App(world.Record(t).URL)+"limits: {login_failures: 100000}\nroutes: "+
		"[{match: /, upstream: app, auth: [session]}]\n")
	c := g.Stranger()
	var places []string // to which the gateway redirects
	passed := 0
	for i, address := range oddAddresses() {
		a := g.Do(c, "GET", "/login?return_to="+url.QueryEscape(address), "")
		places = append(places, a.Header.Values("Location")...)
		to, err := url.Parse(a.Header.Get("Location"))
		if err != nil || a.Status != http.StatusFound || to.Path != "/signin" {
			t.Fatalf("%q: %d to %q", address, a.Status, a.Header.Get("Location"))
		}
		if next := to.Query().Get("return_to"); next != "" {
			passed++
			places = append(places, next)
		}
		if i%20 == 0 || to.RawQuery != "" && passed < 100 { // and after the login
			places = append(places, signInTo(g, c, address, "").Header.Values("Location")...)
		}
	}
	if passed < 100 {
		t.Errorf("the gateway accepts %d of the addresses, too few for this test", passed)
	}
	for i, origin := range landings(t, g.Public+"/login?return_to=x", places) {
		if origin != g.Public {
			t.Errorf("%q leads to %q", places[i], origin)
		}
	}
}
