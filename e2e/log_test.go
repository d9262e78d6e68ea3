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

// busy uses and misuses credentials of all kinds and returns them.
func busy(t *testing.T, g *instance) []string {
	t.Helper()
	secrets := []string{"s3rvice", "wonderland", "builder"}
	c := g.stranger()
	n := 0
	secret := func() string { // a new one
		n++
		s := fmt.Sprintf("Secret%dPart", n)
		secrets = append(secrets, s)
		return s
	}
	note := func(credential string) string { // the gateway issued it, or it goes into a header
		_, value, _ := strings.Cut(strings.Replace(credential, "=", " ", 1), " ")
		secrets = append(secrets, value)
		return credential
	}
	post := func(path, media, body string, headers ...string) answer {
		t.Helper()
		return g.do(c, "POST", path, body, append(headers, "Content-Type", media)...)
	}
	for _, user := range []string{"alice", "bob"} {
		a := post("/login", typeJSON, fmt.Sprintf(`{"username":%q,"password":%q}`, user, passwords[user]))
		s, err := tokens(a)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("login: %d, %v", a.status, err)
		}
		for _, cookie := range a.header.Values("Set-Cookie") {
			cookie, _, _ = strings.Cut(note(cookie[:strings.IndexByte(cookie, ';')]), ";")
			switch name, value, _ := strings.Cut(cookie, "="); name {
			case "session_id":
				s.session = cookie
			case "access_token":
				s.access = "Bearer " + value
			case "refresh_token":
				s.refresh = value
			}
		}
		secrets = append(secrets, s.refresh)
		access := strings.TrimPrefix(note(s.access), "Bearer ")
		secrets = append(secrets, access[strings.LastIndexByte(access, '.')+1:])
		for _, credential := range []string{s.session, s.access} {
			for _, path := range []string{"/secure", "/admin", "/basic", "/me", "/public", "/nowhere"} {
				g.do(c, "GET", path+"?token="+access+"&session="+s.session, "", presenting(credential)...)
			}
			g.do(c, "POST", "/secure", s.refresh, append(presenting(credential), "Origin", "https://evil.example")...)
			g.do(c, "GET", "/secure", "", append(presenting(credential), "Accept", "text/html")...)
		}
		g.do(c, "GET", "/secure", "", "Authorization", s.access+secret())
		g.do(c, "GET", "/secure", "", "Authorization", "Bearer "+s.refresh)
		g.do(c, "GET", "/secure", "", "Authorization", access)
		g.do(c, "GET", "/secure", "", "Cookie", s.session+secret())
		g.do(c, "GET", "/secure", "", "Cookie", s.session+"; session_id="+secret())
		for range 2 {
			post("/refresh", typeJSON, fmt.Sprintf(`{"refresh_token":%q}`, s.refresh))
		}
		post("/refresh", typeJSON, fmt.Sprintf(`{"refresh_token":%q}`, access))
		post("/refresh", typeJSON, fmt.Sprintf(`{"refresh_token":%q`, s.refresh))
		post("/refresh", typeForm, "refresh_token="+s.refresh)
		g.do(c, "POST", "/logout", "", presenting(s.access)...)
		g.do(c, "POST", "/logout", "", presenting(s.session)...)
		g.do(c, "GET", "/logout", "", presenting(s.session)...)
	}
	for _, credential := range []string{"service:s3rvice", "service:" + secret(), secret() + ":x", secret(), "alice:wonderland", "alice:" + secret() + "\xff"} {
		g.do(c, "GET", "/basic", "", "Authorization", note(basicOf(credential)))
		g.do(c, "POST", "/login", "", "Authorization", basicOf(credential))
		g.do(c, "GET", "/public", "", "Authorization", basicOf(credential))
	}
	g.do(c, "GET", "/basic", "", "Authorization", "Basic "+secret())
	g.do(c, "GET", "/secure", "", "Authorization", secret())
	g.do(c, "GET", "/basic", "", "Authorization", "Basic "+secret(), "Authorization", "Bearer "+secret())
	for media, bodies := range map[string][]string{
		typeJSON: {
			`{"username":"alice","password":"` + secret() + `"}`, `{"username":"` + secret() + `","password":"x"}`,
			`{"username":"alice","password":"` + secret(), `{"username":"alice","password":["` + secret() + `"]}`, `"` + secret() + `"`, secret(),
			`{"username":"alice","password":"a","password":"` + secret() + `"}`, `{"username":"alice","password":"` + secret() + "\xff\"}",
		},
		typeForm: {
			"username=alice&password=" + secret(), "username=alice&password=" + secret() + "%zz", "username=" + secret() + "&password=x",
			"username=alice&password=" + secret() + ";x", "password=" + secret(), "username=alice&password=x&return_to=/secure?" + secret(),
		},
		"text/" + secret(): {secret()},
	} {
		for _, body := range bodies {
			post("/login", media, body)
			post("/login", media, body, "Accept", "text/html")
			post("/login?mechanism="+secret(), media, body)
			post("/login?mechanism=%zz"+secret(), media, body)
		}
	}
	for _, request := range []string{
		"GET /secure?access_token=" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure#access_token=" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /a//b?access_token=" + secret() + "#" + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET https://alice:" + secret() + "@localhost/secure HTTP/1.1\nHost: localhost\n\n",
		"GET " + secret() + " HTTP/1.1\nHost: localhost\n\n",
		"GET /secure HTTP/1.1\nHost: alice:" + secret() + "@localhost\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nX-Request-Id: " + secret() + " x\n\n",
		"GET /secure HTTP/1.1\nHost: localhost\nUser-Agent: " + secret() + "\nReferer: https://localhost/?" + secret() + "\n\n",
	} {
		g.raw(t, request)
		g.plain(t, "127.0.0.1", request)
	}
	g.plain(t, "127.0.0.1", "GET /secure HTTP/1.1\nHost: localhost\nAuthorization: "+note(basicOf("alice:"+secret()))+"\nCookie: session_id="+secret()+"\n\n")
	return secrets
}
