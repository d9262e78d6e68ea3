package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// entries returns the lines of the log so far, each a JSON object.
func (g *instance) entries() []map[string]any {
	g.t.Helper()
	var all []map[string]any
	for line := range strings.Lines(g.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			g.t.Fatalf("a line of the log is not a JSON object: %q", line)
		}
		all = append(all, entry)
	}
	return all
}

// entriesOf returns the entries with a message: "request" for the access log,
// "audit" for the audit log.
func (g *instance) entriesOf(message string) []map[string]any {
	g.t.Helper()
	return slices.DeleteFunc(g.entries(), func(entry map[string]any) bool { return entry["msg"] != message })
}

// TestLogKeepsSecrets: the log has no credential, whether a client used it as it
// should, wrongly, or where it does not belong, and no secret of the
// configuration.
func TestLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	const key = "correct-horse-battery-staple-for-HS256"
	g := start(t, people+app(record(t).url)+`
log: {level: debug}
limits: {login_failures: 10000}
token: {secret: `+key+`, reuse_leeway: 0s, delivery: cookie}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
  - {match: /admin, upstream: app, auth: [session, bearer], policy: admin}
  - {match: /public, upstream: app, auth: [none]}
`)
	secrets := append(busy(t, g), key, s3rviceHash, wonderlandHash, builderHash, "tooShortAHash")
	g.signal(syscall.SIGHUP)
	until(t, "a reload", func() bool { return len(g.entriesOf("reloaded")) > 0 })
	g.configure(people + "token: {secret: [" + key + "]}\nbasic: {users: [{username: x, password_hash: tooShortAHash}]}\n")
	g.signal(syscall.SIGHUP)
	until(t, "a reload that fails", func() bool { return strings.Contains(g.log.String(), "reload failed") })
	g.signal(syscall.SIGTERM)
	<-g.done
	if n := len(g.entriesOf("request")); n < 40 {
		t.Fatalf("the gateway served only %d requests", n)
	}
	for line := range strings.Lines(g.log.String()) {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in the log: %s", secret, line)
			}
		}
	}
}

// busy uses and misuses credentials of all kinds and returns them. Bodies that are
// wrong are in TestLogHoldsNoSecret of package gateway.
func busy(t *testing.T, g *instance) []string {
	t.Helper()
	secrets := []string{"s3rvice", "wonderland", "builder"}
	c := g.stranger()
	secret := func() string { // a new one
		s := fmt.Sprintf("Secret%dPart", len(secrets))
		secrets = append(secrets, s)
		return s
	}
	post := func(path, media, body string) answer {
		t.Helper()
		return g.do(c, "POST", path, body, "Content-Type", media)
	}
	for user, password := range passwords {
		given := map[string]string{}
		for _, cookie := range (&http.Response{Header: post("/login", typeJSON, fmt.Sprintf(`{"username":%q,"password":%q}`, user, password)).header}).Cookies() {
			given[cookie.Name] = cookie.Value
			secrets = append(secrets, cookie.Value)
		}
		if len(given) != 3 {
			t.Fatalf("a login gives the cookies %v", given)
		}
		session, access, refresh := "session_id="+given["session_id"], given["access_token"], given["refresh_token"]
		secrets = append(secrets, access[strings.LastIndexByte(access, '.')+1:])
		for _, credential := range []string{session, "Bearer " + access} {
			for _, path := range []string{"/secure", "/admin", "/basic", "/me", "/public", "/nowhere"} {
				g.do(c, "GET", path+"?token="+access+"&session="+session, "", presenting(credential)...)
			}
			g.do(c, "POST", "/secure", refresh, append(presenting(credential), "Origin", "https://evil.example")...)
			g.do(c, "GET", "/secure", "", append(presenting(credential), "Accept", "text/html")...)
		}
		for _, authorization := range []string{"Bearer " + access + secret(), "Bearer " + refresh, access, secret()} {
			g.do(c, "GET", "/secure", "", "Authorization", authorization)
		}
		g.do(c, "GET", "/secure", "", "Cookie", session+"; session_id="+secret())
		for _, token := range []string{refresh, refresh, access} {
			post("/refresh", typeJSON, fmt.Sprintf(`{"refresh_token":%q}`, token))
		}
		post("/refresh", typeForm, "refresh_token="+refresh)
		for _, credential := range []string{"Bearer " + access, session} {
			g.do(c, "POST", "/logout", "", presenting(credential)...)
		}
	}
	for _, credential := range []string{"service:s3rvice", "service:" + secret(), secret() + ":x", secret(), "alice:" + secret() + "\xff"} {
		authorization := basicOf(credential)
		secrets = append(secrets, strings.TrimPrefix(authorization, "Basic "))
		for path, method := range map[string]string{"/basic": "GET", "/login": "POST", "/public": "GET"} {
			g.do(c, method, path, "", "Authorization", authorization)
		}
	}
	g.do(c, "GET", "/basic", "", "Authorization", "Basic "+secret(), "Authorization", "Bearer "+secret())
	post("/login", "text/"+secret(), secret())
	post("/login?mechanism="+secret(), typeJSON, right)
	for _, request := range []string{
		"GET /secure?access_token=" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure#access_token=" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /a//b?access_token=" + secret() + "#" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET https://alice:" + secret() + "@localhost/secure HTTP/1.1\nHost: localhost\n\n",
		"GET " + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure HTTP/1.1\nHost: alice:" + secret() + "@localhost\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nX-Request-Id: " + secret() + " x\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nUser-Agent: " + secret() + "\nReferer: https://localhost/?" + secret() + "\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nAuthorization: Basic " + secret() + "\nCookie: session_id=" + secret() + "\n\n",
	} {
		g.raw(t, request)
		g.plain(t, "127.0.0.1", request)
	}
	return secrets
}
