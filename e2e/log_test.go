package e2e

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// entries returns the lines of the log so far, each a JSON object.
func (g *instance) entries() []map[string]any {
	g.t.Helper()
	var all []map[string]any
	for line := range g.log.Lines() {
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
	return g.log.Records(g.t, message)
}

// TestLogKeepsSecrets: at level debug, the log of the real process has no
// credential, wherever a client puts it, and no secret of a configuration.
func TestLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	const key, leak = "correct-horse-battery-staple-for-HS256", "LeakedPart"
	g := start(t, inputs+"log: {level: debug}\ntoken: {secret: "+key+"}\n"+app(record(t).url))
	c := g.stranger()
	alice := g.signIn(c, "alice")
	secrets := []string{
		key, leak, s3rviceHash, wonderlandHash, builderHash, "tooShortAHash", "wonderland", "s3rvice", strings.TrimPrefix(basicService, "Basic "),
		strings.TrimPrefix(alice.session, "session_id="), alice.access[strings.LastIndexByte(alice.access, '.')+1:], alice.refresh,
	}
	for _, header := range [][]string{
		{"Cookie", alice.session}, {"Cookie", alice.session + "; session_id=" + leak}, {"Authorization", alice.access}, {"Authorization", alice.access + leak},
		{"Authorization", basicService}, {"Authorization", "Basic " + leak}, {"Authorization", leak}, {"Authorization", basicService, "Authorization", "Bearer " + leak},
	} {
		for _, path := range []string{"/secure", "/basic", "/me", "/nowhere"} {
			g.do(c, "GET", path+"?token="+alice.access+"&session="+alice.session, "", header...)
		}
	}
	g.do(c, "POST", "/login?mechanism="+leak, leak, "Content-Type", "text/"+leak)
	g.do(c, "POST", "/refresh", `{"refresh_token":"`+alice.refresh+`"}`, "Content-Type", typeJSON)
	for _, request := range []string{
		"GET /secure?access_token=" + leak + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure#access_token=" + leak + " HTTP/1.1\nHost: localhost\n\n",
		"GET /a//b?access_token=" + leak + "#" + leak + " HTTP/1.1\nHost: localhost\n\n",
		"GET https://alice:" + leak + "@localhost/secure HTTP/1.1\nHost: localhost\n\n",
		"GET " + leak + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure HTTP/1.1\nHost: alice:" + leak + "@localhost\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nX-Request-Id: " + leak + " x\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nUser-Agent: " + leak + "\nReferer: https://localhost/?" + leak + "\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nAuthorization: Basic " + leak + "\nCookie: session_id=" + leak + "\n\n",
	} {
		g.raw(t, request)
		g.plain(t, "127.0.0.1", request)
	}
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
