package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// limited is a gateway that may have 200 file descriptors, in front of an
// upstream that holds requests for /slow until the test lets them go.
func limited(t *testing.T, limits string) (g *instance, began <-chan struct{}, finish func()) {
	t.Helper()
	held, arrived := make(chan struct{}), make(chan struct{}, 1000)
	finish = sync.OnceFunc(func() { close(held) })
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(up.Close)
	t.Cleanup(finish)
	g = prepared(t)
	g.within = []string{"sh", "-c", `ulimit -n 200 && exec "$@"`, "sh"}
	g.configure(targets + app(up.URL) + limits)
	g.run()
	return g, arrived, finish
}

// wantReady fails the test unless the admin listener answers that the gateway
// is ready.
func wantReady(t *testing.T, g *instance, when string) {
	t.Helper()
	if status, body, err := g.readiness(); status != http.StatusOK || err != nil {
		t.Errorf("/readyz %s: %d %s, %v", when, status, body, err)
	}
}

// TestIdleConnectionsGiveWay: with twice as many idle clients as there are file
// descriptors, new clients are served, and so is the admin listener.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(g *instance) net.Conn{
		"silent":          func(g *instance) net.Conn { return g.connect(t, g.base) },
		"plain":           func(g *instance) net.Conn { return g.connect(t, g.http) },
		"after a request": func(g *instance) net.Conn { c := g.dial(t, "http/1.1"); g.requested(t, c); return c },
	} {
		t.Run(name, func(t *testing.T) {
			g, _, _ := limited(t, "")
			first := open(g)
			for range 399 {
				open(g)
			}
			for range 10 {
				if got := g.status(g.stranger11(), "GET", "/"); got != http.StatusOK {
					t.Errorf("a new client gets %d", got)
				}
				wantReady(t, g, "beside 400 idle clients")
			}
			limit(t, first)
			if n, err := first.Read(make([]byte, 1)); err == nil || isTimeout(err) {
				t.Errorf("the client that has waited longest reads %d bytes, %v", n, err)
			}
			if strings.Contains(g.log.String(), "too many open files") {
				t.Errorf("there were no file descriptors left:\n%s", g.log)
			}
			if n := strings.Count(g.log.String(), "as many connections as file descriptors allow"); n != 1 {
				t.Errorf("that connections give way is logged %d times", n)
			}
		})
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// TestBusyConnectionsRefuse: when all connections are busy, a further request
// is answered 503, not held up, and all is well when they are done.
func TestBusyConnectionsRefuse(t *testing.T) {
	t.Parallel()
	g, _, finish := limited(t, "")
	statuses := make(chan int, 400)
	for range cap(statuses) {
		c := g.stranger11()
		go func() {
			a, err := g.try(c, "GET", "/slow", "")
			if err == nil && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
				t.Error("a refusal has no Retry-After")
			}
			statuses <- a.status // 0: it had to give way while it shook hands
		}()
	}
	got := map[int]int{}
	for range cap(statuses) / 4 {
		got[<-statuses]++
	}
	wantReady(t, g, "beside busy clients")
	until(t, "a new client to be refused", func() bool {
		a, err := g.try(g.stranger11(), "GET", "/", "")
		return err == nil && a.status == http.StatusServiceUnavailable
	})
	finish()
	for n := got[0] + got[503] + got[200]; n < cap(statuses); n++ {
		got[<-statuses]++
	}
	t.Logf("answers by status: %v", got)
	if got[200] == 0 || got[503] == 0 || got[200]+got[503]+got[0] != cap(statuses) {
		t.Errorf("answers by status: %v", got)
	}
	until(t, "requests to be served again", func() bool { return g.status(g.stranger11(), "GET", "/") == http.StatusOK })
	wantReady(t, g, "afterwards")
	if strings.Contains(g.log.String(), "too many open files") {
		t.Errorf("there were no file descriptors left:\n%s", g.log)
	}
}

// TestInFlight: limits.in_flight counts streams of one connection as well, and
// never concerns the admin listener.
func TestInFlight(t *testing.T) {
	t.Parallel()
	g, began, finish := limited(t, "limits: {in_flight: 3}\n")
	c := g.stranger()
	statuses := make(chan int, 3)
	for range cap(statuses) {
		go func() {
			a, _ := g.try(c, "GET", "/slow", "") // the status tells
			statuses <- a.status
		}()
	}
	for range cap(statuses) {
		<-began
	}
	refused := g.do(c, "GET", "/", "")
	wantProblem(t, refused, http.StatusServiceUnavailable)
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	if a := g.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\n\n"); a.status != http.StatusServiceUnavailable {
		t.Errorf("plain HTTP: %d", a.status)
	}
	wantReady(t, g, "beside as many requests as there may be")
	metrics, err := http.Get(g.adm + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	if err != nil || !strings.Contains(string(text), "\nauthgate_requests_in_flight 3\n") || !strings.Contains(string(text), `authgate_connections{listener="https"} `) {
		t.Errorf("%v, the metrics lack the requests in flight or the connections", err)
	}
	finish()
	for range cap(statuses) {
		if got := <-statuses; got != http.StatusOK {
			t.Errorf("a request that was let in: %d", got)
		}
	}
	until(t, "requests to be served again", func() bool { return g.status(c, "GET", "/") == http.StatusOK })
}
