package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/authenticator"
)

const (
	banFilter = "packaging/etc/fail2ban/filter.d/authgate.conf"
	banParser = "packaging/etc/crowdsec/parsers/s01-parse/authgate-logs.yaml"
	banRealm  = `accounts: {file: accounts.yaml}
basic: {users: [{username: service, password_hash: "` + world.ServiceHash + `"}]}
limits: {login_failures: 1000}
oauth:
  enabled: true
  device_lifetime: 1s
  clients:
    - {id: deploy, roles: [user], secret: ` + banSecret + `, grants: [client_credentials]}
    - {id: brief, roles: [user], secret: ` + banSecret + `, grants: [client_credentials], access_lifetime: 1s}
    - {id: app, consent: skip, redirect_uris: ["https://app.example.net/cb"]}
    - {id: tv, grants: [device_code]}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /, upstream: app, auth: [session, bearer]}
  - {match: /basic/, upstream: app, auth: [basic]}
  - {match: /admin/, upstream: app, auth: [session, bearer], policy: admin}
`
	banSecret = "a-secret-of-32-characters-or-more"
	// forgedEvent is a line that would ban 192.0.2.66.
	forgedEvent = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"audit","event":"login",` +
		`"request_id":"x","client":"192.0.2.66","route":"x","result":"failure"}`
)

// startBans starts a gateway with the accounts alice, bob and carol, who has an app for codes with the secret.
// listen is added to the section listen, and more to the configuration.
func startBans(t *testing.T, listen, more string) (g *world.Instance, secret string) {
	t.Helper()
	g = world.Prepare(t)
	g.Listen = strings.Replace(g.Listen, "{", "{"+listen, 1)
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ", roles: [user]")+
		world.Person("bob", world.BuilderHash, ", roles: [user]")+
		world.Person("carol", world.WonderlandHash, ", roles: [user]"))
	g.Configure(world.App(world.Record(t).URL) + banRealm + more)
	g.Run()
	return g, g.AddTOTP("carol")
}

// offender sends each request so many times from an address of its own, if the gateway trusts X-Forwarded-For.
type offender struct {
	*world.Instance
	times     int
	addresses map[string]string // by id of the request
}

// send sends a request with an id.
func (o *offender) send(id, method, path, body string, headers ...string) {
	o.T.Helper()
	o.addresses[id] = "198.51.100." + strconv.Itoa(len(o.addresses)+1)
	c := o.Stranger()
	for range o.times {
		o.Do(c, method, path, body, append(headers, "X-Request-Id", id, "X-Forwarded-For", o.addresses[id])...)
	}
}

// sendForm sends a form with an id.
func (o *offender) sendForm(id, path, form string, headers ...string) {
	o.T.Helper()
	o.send(id, "POST", path, form, append(headers, "Content-Type", world.TypeForm)...)
}

// post sends a form once, and returns the answer.
func (o *offender) post(path, form string, headers ...string) world.Answer {
	o.T.Helper()
	return o.Do(o.Stranger(), "POST", path, form, append(headers, "Content-Type", world.TypeForm)...)
}

// offences sends requests that ban an address, with X-Request-Id ban-…, and others that ban none, pass-…. carol has
// an app with that secret. It returns the addresses.
func offences(t *testing.T, g *world.Instance, secret string, times int) (addresses map[string]string) {
	t.Helper()
	o := &offender{g, times, map[string]string{}}
	bob := g.SignIn(g.Stranger(), "bob")
	o.guess()
	o.guessCodes(bob.Session, wrongCode(t, secret))
	o.sendForeign()
	o.sendEnded()
	o.send("ban-denied", "GET", "/admin/", "", "Authorization", bob.Access)
	last := regexp.MustCompile(`"msg":"request".*"request_id":"ban-denied"`)
	world.Until(t, "the lines of the last requests", func() bool {
		return len(last.FindAllString(g.Log.String(), -1)) == times
	})
	return o.addresses
}

// guess sends wrong passwords, tokens and client secrets.
func (o *offender) guess() {
	o.send("ban-password", "POST", "/login", `{"username":"alice","password":"guess"}`, "Content-Type", world.TypeJSON)
	o.send("ban-name", "POST", "/login", `{"username":"stranger","password":"guess"}`, "Content-Type", world.TypeJSON)
	o.send("ban-basic", "GET", "/basic/", "", "Authorization", "Basic c2VydmljZTpndWVzcw==")
	o.send("ban-token", "GET", "/", "", "Authorization", "Bearer guess")
	o.send("ban-me", "GET", "/me", "", "Authorization", "Bearer guess")
	o.send("ban-refresh", "POST", "/refresh", `{"refresh_token":"guess"}`, "Content-Type", world.TypeJSON)
	const grant = "grant_type=client_credentials&client_id="
	o.sendForm("ban-client", "/oauth/token", grant+"deploy&client_secret=guess")
	o.sendForm("ban-client-basic", "/oauth/revoke", "token=x", "Authorization", world.BasicOf("deploy:guess"))
	o.sendForm("ban-forged", "/oauth/token", grant+strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D").
		Replace(forgedEvent[len(forgedEvent)-60:]))
}

// wrongCode returns six digits that an app with the secret shows at no time of the test.
func wrongCode(t testing.TB, secret string) string {
	t.Helper()
	shown := map[string]bool{}
	for i := range 41 {
		at := time.Now().Add(time.Duration(i-20) * 30 * time.Second)
		shown[world.Must(authenticator.Code(secret, at))(t)] = true
	}
	wrong := 0
	for shown[fmt.Sprintf("%06d", wrong)] {
		wrong++
	}
	return fmt.Sprintf("%06d", wrong)
}

// guessCodes sends wrong codes: for the second factor of carol, and with the session of bob for the first of an app
// and of devices.
func (o *offender) guessCodes(session, wrong string) {
	o.T.Helper()
	const password = `{"username":"carol","password":"wonderland","code":"`
	o.send("ban-totp", "POST", "/login", password+wrong+`"}`, "Content-Type", world.TypeJSON)
	o.send("ban-recovery", "POST", "/login", password+`2345-6789-ABCD-EFGH"}`, "Content-Type", world.TypeJSON)
	page := o.post("/login", "username=carol&password=wonderland", "Accept", world.AcceptsPage)
	step := regexp.MustCompile(`name="step" value="([^"]+)"`).FindStringSubmatch(page.Body)
	if step == nil {
		o.T.Fatalf("no second step: %d %s", page.Status, page.Body)
	}
	o.sendForm("ban-step", "/signin/code", "code="+wrong+"&step="+step[1], "Cookie", world.CookieOf(page))
	cookie := []string{"Cookie", session, "Origin", o.Base}
	o.Do(o.Stranger(), "POST", "/account/totp", "{}", append(cookie, "Content-Type", world.TypeJSON)...)
	o.send("ban-confirm", "POST", "/account/totp/confirm", `{"code":"`+wrong+`"}`,
		append(cookie, "Content-Type", world.TypeJSON)...)
	o.sendForm("ban-user-code", "/device", "user_code=BCDF-GHJK", cookie...)
	o.sendForm("ban-device-code", "/oauth/token", "client_id=tv&device_code=guess&grant_type="+deviceGrant)
	o.sendForm("ban-code", "/oauth/token", "client_id=app&code=guess&grant_type=authorization_code")
	o.sendForm("ban-invitation", "/signin/invite", "token=guess&new=looking-glass&again=looking-glass")
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// sendForeign sends requests without a credential, of other sites, and with an event in each place.
func (o *offender) sendForeign() {
	o.send("pass-nothing", "GET", "/", "")
	o.send("pass-cookie", "GET", "/", "", "Cookie", "session_id="+strings.Repeat("A", 43))
	o.send("pass-site", "POST", "/login", `{"username":"alice","password":"guess"}`, "Content-Type", world.TypeJSON,
		"Sec-Fetch-Site", "cross-site")
	o.sendForm("pass-site-client", "/oauth/token",
		"grant_type=client_credentials&client_id=deploy&client_secret=guess", "Sec-Fetch-Site", "cross-site")
	o.send("pass-path", "GET", "/%7B%22client%22:%22192.0.2.66%22%7D", "", "User-Agent", forgedEvent,
		"Referer", forgedEvent)
}

// sendEnded sends credentials that were good once.
func (o *offender) sendEnded() {
	o.T.Helper()
	alice := o.SignIn(o.Stranger(), "alice")
	lent := o.Lend(alice.Session, "app", "https://app.example.net/cb", o.Base+"/")
	o.post("/oauth/revoke", "client_id=app&token="+lent.Refresh)
	o.sendForm("pass-revoked-refresh", "/oauth/token",
		"client_id=app&grant_type=refresh_token&refresh_token="+lent.Refresh)
	o.send("pass-revoked-grant", "GET", "/", "", "Authorization", lent.Access)
	revoked, expired := o.tokenOf("deploy"), o.tokenOf("brief")
	o.post("/oauth/revoke",
		"client_id=deploy&client_secret="+banSecret+"&token="+strings.TrimPrefix(revoked, "Bearer "))
	o.send("pass-revoked", "GET", "/", "", "Authorization", revoked)
	world.Until(o.T, "a token to expire", func() bool {
		return o.Status(o.Stranger(), "GET", "/", "Authorization", expired) == http.StatusUnauthorized
	})
	o.send("pass-expired", "GET", "/", "", "Authorization", expired)
	var device struct {
		Code string `json:"device_code"`
	}
	world.NoError(o.T, json.Unmarshal([]byte(o.post("/oauth/device", "client_id=tv").Body), &device))
	poll := "client_id=tv&device_code=" + device.Code + "&grant_type=" + deviceGrant
	world.Until(o.T, "a device code to expire", func() bool {
		return strings.Contains(o.post("/oauth/token", poll).Body, "expired_token")
	})
	o.sendForm("pass-expired-device", "/oauth/token", poll)
	o.send("pass-out", "POST", "/logout", "", "Cookie", alice.Session)
	o.send("pass-ended-session", "GET", "/", "", "Cookie", alice.Session)
	o.send("pass-ended", "GET", "/", "", "Authorization", alice.Access)
	o.send("pass-ended-refresh", "POST", "/refresh", `{"refresh_token":"`+alice.Refresh+`"}`,
		"Content-Type", world.TypeJSON)
}

// tokenOf returns the Authorization header of a client with a secret.
func (o *offender) tokenOf(client string) string {
	o.T.Helper()
	answer := o.post("/oauth/token", "grant_type=client_credentials&client_id="+client+"&client_secret="+banSecret+
		"&resource="+url.QueryEscape(o.Base+"/"))
	world.WantStatus(o.T, "a token of "+client, answer, http.StatusOK)
	return world.Must(world.Tokens(answer))(o.T).Access
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
	g, secret := startBans(t, "", "")
	offences(t, g, secret, 1)
	patterns := banPatterns(t)
	var want, got, past []string
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
		if strings.Contains(line, `"past":true`) {
			past = append(past, id[1])
		}
	}
	if len(want) != 18 || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("banned for %q, want %q\n%s", got, want, g.Log)
	}
	if got := strings.Join(past, " "); got != "pass-revoked-refresh pass-revoked-grant pass-revoked pass-expired "+
		"pass-expired-device pass-ended pass-ended-refresh" {
		t.Errorf("good once are %q", got)
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
