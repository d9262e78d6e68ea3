package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	ownrig "authgate/internal/test/rig"
)

// within is how soon after its login a stream ends.
const within = time.Second

// streaming is a client of a gateway whose upstream answers each request with a
// body that begins and goes on until the request is canceled.
type streaming struct {
	*rig
	clients  map[string]*http.Transport // by protocol
	canceled chan time.Time             // when the upstream noticed
}

var protocols = []string{"HTTP/1.1", "HTTP/2.0"}

// streamsOf runs f with such a gateway in a synctest bubble.
func streamsOf(t *testing.T, f func(*streaming)) {
	t.Helper()
	streamsWith(t, baseConfig, f)
}

// streamsWith is streamsOf for a gateway that runs yaml.
func streamsWith(t *testing.T, yaml string, f func(*streaming)) {
	t.Helper()
	listeningWith(t, yaml, func(_ *testing.T, r *rig, dial func() net.Conn) {
		s := &streaming{rig: r, clients: map[string]*http.Transport{}, canceled: make(chan time.Time, 100)}
		for _, protocol := range protocols {
			s.clients[protocol] = ownrig.TransportOver(dial, protocol)
			defer s.clients[protocol].CloseIdleConnections()
		}
		r.upstream.Answer = s.begin
		f(s)
	})
}

// begin is an upstream that sends "data" and then nothing.
func (s *streaming) begin(q *http.Request) (*http.Response, error) {
	out, in := io.Pipe()
	go func() { _, _ = io.WriteString(in, "data") }() // the reader may be gone
	context.AfterFunc(q.Context(), func() {
		s.canceled <- time.Now()
		in.CloseWithError(q.Context().Err())
	})
	answer := response(q, http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}}, "")
	answer.Body, answer.ContentLength = out, -1
	return answer, nil
}

// ask sends a request with a header line.
func (s *streaming) ask(protocol, path, header string) *http.Response {
	s.t.Helper()
	answer := ownrig.RoundTrip(s.t, s.clients[protocol], "GET", path, nil, header)
	if answer.Proto != protocol {
		s.t.Fatalf("the protocol is %s", answer.Proto)
	}
	return answer
}

// open returns a stream that has begun.
func (s *streaming) open(protocol, path, header string) io.ReadCloser {
	s.t.Helper()
	answer := s.ask(protocol, path, header)
	got := make([]byte, 4)
	if n, err := io.ReadFull(answer.Body, got); answer.StatusCode != http.StatusOK || err != nil || string(got) != "data" {
		s.t.Fatalf("%d, %q, %v", answer.StatusCode, got[:n], err)
	}
	return answer.Body
}

// alive fails the test unless that many requests are in flight.
func (s *streaming) alive(want int64) {
	s.t.Helper()
	synctest.Wait()
	if n := s.inFlight.count.Load(); n != want {
		s.t.Fatalf("%d requests are in flight, want %d:\n%s", n, want, s.log)
	}
}

// ends fails the test unless the stream and the request to the upstream end within
// a second of the time, and the client notices that the stream is not whole.
func (s *streaming) ends(body io.ReadCloser, since time.Time) {
	s.t.Helper()
	rest, err := io.ReadAll(body)
	if took := time.Since(since); took > within || err == nil || len(rest) > 0 {
		s.t.Errorf("after %v the client got %q, and then %v", took, rest, err)
	}
	if took := (<-s.canceled).Sub(since); took > within {
		s.t.Errorf("the upstream noticed after %v", took)
	}
	body.Close()
	s.alive(0)
}

// endsAfter opens a stream, which goes on for a minute, and ends with what end does.
func (s *streaming) endsAfter(protocol, path, header string, end func()) {
	s.t.Helper()
	body := s.open(protocol, path, header)
	time.Sleep(time.Minute)
	s.alive(1)
	since := time.Now()
	end()
	s.ends(body, since)
}

// change runs the basic configuration with one part of it replaced.
func (s *streaming) change(old, new string) {
	s.t.Helper()
	if strings.Count(baseConfig, old) != 1 {
		s.t.Fatalf("%q is not in the configuration once", old)
	}
	s.mustReload(strings.Replace(baseConfig, old, new, 1))
}

// header returns the credential of a user for a route.
func (in signedIn) header(path string) string {
	switch path {
	case "/bearer/":
		return in.bearer
	case "/basic/":
		return basicHeader("service", "s3rvice")
	}
	return in.cookie
}

// Ways to end a login.

func byCookie(s *streaming, in signedIn) { s.want(200, "POST", "/logout", "", in.cookie) }
func byBearer(s *streaming, in signedIn) { s.want(200, "POST", "/logout", "", in.bearer) }

