package redis

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// streamEnd returns when a stream with a session, which has begun, ends.
func (p *pair) streamEnd(t *testing.T, g *world.Instance, cookie string) func() time.Time {
	t.Helper()
	request := world.Must(http.NewRequestWithContext(t.Context(), "GET", g.Base+"/stream", nil))(t)
	request.Header.Set("Cookie", cookie)
	answer := world.Must(p.client(g).Do(request))(t)
	if _, err := io.ReadFull(answer.Body, make([]byte, 4)); answer.StatusCode != http.StatusOK || err != nil {
		t.Fatalf("a stream: %d, %v", answer.StatusCode, err)
	}
	ended := make(chan time.Time, 1)
	go func() {
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		ended <- time.Now()
	}()
	return func() time.Time { return <-ended }
}

// TestRedisUntil: a role that ends in five seconds ends at that time on both instances: for a session, an access
// token, an OAuth client and streams. A request that is sent after it is refused, and none that is answered
// before it is.
func TestRedisUntil(t *testing.T) {
	t.Parallel()
	p := preparePair(t, world.StartRedis(t))
	slow := world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	config := strings.Replace(shared, "auth: [session, bearer]}", `auth: [session, bearer], policy: {roles: [guest]}}
  - {match: /stream, upstream: slow, auth: [session], policy: {roles: [guest]}}`, 1) +
		strings.Replace(world.App(p.up.URL), "upstreams: {", fmt.Sprintf("upstreams: {slow: {url: %q}, ", slow), 1) +
		world.OnRedis(p.redis.Address) + `
oauth: {enabled: true, clients: [{id: wiki, consent: skip, redirect_uris: ["https://wiki.example.net/cb"]}]}
`
	config = strings.Replace(config, "token: {", "token: {private_key: own.pem, ", 1)
	own := ownKey(t)
	for _, g := range p.both() {
		g.Write("own.pem", own)
	}
	const roles = "roles: [user, admin]"
	if strings.Count(config, roles) != 1 {
		t.Fatalf("not the roles of alice:\n%s", config)
	}
	configure := func(guest string) {
		for _, g := range p.both() {
			g.Configure(strings.Replace(config, roles, "roles: [user, admin, "+guest+"]", 1))
		}
	}
	configure("guest")
	p.run()
	s := p.signIn("alice")
	credentials := credentialsOf(s)
	lent := p.a.Lend(s.Session, "wiki", "https://wiki.example.net/cb", p.a.Base+"/secure-resource")
	credentials["OAuth client"] = []string{"Authorization", lent.Access}
	streams := map[string]func() time.Time{}
	for name, g := range p.both() {
		for what, credential := range credentials {
			if got := g.Status(p.client(g), "GET", "/secure-resource", credential...); got != http.StatusOK {
				t.Fatalf("%s, %s: %d before there is an end", name, what, got)
			}
		}
		streams[name] = p.streamEnd(t, g, s.Session)
	}
	end := time.Now().Add(5 * time.Second).UTC()
	configure("{name: guest, until: " + end.Format(time.RFC3339Nano) + "}")
	for name, g := range p.both() {
		g.Signal(syscall.SIGHUP)
		world.Until(t, "the reload of "+name, func() bool { return strings.Contains(g.Log.String(), `"msg":"reloaded"`) })
	}
	var all sync.WaitGroup
	for name, g := range p.both() {
		for what, credential := range credentials {
			all.Go(func() { // each has a connection of its own
				client := g.Stranger()
				for {
					sent := time.Now()
					a, err := g.Try(client, "GET", "/secure-resource", "", credential...)
					answered := time.Now()
					switch {
					case err == nil && a.Status == http.StatusOK && sent.Before(end):
						continue
					case err == nil && (a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized) && answered.After(end):
					default:
						t.Errorf("%s, %s: %d, %v, sent %v and answered %v after the end", name, what, a.Status, err,
							sent.Sub(end), answered.Sub(end))
					}
					return
				}
			})
		}
	}
	all.Wait()
	for name, ended := range streams {
		if late := ended().Sub(end); late < 0 || late > 10*time.Second { // a second, and time for a slow machine
			t.Errorf("%s: the stream ended %v after the role", name, late)
		}
	}
	for name, g := range p.both() {
		world.Until(t, name+" to tell of the end once", func() bool {
			return strings.Count(g.Log.String(), `"event":"role_ended","subject":"local:alice","role":"guest"`) == 1
		})
		if got := g.Status(p.client(g), "GET", "/me", "Cookie", s.Session); got != http.StatusOK {
			t.Errorf("%s: the login has ended too: %d", name, got)
		}
	}
}
