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

// entries are the lines of the log so far, which all are JSON objects.
func (g *instance) entries() []map[string]any {
	g.t.Helper()
	var all []map[string]any
	for line := range strings.Lines(g.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			g.t.Fatalf("a line of the log is no JSON object: %q", line)
		}
		all = append(all, entry)
	}
	return all
}

// entriesOf are the entries with a message: "request" for the access log,
// "audit" for the audit log.
func (g *instance) entriesOf(message string) []map[string]any {
	g.t.Helper()
	return slices.DeleteFunc(g.entries(), func(entry map[string]any) bool { return entry["msg"] != message })
}

// TestLog: one line for each request, and the events of the audit log.
func TestLog(t *testing.T) {
	t.Parallel()
	g := measured(t, "")
	c := g.stranger()
	type want struct{ route, mechanism, decision, status, subject, audit string }
	wants := map[string]want{}
	ask := func(method, path, body string, w want, headers ...string) answer {
		t.Helper()
		id := fmt.Sprintf("request-%d", len(wants))
		wants[id] = w
		return g.do(c, method, path, body, append(headers, "X-Request-Id", id)...)
	}
	login := func(user string) signIn {
		t.Helper()
		body := fmt.Sprintf(`{"username":%q,"password":%q}`, user, passwords[user])
		a := ask("POST", "/login", body, want{"authgate/login", "session", "allow", "200", "", "login subject=local:" + user}, "Content-Type", typeJSON)
		s, err := tokens(a)
		if err != nil {
			t.Fatal(err)
		}
		s.session = cookieOf(a)
		return s
	}
	refresh := func(token string, w want) signIn {
		t.Helper()
		a := ask("POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, token), w, "Content-Type", typeJSON)
		s, err := tokens(a)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	alice, bob := login("alice"), login("bob")
	ask("GET", "/basic", "", want{"shared", "basic", "allow", "200", "basic:service", ""}, "Authorization", basicService)
	ask("GET", "/basic", "", want{"shared", "none", "challenge", "401", "", "denied"}, "Authorization", basicOf("service:x"))
	ask("GET", "/basic", "", want{"shared", "none", "challenge", "401", "", ""})
	ask("GET", "/secure/", "", want{"/secure/", "session", "allow", "200", "local:alice", ""}, "Cookie", alice.session)
	ask("GET", "/secure/", "", want{"/secure/", "none", "challenge", "401", "", "denied"}, "Authorization", "Bearer x")
	ask("GET", "/admin", "", want{"/admin", "bearer", "forbid", "403", "local:bob", "denied subject=local:bob"}, "Authorization", bob.access)
	ask("POST", "/admin", "", want{"/admin", "session", "forbid", "403", "local:alice", "denied subject=local:alice"}, "Cookie", alice.session, "Origin", "https://evil.example")
	ask("GET", "/nowhere", "", want{"none", "none", "error", "404", "", ""})
	ask("GET", "/gone", "", want{"/gone", "none", "error", "502", "", ""})
	ask("POST", "/login", `{"username":"alice","password":"x"}`, want{"authgate/login", "none", "challenge", "401", "", "login result=failure subject=local:alice"}, "Content-Type", typeJSON)
	ask("POST", "/login", `{"username":"carol","password":"x"}`, want{"authgate/login", "none", "challenge", "401", "", "login result=failure"}, "Content-Type", typeJSON)
	next := refresh(alice.refresh, want{"authgate/refresh", "bearer", "allow", "200", "", "refresh subject=local:alice"})
	refresh("x", want{"authgate/refresh", "none", "challenge", "401", "", "refresh result=failure"})
	refresh(alice.refresh, want{"authgate/refresh", "none", "challenge", "401", "", "reuse_detected subject=local:alice"})
	refresh(next.refresh, want{"authgate/refresh", "none", "challenge", "401", "", "refresh result=failure"})
	ask("POST", "/logout", "", want{"authgate/logout", "none", "allow", "200", "", "logout subject=local:bob"}, "Cookie", bob.session)
	ask("POST", "/logout", "", want{"authgate/logout", "none", "allow", "200", "", ""}, "Cookie", bob.session)
	again := login("bob")
	ask("POST", "/logout", "", want{"authgate/logout", "bearer", "allow", "200", "local:bob", "logout subject=local:bob"}, "Authorization", again.access)

	until(t, "the last line", func() bool { return len(g.entriesOf("request")) >= len(wants) })
	lines, audits := map[string][]map[string]any{}, map[string][]map[string]any{}
	for _, entry := range g.entries() {
		id := fmt.Sprint(entry["request_id"])
		switch entry["msg"] {
		case "request":
			lines[id] = append(lines[id], entry)
		case "audit":
			audits[id] = append(audits[id], entry)
		}
	}
	for id, w := range wants {
		if len(lines[id]) != 1 {
			t.Errorf("%s %+v has %d lines, expected one", id, w, len(lines[id]))
			continue
		}
		line := lines[id][0]
		subject, _ := line["subject"].(string)
		got := want{fmt.Sprint(line["route"]), fmt.Sprint(line["mechanism"]), fmt.Sprint(line["decision"]), fmt.Sprint(line["status"]), subject, ""}
		for _, a := range audits[id] {
			got.audit += fmt.Sprint(a["event"])
			for _, key := range []string{"result", "subject"} {
				if a[key] != nil {
					got.audit += fmt.Sprintf(" %s=%v", key, a[key])
				}
			}
		}
		if got != w {
			t.Errorf("%s: the log says %+v, expected %+v", id, got, w)
		}
		for _, key := range []string{"time", "level", "method", "path", "client", "duration_us", "bytes", "protocol"} {
			if _, ok := line[key]; !ok {
				t.Errorf("%s: the line has no %s", id, key)
			}
		}
	}
	if len(lines) != len(wants) {
		t.Errorf("%d requests in the log, expected %d", len(lines), len(wants))
	}
}

// TestLogKeepsSecrets: of everything that opens something, be it used rightly,
// wrongly or in a place where it does not belong, nothing is in the log.
func TestLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	for _, delivery := range []string{"body", "cookie"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			const key = "correct-horse-battery-staple-for-HS256"
			g := prepared(t)
			g.configure(people + app(record(t).url) + `
log: {level: debug}
limits: {login_failures: 10000}
token: {secret: ` + key + `, reuse_leeway: 0s, delivery: ` + delivery + `}
policies: {admin: {roles: [admin]}}
routes:
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session, bearer]}
  - {match: /admin, upstream: app, auth: [session, bearer], policy: admin}
  - {match: /public, upstream: app, auth: [none]}
`)
			g.run()
			secrets := append(busy(t, g), key, s3rviceHash, wonderlandHash, builderHash)
			g.signal(syscall.SIGHUP)
			until(t, "a reload", func() bool { return len(g.entriesOf("reloaded")) > 0 })
			g.configure(people + "token: {secret: [" + key + "]}\nbasic: {users: [{username: x, password_hash: tooShortAHash}]}\n")
			g.signal(syscall.SIGHUP)
			until(t, "a reload that fails", func() bool { return strings.Contains(g.log.String(), "reload failed") })
			g.signal(syscall.SIGTERM)
			<-g.done
			if n := len(g.entriesOf("request")); n < 40 {
				t.Fatalf("%d requests prove little", n)
			}
			for line := range strings.Lines(g.log.String()) {
				for _, secret := range append(secrets, "tooShortAHash") {
					if strings.Contains(line, secret) {
						t.Errorf("%q is in the log: %s", secret, line)
					}
				}
			}
		})
	}
}

// busy uses and misuses credentials of all kinds, and returns them.
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
	note := func(credential string) string { // one that the gateway gave, or that goes into a header
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
