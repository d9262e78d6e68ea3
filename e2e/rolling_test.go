package e2e

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

// balancer sends requests to instances whose last answer was that they are ready.
// It sends no request twice.
type balancer struct {
	instances []*instance
	ready     []atomic.Bool
	next      atomic.Uint64
}

// watch checks the readiness of an instance until ctx ends.
func (b *balancer) watch(ctx context.Context, i int) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		status, _, err := b.instances[i].readiness()
		b.ready[i].Store(err == nil && status == http.StatusOK)
		<-tick.C
	}
}

// pick returns the number of the next instance, -1 if none is ready.
func (b *balancer) pick() int {
	first := int(b.next.Add(1))
	for i := range b.instances {
		if at := (first + i) % len(b.instances); b.ready[at].Load() {
			return at
		}
	}
	return -1
}

// traffic is the requests of clients behind a balancer, and their results.
type traffic struct {
	*balancer
	ledger *ledger

	mu       sync.Mutex
	lost     []string       // failures
	answered map[string]int // requests by kind
	served   []int          // requests by instance
	moved    int            // answers over HTTP/1.1 that asked for another connection
	again    int            // requests that GOAWAY refused and that were sent again
	sent     []string       // the numbers of requests to the upstream
}

// visitor is a client with its own connections.
type visitor struct {
	*traffic
	c     *http.Client
	http2 bool
	signIn
}

