package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ownrig "authgate/internal/test/rig"

	"authgate/gateway/proxy/web"
	"authgate/policy"
)

const eventSource = "Accept: text/event-stream"

// webSocket returns the header of an opening handshake with a credential.
func webSocket(credential string) []string {
	return append([]string{credential, "Connection: Upgrade", "Upgrade: websocket"}, ownrig.Handshake...)
}

// A login has at most limits.streams_per_login streams, by whatever credentials. One more is 429, which does not reach
// the upstream if the request asks for a stream. Other logins, and requests that are no streams, go on.
func TestStreamsPerLogin(t *testing.T) {
	t.Parallel()
	yaml := baseConfig + "limits: {streams_per_login: 2}\n"
	streamsWith(t, yaml, func(s *streaming) {
		alice, bob, service := s.login(aliceIn), s.login(bobIn), basicHeader("service", "s3rvice")
		first := s.open("HTTP/1.1", "/session/", alice.cookie)
		defer s.open("HTTP/2.0", "/bearer/", alice.bearer).Close()
		refused := s.want(429, "GET", "/session/", "", alice.cookie, eventSource)
		if refused.Header().Get("Retry-After") != "1" || !strings.Contains(detailOf(t, refused), "streams") {
			t.Errorf("Retry-After %q: %s", refused.Header().Get("Retry-After"), refused.Body)
		}
		s.want(429, "GET", "/session/", "", webSocket(alice.cookie)...)
		if w := s.do("GET", "/session/", "", alice.cookie); w.Code != 429 || strings.Contains(w.Body.String(), "data") {
			t.Errorf("a third answer that is an event stream: %d %s", w.Code, w.Body)
		}
		<-s.canceled // the upstream's end of that
		defer s.open("HTTP/1.1", "/session/", s.another().cookie).Close()
		defer s.open("HTTP/1.1", "/session/", bob.cookie).Close()
		for range 2 {
			defer s.open("HTTP/1.1", "/basic/", service).Close() // the user, who has no login
			defer s.open("HTTP/1.1", "/public/", "").Close()
			defer s.open("HTTP/1.1", "/public/", "").Close()
		}
		s.want(429, "GET", "/basic/", "", service, eventSource)
		s.upstream.Answer = nil
		s.want(200, "GET", "/session/", "", alice.cookie)
		s.upstream.Answer = s.begin

		if got := s.sample("authgate_streams_open"); got != 10 {
			t.Errorf("the metric has %v streams, want 10", got)
		}
		denied := 0
		for _, line := range s.log.Records(t, "audit") {
			reason, _ := line["reason"].(string)
			if line["event"] == "denied" && strings.Contains(reason, "streams_per_login") {
				denied++
			}
		}
		if denied != 2 {
			t.Errorf("%d audit events, want one for each login", denied)
		}
		first.Close()
		time.Sleep(time.Second)
		s.open("HTTP/1.1", "/session/", alice.cookie).Close()
	})
}

// An eighth of limits.in_flight, and at least one, is for requests that are no streams: users can sign out however many
// streams they have. With 1, a stream can open nevertheless. A reload changes what counts for the next stream.
func TestShareWithoutStreams(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int{1: 1, 2: 1, 3: 2, 8: 7, 16: 14, 9500: 8313} {
		if got := mostStreams(limit); got != want {
			t.Errorf("of %d requests %d may be streams, want %d", limit, got, want)
		}
	}
	yaml := baseConfig + "limits: {in_flight: 4}\n"
	streamsWith(t, yaml, func(s *streaming) {
		alice := s.login(aliceIn)
		var open []io.Closer
		for range 3 {
			open = append(open, s.open("HTTP/1.1", "/session/", alice.cookie))
		}
		for _, header := range [][]string{{alice.cookie, eventSource}, webSocket(alice.cookie)} {
			if w := s.want(503, "GET", "/session/", "", header...); w.Header().Get("Retry-After") == "" {
				t.Error("the refusal has no Retry-After")
			}
		}
		s.mustReload(strings.Replace(yaml, "in_flight: 4", "in_flight: 5", 1))
		s.upstream.Answer = s.begin
		open = append(open, s.open("HTTP/2.0", "/session/", alice.cookie))
		s.upstream.Answer = nil
		s.want(200, "GET", "/session/", "", alice.cookie)
		s.want(200, "GET", "/me", "", alice.cookie)
		s.want(200, "POST", "/logout", "", alice.cookie)
		time.Sleep(within)
		s.alive(0)
		for _, each := range open {
			each.Close()
		}
		synctest.Wait()
		if n := s.Gateway.forwarder.Streams().Taken(); n != 0 {
			t.Errorf("after their end %d streams count", n)
		}
		s.want(http.StatusOK, "GET", "/public/", "", eventSource)
	})
}

// The store is asked for a login as often with many streams of it as with one, also after a reload. A logout ends them
// all at once.
func TestOneCheckForStreamsOfALogin(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		alice, bob := s.login(aliceIn), s.login(bobIn)
		var gets atomic.Int64
		s.store.breakIf(func(operation string, _ int64, _ string) bool {
			gets.Add(1)
			return false
		})
		asked := func() int64 {
			gets.Store(0)
			time.Sleep(10 * time.Second)
			return gets.Load()
		}
		var open []io.ReadCloser
		add := func(n int, path, header string) {
			for range n {
				open = append(open, s.open("HTTP/2.0", path, header))
			}
			time.Sleep(within)
		}
		add(1, "/session/", alice.cookie)
		one := asked()
		add(29, "/session/", alice.cookie)
		many := asked()
		s.mustReload(baseConfig)
		time.Sleep(within)
		if reloaded := asked(); one == 0 || max(many, reloaded) > one+4 { // a check more or less
			t.Errorf("one stream makes %d reads, 30 make %d, and %d after a reload", one, many, reloaded)
		}
		s.upstream.Answer = s.begin
		add(1, "/bearer/", alice.bearer)
		others := s.open("HTTP/1.1", "/session/", bob.cookie)
		defer others.Close()
		s.want(200, "POST", "/logout", "", alice.cookie)
		time.Sleep(100 * time.Millisecond)
		s.alive(1)
		for _, each := range open {
			each.Close()
		}
	})
}

// Requests share a check if they have the same identity, route and credential.
func TestShares(t *testing.T) {
	t.Parallel()
	id := &policy.Identity{}
	a, b := &exchange{}, &exchange{}
	a.Lent, b.Lent = &web.Lent{}, &web.Lent{}
	a.confirmed.id, b.confirmed.id = id, id
	if !a.Shares(b) {
		t.Error("equal ones do not share")
	}
	b.Credentials.Value = "x"
	if a.Shares(b) {
		t.Error("another credential shares")
	}
	b.Credentials, b.confirmed.route = a.Credentials, &route{}
	if a.Shares(b) {
		t.Error("another route shares")
	}
	b.confirmed = confirmed{id: &policy.Identity{Username: "other"}}
	if a.Shares(b) {
		t.Error("another identity shares")
	}
}
