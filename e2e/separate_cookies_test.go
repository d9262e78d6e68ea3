package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// countedVisits is an application that counts visits in a cookie named session,
// as applications made with Flask do.
type countedVisits struct {
	mu      sync.Mutex
	cookies []string // the Cookie headers of requests
}

// ServeHTTP implements http.Handler.
func (v *countedVisits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.cookies = append(v.cookies, r.Header.Get("Cookie"))
	v.mu.Unlock()
	count := 1
	if c, err := r.Cookie("session"); err == nil {
		before, err := strconv.Atoi(c.Value)
		if err != nil {
			http.Error(w, "this is not my cookie", http.StatusInternalServerError)
			return
		}
		count += before
	}
	cookie := &http.Cookie{Name: "session", Value: strconv.Itoa(count), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if r.URL.Query().Has("forget") {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	fmt.Fprint(w, count)
}

// applicationSession: an application may have a cookie with the name of the
// gateway's cookie. Both keep their values.
func applicationSession(t *testing.T, c *world.Certified) {
	application := &countedVisits{}
	up := httptest.NewServer(application)
	t.Cleanup(up.Close)
	d := &world.Delegated{Instance: world.Prepare(t), Provider: c.Provider(t, world.ProviderOptions{})}
	d.Configure(world.App(up.URL) + "providers:\n" + d.Provider.Register(d.Instance, world.ProviderClient{Name: "certified"}) + world.DelegatedRoutes)
	d.Run()
	b := signedIn(d, "alice")
	login := sessionOf(d, b)
	for _, visit := range []struct{ path, want string }{
		{"/secure-resource", "1"}, {"/secure-resource", "2"}, {"/admin-resource", "3"}, {"/secure-resource?forget", "4"}, {"/secure-resource", "1"},
	} {
		if a := d.Do(b.c, "GET", visit.path, ""); a.Status != http.StatusOK || a.Body != visit.want {
			t.Fatalf("%s is %d %q, want visit %s", visit.path, a.Status, a.Body, visit.want)
		}
		if got := sessionOf(d, b); got != login {
			t.Fatalf("after %s the browser has the session %q, it was %q", visit.path, got, login)
		}
	}
	if got := b.cookie(d.Base, "authgate_app_session"); got != "1" {
		t.Errorf("the application's cookie is %q in the browser", got)
	}
	want := []string{"", "session=1", "session=2", "session=3", ""}
	if !slices.Equal(application.cookies, want) {
		t.Errorf("the application got the cookies %q, want %q", application.cookies, want)
	}
}

// TestUpstreamCookies: no part of a response of an upstream sets a cookie of the
// gateway. The tests of gateway/auth have all forms of Set-Cookie.
func TestUpstreamCookies(t *testing.T) {
	t.Parallel()
	const ok, own = "HTTP/1.1 200 OK\r\n", "Set-Cookie: session_id=own; Path=/\r\n"
	const chunked = ok + own + "Trailer: Set-Cookie\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	answers := map[string]string{
		"/hint":    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nSet-Cookie: session_id=evil\r\n\r\n" + ok + own + "Content-Length: 2\r\n\r\nok",
		"/trailer": chunked + "Set-Cookie: session_id=evil\r\n\r\n",
		"/late":    strings.Replace(chunked, "Trailer: Set-Cookie\r\n", "", 1) + "set-cookie: session_id=evil\r\nX-Sum: 1\r\n\r\n",
		"/socket":  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + own + "\r\n",
	}
	up := world.Listen(t, func(conn net.Conn) {
		if m, err := world.ReadMessage(bufio.NewReader(conn), conn); err == nil {
			_, _ = io.WriteString(conn, answers[m.Target()]) // the gateway may have closed the connection
		}
	})
	g := world.Start(t, world.People+world.App(up)+"routes: [{match: /, upstream: app, auth: [none]}]\n")
	for path := range answers {
		t.Run(path, func(t *testing.T) {
			connection := "close"
			if path == "/socket" {
				connection = "Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
			}
			conn := g.Dial(t, "http/1.1")
			_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: "+connection+"\r\n\r\n")
			all, readErr := io.ReadAll(conn)
			if err = errors.Join(err, readErr); err != nil {
				t.Fatalf("%v after %q", err, all)
			}
			got := string(all)
			if !strings.Contains(got, "\r\nSet-Cookie: authgate_app_session_id=own; Path=/\r\n") || strings.Contains(got, "evil") || strings.Count(got, "session_id=") != 1 {
				t.Errorf("the client gets:\n%s", got)
			}
		})
	}
}