// send sends one request to an instance that is ready, and reads the answer.
func (v *visitor) send(what, method, path, body string, headers ...string) (answer, error) {
	at := v.pick()
	if at < 0 {
		return answer{}, errors.New("no instance is ready")
	}
	var written atomic.Int64
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Add(1) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), method, v.instances[at].base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := v.c.Do(request)
	if err != nil {
		return answer{}, fmt.Errorf("to %c: %w", 'A'+at, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.answered[what+" "+response.Proto]++
	v.served[at]++
	if response.Close {
		v.moved++
	}
	if tries := int(written.Load()); tries > 1 {
		v.again += tries - 1
		if !v.http2 {
			v.lost = append(v.lost, fmt.Sprintf("%s was sent %d times", what, tries))
		}
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(content)}, err
}

// fault records a failure.
func (v *visitor) fault(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = append(v.lost, fmt.Sprintf(format, args...))
}

// resource sends a request to the upstream and checks the answer.
func (v *visitor) resource(what, path, method, body string, ms int, headers ...string) {
	n := newRequestID()
	v.mu.Lock()
	v.sent = append(v.sent, n)
	v.mu.Unlock()
	a, err := v.send(what+" "+method, method, fmt.Sprintf("%s?n=%s&ms=%d", path, n, ms), body, headers...)
	if want := receipt(method, n, body); err != nil || a.status != http.StatusOK || a.body != want {
		v.fault("%s %s: %d %.100q, %v", method, what, a.status, a.body, err)
	}
}

// own sends a request to the gateway itself.
func (v *visitor) own(method, path, body string, headers ...string) answer {
	a, err := v.send(method+" "+path, method, path, body, headers...)
	if err != nil || a.status != http.StatusOK {
		v.fault("%s %s: %d %.100q, %v", method, path, a.status, a.body, err)
	}
	return a
}

// login signs alice in.
func (v *visitor) login() {
	a := v.own("POST", "/login", `{"username":"alice","password":"wonderland"}`, "Content-Type", "application/json")
	var err error
	if v.signIn, err = tokens(a); err != nil {
		v.fault("POST /login: %v", err)
	}
	v.session = cookieOf(a)
}

// visits are what each client repeats.
var visits = map[string]func(v *visitor){
	"a session": func(v *visitor) {
		if v.session == "" {
			v.login()
		}
		v.resource("session", "/secure-resource", "GET", "", 0, "Cookie", v.session)
		v.resource("session", "/secure-resource", "POST", strings.Repeat("x", rand.IntN(50_000)), 0, "Cookie", v.session)
	},
	"tokens": func(v *visitor) {
		if v.refresh == "" {
			v.login()
		}
		v.resource("token", "/secure-resource", "GET", "", 0, "Authorization", v.access)
		v.resource("token", "/secure-resource", "POST", strings.Repeat("x", rand.IntN(50_000)), 0, "Authorization", v.access)
		a := v.own("POST", "/refresh", fmt.Sprintf(`{"refresh_token":%q}`, v.refresh), "Content-Type", "application/json")
		var err error
		if v.signIn, err = tokens(a); err != nil {
			v.fault("POST /refresh: %v", err)
		}
	},
	"Basic": func(v *visitor) {
		v.resource("basic", "/basic-resource", "GET", "", 0, "Authorization", basicService)
		v.resource("basic", "/basic-resource", "POST", strings.Repeat("x", rand.IntN(50_000)), 0, "Authorization", basicService)
	},
	"logins": func(v *visitor) {
		v.login()
		v.own("GET", "/me", "", "Cookie", v.session)
		v.own("POST", "/logout", "", "Cookie", v.session)
	},
	"public, slow": func(v *visitor) {
		many(4, func(i int) {
			method, body := "GET", ""
			if i%2 == 0 {
				method, body = "POST", "body"
			}
			v.resource("slow", "/open", method, body, rand.IntN(4000))
		})
	},
}

// TestRollingRestart: two instances on one Redis are restarted twice each under
// load, behind a balancer that follows readiness and sends no request twice. Each
// request gets its answer and reaches the upstream once.
func TestRollingRestart(t *testing.T) {
	l := &traffic{ledger: &ledger{got: map[string]int{}}, answered: map[string]int{}, served: make([]int, 2)}
	up := httptest.NewServer(l.ledger)
	t.Cleanup(up.Close)
	p := preparePair(t, startRedis(t))
	for _, g := range p.both() {
		g.configure(shared + app(up.URL) + onRedis(p.redis.Address) + "shutdown_delay: 2s\nshutdown_timeout: 10s\n")
		g.run()
	}
	l.balancer = &balancer{instances: []*instance{p.a, p.b}, ready: make([]atomic.Bool, 2)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching, visiting sync.WaitGroup
	for i := range l.instances {
		watching.Go(func() { l.watch(ctx, i) })
	}
	until(t, "the balancer", func() bool { return l.ready[0].Load() && l.ready[1].Load() })

	var over atomic.Bool
	for _, visit := range visits {
		for _, http2 := range []bool{false, true} {
			v := &visitor{traffic: l, c: p.visitor(t, http2), http2: http2}
			visiting.Go(func() {
				for !over.Load() {
					visit(v)
				}
			})
		}
	}
	began := time.Now()
	for round := range 2 {
		for i, g := range l.instances {
			before := l.servedBy(i)
			until(t, "requests", func() bool { return l.servedBy(i) > before+100 })
			g.signal(syscall.SIGTERM)
			g.ends(30 * time.Second)
			g.run()
			until(t, "the balancer to see it", func() bool { return l.ready[i].Load() })
			t.Logf("round %d: %c is back after %v", round+1, 'A'+i, time.Since(began).Round(time.Millisecond))
		}
	}
	for i := range l.instances {
		before := l.servedBy(i)
		until(t, "requests", func() bool { return l.servedBy(i) > before+100 })
	}
	over.Store(true)
	visiting.Wait()
	cancel()
	watching.Wait()
	l.account(t, time.Since(began))
}

// visitor is a client with its own connections that trusts both instances.
func (p *pair) visitor(t *testing.T, http2 bool) *http.Client {
	t.Helper()
	c := p.browser(t)
	c.Jar = nil
	if !http2 {
		c.Transport.(*http.Transport).Protocols = &http.Protocols{}
		c.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	}
	return c
}

func (l *traffic) servedBy(i int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[i]
}

// account fails the test unless each request was served once.
func (l *traffic) account(t *testing.T, took time.Duration) {
	t.Helper()
	for i, fault := range l.lost {
		if i == 20 {
			t.Errorf("and %d more", len(l.lost)-i)
			break
		}
		t.Error(fault)
	}
	for _, n := range l.sent {
		if times := l.ledger.got[n]; times != 1 {
			t.Errorf("request %s reached the upstream %d times", n, times)
		}
	}
	if len(l.ledger.got) != len(l.sent) {
		t.Errorf("the upstream got %d requests, %d were sent", len(l.ledger.got), len(l.sent))
	}
	all := 0
	for what, n := range l.answered {
		t.Logf("%6d %s", n, what)
		all += n
	}
	if l.moved == 0 {
		t.Error("no answer over HTTP/1.1 asked for another connection")
	}
	for _, g := range l.instances {
		if log := g.log.String(); strings.Contains(log, "cut off") || strings.Count(log, `"msg":"stopping"`) != 2 {
			t.Error("an instance did not stop twice, or something was cut off")
		}
	}
	t.Logf("%d requests in %v, %d by A and %d by B, lost %d; %d to the upstream, each once; %d answers moved their client to another connection; %d were given back by GOAWAY and sent anew",
		all, took.Round(time.Millisecond), l.served[0], l.served[1], len(l.lost), len(l.sent), l.moved, l.again)
}
