package wire

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// limited is a gateway with 200 file descriptors, in front of an upstream that
// holds requests for /slow until finish is called.
func limited(t *testing.T, limits string) (g *world.Instance, began <-chan struct{}, finish func()) {
	t.Helper()
	held, arrived := make(chan struct{}), make(chan struct{}, 1000)
	finish = sync.OnceFunc(func() { close(held) })
	up := world.Serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
	})
	t.Cleanup(finish)
	g = world.Prepare(t)
	g.Within = []string{"sh", "-c", `ulimit -n 200 && exec "$@"`, "sh"}
	g.Configure(targets + world.App(up) + limits)
	g.Run()
	return g, arrived, finish
}

// slowly sends n requests for /slow. The channel gets their statuses; 0 is for a
// connection that was closed.
func slowly(g *world.Instance, n int, client func() *http.Client) <-chan world.Answer {
	answers := make(chan world.Answer, n)
	for range n {
		c := client()
		go func() {
			a, _ := g.Try(c, "GET", "/slow", "")
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
	first := connect(t, g, g.Base)
	for range 133 { // silent ones of both listeners, and some that were served
		connect(t, g, g.Base)
		connect(t, g, g.HTTP)
		requested(t, g, g.Dial(t, "http/1.1"))
	}
	for range 10 {
		if got := g.Status(g.Stranger11(), "GET", "/"); got != http.StatusOK {
			t.Errorf("a new client gets %d", got)
		}
		world.WantReady(t, g, "beside 400 idle clients")
	}
	world.Limit(t, first)
	if n, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client that waited longest reads %d bytes, %v", n, err)
	}
	const reached = "the limit of connections is reached"
	world.Until(t, "the log to tell the limit", func() bool { return strings.Contains(g.Log.String(), reached) })
	if n := strings.Count(g.Log.String(), reached); n != 1 {
		t.Errorf("that connections give way is logged %d times", n)
	}

	const clients = 400
	answers, got := slowly(g, clients, g.Stranger11), map[int]int{}
	receive := func(n int) {
		for range n {
			a := <-answers
			if got[a.Status]++; a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "" {
				t.Error("a refusal has no Retry-After")
			}
		}
	}
	receive(clients / 4)
	world.WantReady(t, g, "beside busy clients")
	world.Until(t, "a new client to be refused", func() bool {
		a, err := g.Try(g.Stranger11(), "GET", "/", "")
		return err == nil && a.Status == http.StatusServiceUnavailable
	})
	finish()
	receive(clients - clients/4)
	if got[200] == 0 || got[503] == 0 || got[200]+got[503]+got[0] != clients {
		t.Errorf("answers by status: %v", got)
	}
	world.Until(t, "requests to be served again",
		func() bool { return g.Status(g.Stranger11(), "GET", "/") == http.StatusOK })
	world.WantReady(t, g, "afterwards")
	if strings.Contains(g.Log.String(), "too many open files") {
		t.Errorf("there were no file descriptors left:\n%s", g.Log)
	}
}

// TestInFlight: limits.in_flight counts the streams of one connection too. It
// does not apply to the admin listener.
func TestInFlight(t *testing.T) {
	t.Parallel()
	g, began, finish := limited(t, "limits: {in_flight: 3}\n")
	c := g.Stranger()
	answers := slowly(g, 3, func() *http.Client { return c })
	for range cap(answers) {
		<-began
	}
	refused := g.Do(c, "GET", "/", "")
	wantProblem(t, refused, http.StatusServiceUnavailable)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	world.WantStatus(t, "plain HTTP", g.Plain(t, "127.0.0.1", "GET / HTTP/1.1\nHost: localhost\n\n"),
		http.StatusServiceUnavailable)
	world.WantReady(t, g, "beside as many requests as allowed")
	metrics := g.Scrape(t)
	if metrics["authgate_requests_in_flight"] != 3 || metrics[`authgate_connections{listener="https"}`] == 0 {
		t.Errorf("the metrics have %v requests and %v connections", metrics["authgate_requests_in_flight"],
			metrics[`authgate_connections{listener="https"}`])
	}
	finish()
	for range cap(answers) {
		world.WantStatus(t, "an accepted request", <-answers, http.StatusOK)
	}
	world.Until(t, "requests to be served again", func() bool { return g.Status(c, "GET", "/") == http.StatusOK })
}
