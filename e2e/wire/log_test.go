package wire

import (
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// TestLogKeepsSecrets: at level debug, the log of the real process has no
// credential, wherever a client puts it, and no secret of a configuration.
func TestLogKeepsSecrets(t *testing.T) {
	t.Parallel()
	const key, leak = "correct-horse-battery-staple-for-HS256", "LeakedPart"
	g := world.Start(t, inputs+"log: {level: debug}\ntoken: {secret: "+key+"}\n"+world.App(world.Record(t).URL))
	c := g.Stranger()
	alice := g.SignIn(c, "alice")
	secrets := []string{
		key, leak, world.ServiceHash, world.WonderlandHash, world.BuilderHash, "tooShortAHash", "wonderland", "s3rvice",
		strings.TrimPrefix(world.BasicService, "Basic "),
		strings.TrimPrefix(alice.Session, "session_id="), alice.Access[strings.LastIndexByte(alice.Access, '.')+1:],
		alice.Refresh,
	}
	for _, header := range [][]string{
		{"Cookie", alice.Session}, {"Cookie", alice.Session + "; session_id=" + leak}, {"Authorization", alice.Access},
		{"Authorization", alice.Access + leak},
		{"Authorization", world.BasicService}, {"Authorization", "Basic " + leak}, {"Authorization", leak},
		{"Authorization", world.BasicService, "Authorization", "Bearer " + leak},
	} {
		for _, path := range []string{"/secure", "/basic", "/me", "/nowhere"} {
			g.Do(c, "GET", path+"?token="+alice.Access+"&session="+alice.Session, "", header...)
		}
	}
	g.Do(c, "POST", "/login?mechanism="+leak, leak, "Content-Type", "text/"+leak)
	g.Do(c, "POST", "/refresh", `{"refresh_token":"`+alice.Refresh+`"}`, "Content-Type", world.TypeJSON)
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
		g.Raw(t, request)
		g.Plain(t, "127.0.0.1", request)
	}
	g.Signal(syscall.SIGHUP)
	world.Until(t, "a reload", func() bool { return len(g.Log.Records(t, "reloaded")) > 0 })
	g.Configure(world.People + "token: {secret: [" + key + "]}\nbasic: {users: [{username: x, password_hash: " +
		"tooShortAHash}]}\n")
	g.Signal(syscall.SIGHUP)
	world.Until(t, "a reload that fails", func() bool { return strings.Contains(g.Log.String(), "reload failed") })
	g.Signal(syscall.SIGTERM)
	<-g.Done
	if n := len(g.Log.Records(t, "request")); n < 40 {
		t.Fatalf("the gateway served only %d requests", n)
	}
	for line := range strings.Lines(g.Log.String()) {
		for _, secret := range secrets {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in the log: %s", secret, line)
			}
		}
	}
}
