package redis

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// ledger is an upstream that counts requests by their number and answers with what
// it got, after as many milliseconds as the request says.
type ledger struct {
	mu  sync.Mutex
	got map[string]int
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client does not get an answer
	}
	query := r.URL.Query()
	l.mu.Lock()
	l.got[query.Get("n")]++
	l.mu.Unlock()
	if ms, err := strconv.Atoi(query.Get("ms")); err == nil {
		select { // the application works
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprint(w, receipt(r.Method, query.Get("n"), string(body)))
}

// receipt is the answer of the ledger.
func receipt(method, n, body string) string {
	return fmt.Sprintf("%s %s %x", method, n, sha256.Sum256([]byte(body)))
}

// traffic is the requests of clients behind a balancer, and their results. The
// balancer sends requests to instances whose last answer was that they are ready,
// and sends no request twice.
type traffic struct {
	instances []*world.Instance
	ready     []atomic.Bool
	served    []atomic.Int64 // answers by instance
	next      atomic.Uint64
	moved     atomic.Int64 // answers over HTTP/1.1 that asked for another connection

	mu   sync.Mutex
	lost []string // failures
	sent []string // the numbers of requests to the upstream
}

// watch checks the readiness of an instance until ctx ends.
func (l *traffic) watch(ctx context.Context, i int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		status, _, err := l.instances[i].Readiness()
		l.ready[i].Store(err == nil && status == http.StatusOK)
		<-tick.C
	}
}

// pick returns the number of the next instance, -1 if none is ready.
func (l *traffic) pick() int {
	first := int(l.next.Add(1))
	for i := range l.instances {
		if at := (first + i) % len(l.instances); l.ready[at].Load() {
			return at
		}
	}
	return -1
}

// fault records a failure.
func (l *traffic) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, fmt.Sprintf(format, args...))
}

// visitor is a client with its own connections.
type visitor struct {
	*traffic
	http.RoundTripper
	world.Login
}

// RoundTrip implements http.RoundTripper. It notes requests that were sent twice.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	var written atomic.Int64
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Add(1) }}
	response, err := v.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, err
	}
	if response.Close {
		v.moved.Add(1)
	}
	if written.Load() > 1 && response.ProtoMajor < 2 { // GOAWAY allows that
		v.fault("%s %s was sent %d times", r.Method, r.URL.Path, written.Load())
	}
	return response, nil
}

// send sends one request to an instance that is ready, and reads the answer.
func (v *visitor) send(method, path, body string, headers ...string) (world.Answer, error) {
	at := v.pick()
	if at < 0 {
		return world.Answer{}, errors.New("no instance is ready")
	}
	defer v.served[at].Add(1)
	return v.instances[at].Try(&http.Client{Transport: v, Timeout: world.Patience}, method, path, body, headers...)
}

// resource sends a request to the upstream and checks the answer.
func (v *visitor) resource(method, path, body string, ms int, headers ...string) {
	n := world.NewRequestID()
	v.mu.Lock()
	v.sent = append(v.sent, n)
	v.mu.Unlock()
	a, err := v.send(method, fmt.Sprintf("%s?n=%s&ms=%d", path, n, ms), body, headers...)
	if err != nil || a.Status != http.StatusOK || a.Body != receipt(method, n, body) {
		v.fault("%s %s with %.6s: %d %.100q, %v", method, path, headers, a.Status, a.Body, err)
	}
}

// uses sends a GET and a POST request to the upstream.
func (v *visitor) uses(path string, headers ...string) {
	v.resource("GET", path, "", 0, headers...)
	v.resource("POST", path, strings.Repeat("x", rand.IntN(50_000)), 0, headers...)
}

// own sends a request to the gateway itself. It stores the credentials that the
// answer has.
func (v *visitor) own(method, path, body string, headers ...string) {
	a, err := v.send(method, path, body, append(headers, "Content-Type", world.TypeJSON)...)
	given, _ := world.Tokens(a)
	if err != nil || a.Status != http.StatusOK {
		v.fault("%s %s: %d %.100q, %v", method, path, a.Status, a.Body, err)
	} else if given.Refresh != "" {
		given.Session = world.CookieOf(a)
		v.Login = given
	}
}