func reloading(old, new string) func(*streaming, signedIn) {
	return func(s *streaming, _ signedIn) { s.change(old, new) }
}

// ending gives a part of the configuration an end, in the place of TIME, which then comes.
func ending(old, new string) func(*streaming, signedIn) {
	return func(s *streaming, _ signedIn) {
		s.change(old, strings.Replace(new, "TIME", endIn(s.rig, 30*time.Second), 1))
		s.clock.Advance(30*time.Second - 1)
		time.Sleep(2 * followEvery)
		s.alive(1)
		s.clock.Advance(1)
	}
}

// A stream ends with its login, whatever ends the login, and not before.
func TestStreamsEndWithTheLogin(t *testing.T) {
	t.Parallel()
	const session, bearer, admin, basic = "/session/", "/bearer/", "/admin/", "/basic/"
	for name, c := range map[string]struct {
		path   string
		end    func(s *streaming, in signedIn)
		reason string
	}{
		"signed out":            {session, byCookie, "ended session"},
		"signed out by a token": {bearer, byBearer, "access token"},
		"session by its token":  {session, byBearer, "ended session"},
		"token by its session":  {bearer, byCookie, "login has ended"},
		"ended by another login": {session, func(s *streaming, _ signedIn) {
			s.want(200, "POST", "/account/sessions/end", `{"others":true}`, jsonType, s.another().cookie)
		}, "ended session"},
		"the token expires": {bearer, func(s *streaming, _ signedIn) { s.clock.Advance(15 * time.Minute) },
			"expired"},
		"the session expires": {session, func(s *streaming, _ signedIn) { s.clock.Advance(time.Hour) }, "expired"},
		"the account goes":    {session, reloading("username: alice, ", "username: alicia, "), "ended session"},
		"the account is off":  {bearer, reloading("username: alice, ", "username: alice, disabled: true, "), "account"},
		"the account ends":    {bearer, ending("username: alice, ", "username: alice, until: TIME, "), "account"},
		"a session's account": {session, ending("username: alice, ", "username: alice, until: TIME, "), "ended session"},
		"a role ends": {admin, ending("roles: [user, admin], ", "roles: [user, {name: admin, until: TIME}], "),
			"admin"},
		"another password": {session, reloading(aliceHash, bobHash), "ended session"},
		"a role is lost":   {admin, reloading("roles: [user, admin], ", "roles: [user], "), "admin"},
		"the route is stricter": {session, reloading("match: /session/, ", "policy: {users: [bob]}, match: /session/, "),
			"policy"},
		"the route demands more": {session, reloading("match: /session/, ", "policy: {factors: 2}, match: /session/, "),
			"2 factors"},
		"the route goes":    {session, reloading("match: /session/, ", "match: /elsewhere/, "), "no route"},
		"the upstream goes": {session, reloading("name: session, upstream: app, ", "name: session, "), "no route"},
		"the mechanism goes": {"/any/", reloading("auth: [session, bearer, basic]", "auth: [bearer, basic]"),
			"does not accept"},
		"the Basic user goes":    {basic, reloading("username: service, ", "username: other, "), "Basic user"},
		"another Basic password": {basic, reloading(serviceHash, bobHash), "Basic user"},
		"a refresh token reused": {bearer, func(s *streaming, in signedIn) {
			s.clock.Advance(time.Minute)
			s.want(401, "POST", "/refresh", refreshBody(in.refresh), jsonType)
		}, "login has ended"},
	} {
		for _, protocol := range protocols {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				streamsOf(t, func(s *streaming) {
					in := s.login(aliceIn)
					s.endsAfter(protocol, c.path, in.header(c.path), func() {
						s.do("POST", "/refresh", refreshBody(in.refresh), jsonType) // a refresh ends nothing
						s.alive(1)
						c.end(s, in)
					})
					s.wantEnded(c.reason)
				})
			})
		}
	}
}

// wantEnded fails the test unless the log has once that a stream has ended for one of the
// reasons, which can come at the same time, and no error of the upstream.
func (s *streaming) wantEnded(reasons ...string) {
	s.t.Helper()
	isOne := func(got string) bool {
		return slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(got, reason) })
	}
	ended := 0
	for _, line := range s.log.Records(s.t, "request") {
		if got, _ := line["reason"].(string); strings.HasPrefix(got, "the login has ended: ") &&
			isOne(got) && line["error"] == nil && line["level"] == "INFO" {
			ended++
		}
	}
	audited := 0
	for _, line := range s.log.Records(s.t, "audit") {
		if got, _ := line["reason"].(string); line["event"] == "stream_ended" && line["subject"] != "" && isOne(got) {
			audited++
		}
	}
	if ended != 1 || audited != 1 || strings.Count(s.log.String(), "stream_ended") != 1 ||
		strings.Contains(s.log.String(), "ReverseProxy") {
		s.t.Errorf("want one stream that has ended for one of the reasons %q, the log has\n%s", reasons, s.log)
	}
}

