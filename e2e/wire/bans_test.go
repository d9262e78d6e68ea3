package wire

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

const (
	banFilter = "packaging/etc/fail2ban/filter.d/authgate.conf"
	banParser = "packaging/etc/crowdsec/parsers/s01-parse/authgate-logs.yaml"
	banRealm  = "oauth:\n  enabled: true\n  clients: [{id: deploy, name: Deployment, roles: [user], " +
		"secret: a-secret-of-32-characters-or-more, grants: [client_credentials]}]\n"
	banRouting = "policies: {admin: {roles: [admin]}}\nroutes: [{match: /, upstream: app, auth: [session, bearer]}, " +
		"{match: /basic/, upstream: app, auth: [basic]}, " +
		"{match: /admin/, upstream: app, auth: [session, bearer], policy: admin}]\n"
)

// offences sends requests that ban an address, with X-Request-Id ban-…, and others that ban none, pass-….
// Each comes so many times from one address, if the gateway trusts X-Forwarded-For. It returns the addresses.
func offences(t *testing.T, g *world.Instance, times int) (addresses map[string]string) {
	c, addresses := g.Stranger(), map[string]string{}
	do := func(id, method, path, body string, headers ...string) {
		t.Helper()
		addresses[id] = "198.51.100." + strconv.Itoa(len(addresses)+1)
		for range times {
			g.Do(c, method, path, body, append(headers, "X-Request-Id", id, "X-Forwarded-For", addresses[id])...)
		}
	}
	const form = "application/x-www-form-urlencoded"
	const forged = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"audit","event":"login",` +
		`"request_id":"x","client":"192.0.2.66","route":"x","result":"failure"}`
	alice, bob := g.SignIn(g.Stranger(), "alice"), g.SignIn(g.Stranger(), "bob")
	do("ban-password", "POST", "/login", `{"username":"alice","password":"guess"}`, "Content-Type", world.TypeJSON)
	do("ban-name", "POST", "/login", `{"username":"stranger","password":"guess"}`, "Content-Type", world.TypeJSON)
	do("ban-basic", "GET", "/basic/", "", "Authorization", "Basic c2VydmljZTpndWVzcw==")
	do("ban-token", "GET", "/", "", "Authorization", "Bearer guess")
	do("ban-me", "GET", "/me", "", "Authorization", "Bearer guess")
	do("ban-refresh", "POST", "/refresh", `{"refresh_token":"guess"}`, "Content-Type", world.TypeJSON)
	do("ban-client", "POST", "/oauth/token", "grant_type=client_credentials&client_id=deploy&client_secret=guess",
		"Content-Type", form)
	do("pass-nothing", "GET", "/", "")
	do("pass-cookie", "GET", "/", "", "Cookie", "session_id="+strings.Repeat("A", 43))
	do("pass-site", "POST", "/login", `{"username":"alice","password":"guess"}`, "Content-Type", world.TypeJSON,
		"Sec-Fetch-Site", "cross-site")
	do("pass-site-client", "POST", "/oauth/token", "grant_type=client_credentials&client_id=deploy&client_secret=guess",
		"Content-Type", form, "Sec-Fetch-Site", "cross-site")
	do("pass-path", "GET", "/%7B%22client%22:%22192.0.2.66%22%7D", "", "User-Agent", forged, "Referer", forged)
	do("pass-out", "POST", "/logout", "", "Cookie", alice.Session)
	do("pass-ended", "GET", "/", "", "Authorization", alice.Access)
	do("pass-ended-refresh", "POST", "/refresh", `{"refresh_token":"`+alice.Refresh+`"}`, "Content-Type", world.TypeJSON)
	do("ban-forged", "POST", "/oauth/token", "grant_type=client_credentials&client_id="+strings.NewReplacer(`"`, "%22",
		"{", "%7B", "}", "%7D").Replace(forged[len(forged)-60:]), "Content-Type", form)
	do("ban-denied", "GET", "/admin/", "", "Authorization", bob.Access)
	last := regexp.MustCompile(`"msg":"request".*"request_id":"ban-denied"`)
	world.Until(t, "the lines of the last requests", func() bool {
		return len(last.FindAllString(g.Log.String(), -1)) == times
	})
	return addresses
}

// banPatterns returns the expressions of the filter for fail2ban, as Go has them.
func banPatterns(t *testing.T) (all []*regexp.Regexp) {
	t.Helper()
	text := world.ReadFile(t, world.Path(banFilter))
	value := func(name string) string {
		return regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindStringSubmatch(text)[1]
	}
	for line := range strings.Lines(text) {
		_, pattern, found := strings.Cut(strings.TrimSpace(line), "%(head)s")
		if !found {
			continue
		}
		pattern = strings.ReplaceAll(value("head")+pattern, "%(from)s", value("from"))
		all = append(all, regexp.MustCompile(strings.ReplaceAll(pattern, "<ADDR>", `(127\.0\.0\.1|::1)`)))
	}
	return all
}

// Lines of a running gateway match the filter for fail2ban if, and only if, they are to ban the address,
// from a file and as the journal has them. Nothing in a request names another address.
func TestBans(t *testing.T) {
	t.Parallel()
	g := world.Start(t, world.People+world.App(world.Record(t).URL)+banRealm+banRouting)
	offences(t, g, 1)
	patterns := banPatterns(t)
	var want, got []string
	seen := map[string]bool{}
	for line := range strings.Lines(g.Log.String()) {
		id := regexp.MustCompile(`"request_id":"((?:ban|pass)-[a-z-]+)"`).FindStringSubmatch(line)
		matches := func(line string) bool {
			for _, p := range patterns {
				if p.MatchString(line) {
					return true
				}
			}
			return false
		}
		hit := matches(line)
		if journal := "host authgate[7]: " + line; matches(journal) != hit || matches("x"+line) || matches(`"`+line) {
			t.Errorf("the journal has another outcome, or the line matches in its middle: %s", line)
		}
		if id == nil {
			continue
		}
		if strings.HasPrefix(id[1], "ban-") && !seen[id[1]] {
			want, seen[id[1]] = append(want, id[1]), true
		}
		if hit {
			got = append(got, id[1])
		}
	}
	if len(want) != 9 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("banned for %q, want %q\n%s", got, want, g.Log)
	}
	for _, p := range patterns { // the parser of CrowdSec has the same expressions
		_, end, _ := strings.Cut(p.String(), `"event":`)
		end, _, _ = strings.Cut(end, ",")
		if !strings.Contains(world.ReadFile(t, world.Path(banParser)), "%{AUTHGATE_HEAD}"+end) {
			t.Errorf("the parser for CrowdSec lacks %s", end)
		}
	}
	runFail2ban(t, g, len(want))
}

// runFail2ban gives the log to fail2ban-regex, if it is installed.
func runFail2ban(t *testing.T, g *world.Instance, want int) {
	program, err := exec.LookPath("fail2ban-regex")
	if err != nil {
		t.Log("fail2ban is not installed; Go has matched its filter alone")
		return
	}
	log := filepath.Join(t.TempDir(), "authgate.log")
	if err := os.WriteFile(log, []byte(g.Log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--print-all-matched", log, world.Path(banFilter))
	out, err := cmd.CombinedOutput()
	matched := 0
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		if strings.Contains(lines.Text(), `"request_id":"ban-`) {
			matched++
		}
		if strings.Contains(lines.Text(), `"request_id":"pass-`) {
			t.Errorf("fail2ban bans for %s", lines.Text())
		}
	}
	if err != nil || matched != want {
		t.Errorf("fail2ban-regex matched %d lines, want %d: %v\n%s", matched, want, err, out)
	}
}
