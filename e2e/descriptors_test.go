package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// limited is a gateway with 200 file descriptors, in front of an upstream that
// holds requests for /slow until finish is called.
func limited(t *testing.T, limits string) (g *instance, began <-chan struct{}, finish func()) {
	t.Helper()
	held, arrived := make(chan struct{}), make(chan struct{}, 1000)
	finish = sync.OnceFunc(func() { close(held) })
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
	})
	t.Cleanup(finish)
	g = prepared(t)
	g.within = []string{"sh", "-c", `ulimit -n 200 && exec "$@"`, "sh"}
	g.configure(targets + app(up) + limits)
	g.run()
	return g, arrived, finish
}

// wantReady fails the test unless the admin listener answers that the gateway
// is ready.
func wantReady(t *testing.T, g *instance, when string) {
	t.Helper()
	eventually(t, patience, "/readyz "+when, func() error {
		status, body, err := g.readiness()
		if err != nil {
			t.Errorf("/readyz %s: %v", when, err)
		} else if status != http.StatusOK { // such as a disk that is late
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// slowly sends n requests for /slow. The channel gets their statuses; 0 is for a
// connection that was closed.
func slowly(g *instance, n int, client func() *http.Client) <-chan answer {
	answers := make(chan answer, n)
	for range n {
		c := client()
		go func() {
			a, _ := g.try(c, "GET", "/slow", "")
			answers <- a
		}()
	}
	return answers
}

// TestDescriptorsRunOut: with more clients than file descriptors, idle
// connections give way to new ones. When all connections are busy, a further
// request is answered 503 at once, until they are done. The admin listener
// answers all the time.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	g, _, finish := limited(t, "")
	first := g.connect(t, g.base)
	for range 133 { // silent ones of both listeners, and some that were served
		g.connect(t, g.base)
		g.connect(t, g.http)
		g.requested(t, g.dial(t, "http/1.1"))
	}
	for range 10 {
		if got := g.status(g.stranger11(), "GET", "/"); got != http.StatusOK {
			t.Errorf("a new client gets %d", got)
		}
		wantReady(t, g, "beside 400 idle clients")
	}
	limit(t, first)
	if n, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client that waited longest reads %d bytes, %v", n, err)
	}
	if n := strings.Count(g.log.String(), "the limit of connections is reached"); n != 1 {
		t.Errorf("that connections give way is logged %d times", n)
	}

	const clients = 400
	answers, got := slowly(g, clients, g.stranger11), map[int]int{}
	receive := func(n int) {
		for range n {
			a := <-answers
			if got[a.status]++; a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
				t.Error("a refusal has no Retry-After")
			}
		}
	}
	receive(clients / 4)
	wantReady(t, g, "beside busy clients")
	until(t, "a new client to be refused", func() bool {
		a, err := g.try(g.stranger11(), "GET", "/", "")
		return err == nil && a.status == http.StatusServiceUnavailable
	})
	finish()
	receive(clients - clients/4)
	if got[200] == 0 || got[503] == 0 || got[200]+got[503]+got[0] != clients {
		t.Errorf("answers by status: %v", got)
	}
	until(t, "requests to be served again", func() bool { return g.status(g.stranger11(), "GET", "/") == http.StatusOK })
	wantReady(t, g, "afterwards")
	if strings.Contains(g.log.String(), "too many open files") {
		t.Errorf("there were no file descriptors left:\n%s", g.log)
	}
}

// TestInFlight: limits.in_flight counts the streams of one connection too. It
// does not apply to the admin listener.
func TestInFlight(t *testing.T) {
	t.Parallel()
	g, began, finish := limited(t, "limits: {in_flight: 3}\n")
	c := g.stranger()
	answers := slowly(g, 3, func() *http.Client { return c })
	for range cap(answers) {
		<-began
	}
	refused := g.do(c, "GET", "/", "")
	wantProblem(t, refused, http.StatusServiceUnavailable)
	if refused.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	wantStatus(t, "plain HTTP", g.plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\n\n"), http.StatusServiceUnavailable)
	wantReady(t, g, "beside as many requests as allowed")
	metrics := g.scrape(t)
	if metrics["authgate_requests_in_flight"] != 3 || metrics[`authgate_connections{listener="https"}`] == 0 {
		t.Errorf("the metrics have %v requests and %v connections", metrics["authgate_requests_in_flight"], metrics[`authgate_connections{listener="https"}`])
	}
	finish()
	for range cap(answers) {
		wantStatus(t, "an accepted request", <-answers, http.StatusOK)
	}
	until(t, "requests to be served again", func() bool { return g.status(c, "GET", "/") == http.StatusOK })
}