// Streams go on while their logins do. Checks of streams only read from the
// store.
func TestStreamsGoOn(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		alice, bob := s.login(aliceIn), s.login(bobIn)
		for path, header := range map[string]string{"/session/": alice.cookie, "/bearer/": alice.bearer,
			"/basic/": basicHeader("service", "s3rvice"), "/public/": bob.cookie} {
			defer s.open("HTTP/1.1", path, header).Close()
			defer s.open("HTTP/2.0", path, header).Close()
		}
		s.do("POST", "/logout", "", bob.cookie)
		s.do("POST", "/refresh", refreshBody(alice.refresh), jsonType)
		s.change("roles: [user, admin], ", "roles: [user, staff], ")
		s.store.breakIf(func(operation string, _ int64, _ string) bool {
			if operation != "get" {
				s.t.Errorf("a check makes the operation %s", operation)
			}
			return false
		})
		time.Sleep(time.Hour)
		s.alive(8)
	})
}

// A stream is not activity: its session ends when it is idle.
func TestStreamsAreNoActivity(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		s.change("store: {driver: memory}", "store: {driver: memory}\nsession: {idle_timeout: 10m}")
		body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
		for range 9 {
			s.clock.Advance(time.Minute)
			time.Sleep(time.Minute)
		}
		s.alive(1)
		s.clock.Advance(time.Minute)
		s.ends(body, time.Now())
	})
}

// A request whose response has not begun gets the response that a new request
// would get.
func TestStreamsWithoutAnAnswerYet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path              string
		end               func(s *streaming, in signedIn)
		status            int
		detail, challenge string
	}{
		{"/session/", byCookie, 401, auth.DetailNotSignedIn, ""},
		{"/bearer/", byBearer, 401, auth.DetailBadToken, `Bearer realm="authgate", error="invalid_token"`},
		{"/admin/", reloading("roles: [user, admin], ", "roles: [user], "), 403, "not allowed", ""},
		{"/session/", reloading("match: /session/, ", "match: /elsewhere/, "), 404, "nothing here", ""},
	} {
		for _, protocol := range protocols {
			streamsOf(t, func(s *streaming) {
				in := s.login(aliceIn)
				s.upstream.Answer = func(q *http.Request) (*http.Response, error) {
					<-q.Context().Done()
					return nil, q.Context().Err()
				}
				ended := time.Now().Add(time.Minute)
				time.AfterFunc(time.Minute, func() { c.end(s, in) })
				answer := s.ask(protocol, c.path, in.header(c.path))
				if took := time.Since(ended); took < 0 || took > within {
					t.Errorf("answered %v after the end", took)
				}
				body, err := io.ReadAll(answer.Body)
				if err != nil || answer.StatusCode != c.status || !strings.Contains(string(body), c.detail) ||
					answer.Header.Get("WWW-Authenticate") != c.challenge {
					t.Errorf("%d, %v, %s, %v; want %d, %s", answer.StatusCode, answer.Header, body, err, c.status, c.detail)
				}
				if answer.Close != (protocol == "HTTP/1.1") {
					t.Errorf("the connection closes: %t", answer.Close)
				}
				answer.Body.Close()
				synctest.Wait()
				s.upstream.Answer = s.begin
				s.open(protocol, "/public/", "Accept: */*").Close() // the client can make further requests
			})
		}
	}
}

// While the store does not answer, a stream goes on for at most ten seconds.
func TestStreamsWithoutTheStore(t *testing.T) {
	t.Parallel()
	const most, hangs = 10 * time.Second, time.Second
	for _, away := range []time.Duration{7 * time.Second, time.Hour} {
		for kind, fail := range map[string]func(string, int64, string) bool{
			"fails": func(string, int64, string) bool { return true },
			"hangs": func(string, int64, string) bool { time.Sleep(hangs); return true },
		} {
			streamsOf(t, func(s *streaming) {
				body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
				defer time.Sleep(2 * hangs) // for operations that hang
				defer body.Close()
				time.Sleep(time.Minute)
				s.store.breakIf(fail)
				began := time.Now()
				time.AfterFunc(away, s.store.heal)
				time.Sleep(7 * time.Second)
				s.alive(1)
				if away < time.Hour {
					time.Sleep(time.Hour)
					s.alive(1)
					return
				}
				_, _ = io.ReadAll(body)
				if took := time.Since(began); took > most {
					t.Errorf("%s: ended after %v", kind, took)
				}
				synctest.Wait()
				s.wantEnded("not confirmed in time")
			})
		}
	}
}