// visits are what each client repeats.
var visits = []func(v *visitor){
	func(v *visitor) {
		if v.Session == "" {
			v.own("POST", "/login", world.AliceJSON)
		}
		v.uses("/secure-resource", "Cookie", v.Session)
	},
	func(v *visitor) {
		if v.Refresh == "" {
			v.own("POST", "/login", world.AliceJSON)
		}
		v.uses("/secure-resource", "Authorization", v.Access)
		v.own("POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, v.Refresh))
	},
	func(v *visitor) { v.uses("/basic-resource", "Authorization", world.BasicService) },
	func(v *visitor) {
		v.own("POST", "/login", world.AliceJSON)
		v.own("GET", "/me", "", "Cookie", v.Session)
		v.own("POST", "/logout", "", "Cookie", v.Session)
	},
	func(v *visitor) { // slow ones
		world.Together(4, func(i int) {
			v.resource([]string{"GET", "POST"}[i%2], "/open", strings.Repeat("x", i), rand.IntN(4000))
		})
	},
}

// TestRollingRestart: two instances on one Redis are restarted twice each under
// load, behind a balancer that follows readiness and sends no request twice. Each
// request gets its answer and reaches the upstream once.
func TestRollingRestart(t *testing.T) {
	upstream := &ledger{got: map[string]int{}}
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	p := preparePair(t, world.StartRedis(t))
	for _, g := range p.both() {
		g.Configure(shared + world.App(up.URL) + world.OnRedis(p.redis.Address) + "shutdown_delay: 2s\nshutdown_timeout: " +
			"10s\n")
		g.Run()
	}
	l := &traffic{instances: []*world.Instance{p.a, p.b}, ready: make([]atomic.Bool, 2), served: make([]atomic.Int64, 2)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching, visiting sync.WaitGroup
	for i := range l.instances {
		watching.Go(func() { l.watch(ctx, i) })
	}
	world.Until(t, "the balancer", func() bool { return l.ready[0].Load() && l.ready[1].Load() })

	var over atomic.Bool
	for _, visit := range visits {
		for _, protocol := range []func(*http.Protocols, bool){(*http.Protocols).SetHTTP1, (*http.Protocols).SetHTTP2} {
			transport := p.browser(t).Transport.(*http.Transport)
			transport.Protocols = &http.Protocols{}
			protocol(transport.Protocols, true)
			v := &visitor{traffic: l, RoundTripper: transport}
			visiting.Go(func() {
				for !over.Load() {
					visit(v)
				}
			})
		}
	}
	serves := func(i int) {
		before := l.served[i].Load()
		world.Until(t, "requests", func() bool { return l.served[i].Load() > before+100 })
	}
	for range 2 {
		for i, g := range l.instances {
			serves(i)
			g.Signal(syscall.SIGTERM)
			g.Ends(30 * time.Second)
			g.Run()
			world.Until(t, "the balancer to see it", func() bool { return l.ready[i].Load() })
		}
	}
	serves(0)
	serves(1)
	over.Store(true)
	visiting.Wait()
	cancel()
	watching.Wait()

	if len(l.lost) > 0 {
		t.Errorf("%d failures, among them:\n%s", len(l.lost), strings.Join(l.lost[:min(len(l.lost), 20)], "\n"))
	}
	for _, n := range l.sent {
		if times := upstream.got[n]; times != 1 {
			t.Errorf("request %s reached the upstream %d times", n, times)
		}
	}
	if len(upstream.got) != len(l.sent) || l.moved.Load() == 0 {
		t.Errorf("the upstream got %d requests, %d were sent; %d answers asked for another connection", len(upstream.got),
			len(l.sent), l.moved.Load())
	}
	for _, g := range l.instances {
		if log := g.Log.String(); strings.Contains(log, "cut off") || strings.Count(log, `"msg":"stopping"`) != 2 {
			t.Error("an instance did not stop twice, or something was cut off")
		}
	}
	t.Logf("%d answers by A and %d by B; %d requests reached the upstream; %d answers moved their client to another "+
		"connection",
		l.served[0].Load(), l.served[1].Load(), len(l.sent), l.moved.Load())
}
