package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/config/forwarding"
)

// firsts returns how often each target is the first choice of n requests in a row.
func (f *fixture) firsts(ctx context.Context, n int) []int {
	count := make([]int, len(f.targets))
	for range n {
		first := f.order(ctx, nil, f.next.Add(1))[0].target
		for i, t := range f.targets {
			if t == first {
				count[i]++
			}
		}
	}
	return count
}

func (f *fixture) wantFirsts(t *testing.T, ctx context.Context, n int, want ...int) {
	t.Helper()
	if got := f.firsts(ctx, n); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("of %d requests, the targets get %d; want %d", n, got, want)
	}
}

func by(balance string) func(*forwarding.Upstream) {
	return func(c *forwarding.Upstream) { c.Balance = balance }
}

// The target with the fewest requests in flight is the first choice. Those that
// are equal take turns.
func TestLeastRequests(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, by(forwarding.BalanceLeastRequests), "http://a", "http://b", "http://c")
	f.wantFirsts(t, t.Context(), 9, 3, 3, 3)
	f.targets[0].inFlight.Store(3)
	f.targets[1].inFlight.Store(1)
	f.wantFirsts(t, t.Context(), 3, 0, 0, 3)
	f.targets[2].inFlight.Store(1)
	f.wantFirsts(t, t.Context(), 4, 0, 2, 2)
	f.targets[1].sick.Store(true)
	f.targets[2].resting.Store(int64(f.elapsed() + time.Second))
	f.wantFirsts(t, t.Context(), 3, 3, 0, 0)
}

// A request is in flight until its response was read, by both ways.
func TestInFlight(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(held) }) }
	t.Cleanup(release)
	a := newApplication(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.RequestURI, "?") {
			http.NewResponseController(w).Flush()
			<-held
		}
	})
	f := newFixtureOf(t, by(forwarding.BalanceLeastRequests), a.URL, a.URL+"/b")
	inFlight := func() (n int64) {
		for _, s := range f.Targets() {
			n += s.InFlight
		}
		return n
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://ignored.invalid", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/?"
	response, err := f.way.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if n := inFlight(); n != 1 {
		t.Errorf("%d requests are in flight before the body, want 1", n)
	}
	release()
	response.Body.Close()
	response.Body.Close() // as a server and a proxy may both do
	if n := inFlight(); n != 0 {
		t.Errorf("%d requests are in flight after the body", n)
	}
	if _, err := f.send(t.Context(), "HEAD", nil); err != nil || inFlight() != 0 {
		t.Errorf("after HEAD: %v, %d in flight", err, inFlight())
	}
}

// A client has one target, independent of what other clients do. If that is down, its clients
// are spread over all others, and those of other targets stay.
func TestBalanceByClient(t *testing.T) {
	t.Parallel()
	f := newFixtureOf(t, by(forwarding.BalanceClient), "http://a", "http://b", "http://c", "http://d")
	const clients = 400
	choose := func() (chosen [clients]*target, count map[*target]int) {
		count = map[*target]int{}
		for i := range clients {
			ctx := WithClient(t.Context(), netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
			chosen[i] = f.order(ctx, nil, f.next.Add(1))[0].target
			count[chosen[i]]++
		}
		return chosen, count
	}
	before, shares := choose()
	for i, target := range f.targets {
		if n := shares[target]; n < clients/8 || n > clients/2 {
			t.Errorf("target %d has %d of %d clients", i, n, clients)
		}
	}
	if again, _ := choose(); again != before {
		t.Error("a client has another target the second time")
	}
	down := f.targets[1]
	down.resting.Store(int64(f.elapsed() + time.Second))
	after, _ := choose()
	spread := map[*target]int{}
	for i := range clients {
		switch {
		case before[i] == down:
			spread[after[i]]++
		case after[i] != before[i]:
			t.Errorf("client %d of a target that is well has another one", i)
		}
	}
	if len(spread) != 3 || spread[down] > 0 {
		t.Errorf("the clients of the target that is down are spread over %d targets, want the 3 others", len(spread))
	}
	mapped, plain := netip.MustParseAddr("::ffff:192.0.2.1"), netip.MustParseAddr("192.0.2.1")
	if rank(mapped, "http://a") != rank(plain, "http://a") {
		t.Error("the two forms of an IPv4 address are two clients")
	}
}

// A target that comes back gets a growing share of the requests.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	for _, balance := range []string{forwarding.BalanceRoundRobin, forwarding.BalanceLeastRequests} {
		f := newFixtureOf(t, by(balance), "http://a", "http://b")
		f.clock.Advance(time.Hour)
		f.targets[1].failed(int64(f.elapsed()), errNoConnection)
		f.wantFirsts(t, t.Context(), 10, 10, 0)
		f.clock.Advance(restAfterFailure)
		if !f.targets[1].succeeded(int64(f.elapsed())) {
			t.Fatal("the target is not back")
		}
		for _, t := range f.targets {
			t.inFlight.Store(1) // a load to compare
		}
		last := -1
		for _, after := range []time.Duration{0, slowStart / 2, slowStart} {
			f.next.Store(0)
			got := f.firsts(t.Context(), 1000)[1]
			switch {
			case balance == forwarding.BalanceLeastRequests:
				// It is the better choice only with less load.
			case got <= last:
				t.Errorf("%s: after %v the target gets %d requests of 1000, and %d before", balance, after, got, last)
			case got < int(max(leastShare, after.Seconds()/slowStart.Seconds())*500)-2,
				got > int(max(leastShare, after.Seconds()/slowStart.Seconds())*500)+2:
				t.Errorf("%s: after %v the target gets %d requests of 1000", balance, after, got)
			}
			last = got
			f.clock.Advance(slowStart / 2)
		}
		if last != 500 {
			t.Errorf("%s: in the end the target gets %d of 1000, want 500", balance, last)
		}
	}
}

// While a target is tested again, it gets one request at a time.
func TestUntestedTarget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Minute, "http://a", "http://b")
	f.targets[1].failed(int64(f.elapsed()), errNoConnection)
	f.clock.Advance(restAfterFailure)
	f.wantFirsts(t, t.Context(), 4, 2, 2)
	f.targets[1].inFlight.Store(1)
	f.wantFirsts(t, t.Context(), 4, 4, 0)
}

// A connection that a response has become is in flight until it is closed, and its
// ends close one after the other.
func TestTunnelInFlight(t *testing.T) {
	t.Parallel()
	a := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		// The client notices.
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		got, err := io.ReadAll(rw)
		_, _ = fmt.Fprintf(conn, "%s %v", got, err)
	})
	f := newFixture(t, time.Minute, a.URL, a.URL+"/b")
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://ignored.invalid", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = "/"
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	response, err := f.way.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, ok := response.Body.(interface {
		io.ReadWriteCloser
		CloseWrite() error
	})
	if !ok {
		t.Fatalf("the body of the 101 is a %T", response.Body)
	}
	inFlight := func() int64 { return f.targets[0].inFlight.Load() + f.targets[1].inFlight.Load() }
	if n := inFlight(); n != 1 {
		t.Errorf("%d requests are in flight, want 1", n)
	}
	if _, err := io.WriteString(tunnel, "hello"); err != nil {
		t.Error(err)
	}
	if err := tunnel.CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(tunnel); string(got) != "hello <nil>" || err != nil {
		t.Errorf("through the tunnel: %q, %v", got, err)
	}
	if tunnel.Close(); inFlight() != 0 {
		t.Errorf("%d requests are in flight after the tunnel", inFlight())
	}
}
