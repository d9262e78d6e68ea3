package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/web"
)

// within is how soon after its login a stream ends.
const within = time.Second

// streaming is a client of a gateway whose upstream answers each request with a
// body that begins and goes on until the request is canceled.
type streaming struct {
	*rig
	t        *testing.T
	clients  map[string]*http.Client // by protocol
	canceled chan time.Time          // when the upstream noticed
}

// streamsOf runs f with such a gateway in a synctest bubble.
func streamsOf(t *testing.T, f func(*streaming)) {
	t.Helper()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		s := &streaming{rig: r, t: t, clients: map[string]*http.Client{}, canceled: make(chan time.Time, 100)}
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			transport := transportOver(dial, protocol)
			s.clients[protocol] = &http.Client{Transport: transport}
			defer transport.CloseIdleConnections()
		}
		r.upstream.answering(s.begin)
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

// hold is an upstream that does not answer.
func (s *streaming) hold(q *http.Request) (*http.Response, error) {
	<-q.Context().Done()
	s.canceled <- time.Now()
	return nil, q.Context().Err()
}

// ask sends a request with a header line.
func (s *streaming) ask(protocol, path, header string) *http.Response {
	s.t.Helper()
	q, err := http.NewRequestWithContext(s.t.Context(), "GET", "http://gw.example"+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	name, value, _ := strings.Cut(header, ": ")
	q.Header.Set(name, value)
	answer, err := s.clients[protocol].Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
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

// ends fails the test unless the stream and the request to the upstream end within
// a second of the time, and the client notices that the stream is not whole.
func (s *streaming) ends(what string, body io.ReadCloser, since time.Time) {
	s.t.Helper()
	rest, err := io.ReadAll(body)
	if took := time.Since(since); took > within {
		s.t.Errorf("%s: ended after %v", what, took)
	}
	if err == nil || len(rest) > 0 {
		s.t.Errorf("%s: the client got %q, and then %v", what, rest, err)
	}
	if took := (<-s.canceled).Sub(since); took > within {
		s.t.Errorf("%s: the upstream noticed after %v", what, took)
	}
	body.Close()
	synctest.Wait()
	if n := s.load.inFlight.Load(); n != 0 {
		s.t.Errorf("%s: %d requests are in flight", what, n)
	}
}

// reload runs the basic configuration with one part of it replaced.
func (s *streaming) reload(old, new string) {
	s.t.Helper()
	if strings.Count(baseConfig, old) != 1 {
		s.t.Fatalf("%q is not in the configuration once", old)
	}
	if err := s.Reload(func() (*config.Config, error) {
		return parseConfig(s.t, s.dir, strings.Replace(baseConfig, old, new, 1)), nil
	}); err != nil {
		s.t.Fatal(err)
	}
	s.stub()
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
		"signed out":            {session, func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.cookie) }, "ended session"},
		"signed out by a token": {bearer, func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.bearer) }, "access token"},
		"session by its token":  {session, func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.bearer) }, "ended session"},
		"token by its session":  {bearer, func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.cookie) }, "login has ended"},
		"the token expires":     {bearer, func(s *streaming, _ signedIn) { s.clock.Advance(15 * time.Minute) }, "expired"},
		"the session expires":   {session, func(s *streaming, _ signedIn) { s.clock.Advance(time.Hour) }, "expired"},
		"the account goes":      {session, func(s *streaming, _ signedIn) { s.reload("username: alice, ", "username: alicia, ") }, "ended session"},
		"the account is off":    {bearer, func(s *streaming, _ signedIn) { s.reload("username: alice, ", "username: alice, disabled: true, ") }, "account"},
		"another password": {session, func(s *streaming, _ signedIn) {
			s.reload(`"$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"`, `"`+bobHash+`"`)
		}, "ended session"},
		"a role is lost": {admin, func(s *streaming, _ signedIn) { s.reload("roles: [user, admin], ", "roles: [user], ") }, "admin"},
		"the route is stricter": {session, func(s *streaming, _ signedIn) {
			s.reload("match: /session/, ", "policy: {users: [bob]}, match: /session/, ")
		}, "policy"},
		"the route goes":         {session, func(s *streaming, _ signedIn) { s.reload("match: /session/, ", "match: /elsewhere/, ") }, "no route"},
		"the mechanism goes":     {"/any/", func(s *streaming, _ signedIn) { s.reload("auth: [session, bearer, basic]", "auth: [bearer, basic]") }, "does not accept"},
		"a refresh token reused": {bearer, func(s *streaming, in signedIn) { s.reuse(in) }, "login has ended"},
		"the Basic user goes":    {basic, func(s *streaming, _ signedIn) { s.reload("username: service, ", "username: other, ") }, "Basic user"},
		"another Basic password": {basic, func(s *streaming, _ signedIn) {
			s.reload(`"$2a$04$/a6CEbScrlmC22ADXpzW/ecjqkuROylrmELHONFTJGi24ct16Ltwu"`, `"`+bobHash+`"`)
		}, "Basic user"},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				streamsOf(t, func(s *streaming) {
					in := s.login(aliceIn)
					header := in.cookie
					switch c.path {
					case bearer:
						header = in.bearer
					case basic:
						header = basicHeader("service", "s3rvice")
					}
					body := s.open(protocol, c.path, header)
					s.do("POST", "/refresh", refreshBody(in.refresh), jsonType) // a refresh ends nothing
					time.Sleep(time.Minute)
					if n := s.load.inFlight.Load(); n != 1 {
						t.Fatalf("before the end %d requests are in flight", n)
					}
					c.end(s, in)
					s.ends(name, body, time.Now())
					s.wantEnded(c.reason)
				})
			})
		}
	}
}

// reuse sends a refresh token that was exchanged before.
func (s *streaming) reuse(in signedIn) {
	s.clock.Advance(time.Minute)
	s.want(http.StatusUnauthorized, "POST", "/refresh", refreshBody(in.refresh), jsonType)
}

// wantEnded fails the test unless the log has once that a stream has ended for the
// reason, and no error of the upstream.
func (s *streaming) wantEnded(reason string) {
	s.t.Helper()
	var requests []map[string]any
	for _, line := range s.rig.log.Records(s.t, "request") {
		if got, _ := line["reason"].(string); strings.HasPrefix(got, "the login has ended: ") && strings.Contains(got, reason) {
			requests = append(requests, line)
		}
	}
	if len(requests) != 1 || requests[0]["error"] != nil || requests[0]["level"] != "INFO" {
		s.t.Errorf("the log has for the reason %q: %v\n%s", reason, requests, s.rig.log)
	}
	var audits []map[string]any
	for _, line := range s.rig.log.Records(s.t, "audit") {
		if line["event"] == "stream_ended" {
			audits = append(audits, line)
		}
	}
	if len(audits) != 1 || audits[0]["subject"] == "" || !strings.Contains(audits[0]["reason"].(string), reason) {
		s.t.Errorf("the audit log has %v", audits)
	}
	if strings.Contains(s.rig.log.String(), "ReverseProxy") {
		s.t.Errorf("the proxy logs an error:\n%s", s.rig.log)
	}
}

// Streams go on while their logins do. Checks of streams only read from the
// store.
func TestStreamsGoOn(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		alice, bob := s.login(aliceIn), s.login(bobIn)
		bodies := []io.ReadCloser{
			s.open("HTTP/1.1", "/session/", alice.cookie), s.open("HTTP/2.0", "/bearer/", alice.bearer),
			s.open("HTTP/2.0", "/basic/", basicHeader("service", "s3rvice")), s.open("HTTP/1.1", "/public/", bob.cookie),
		}
		s.do("POST", "/logout", "", bob.cookie)
		s.do("POST", "/refresh", refreshBody(alice.refresh), jsonType)
		s.reload("roles: [user, admin], ", "roles: [user, staff], ")
		s.rig.store.breakIf(func(operation string, _ int64, _ string) bool {
			if operation != "get" {
				t.Errorf("a check makes the operation %s", operation)
			}
			return false
		})
		time.Sleep(time.Hour)
		if n := s.load.inFlight.Load(); n != 4 {
			t.Errorf("%d of 4 streams are left:\n%s", n, s.rig.log)
		}
		for _, body := range bodies {
			body.Close()
		}
	})
}

// A stream is not activity: its session ends when it is idle.
func TestStreamsAreNoActivity(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		s.reload("store: {driver: memory}", "store: {driver: memory}\nsession: {idle_timeout: 10m}")
		body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
		for range 9 {
			s.clock.Advance(time.Minute)
			time.Sleep(time.Minute)
		}
		if n := s.load.inFlight.Load(); n != 1 {
			t.Fatalf("%d requests are in flight after 9 minutes", n)
		}
		s.clock.Advance(time.Minute)
		s.ends("idle", body, time.Now())
	})
}

// A request whose response has not begun gets the response that a new request
// would get.
func TestStreamsWithoutAnAnswerYet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path      string
		end       func(s *streaming, in signedIn)
		status    int
		detail    string
		challenge string
	}{
		"signed out": {"/session/", func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.cookie) }, 401, auth.DetailNotSignedIn, ""},
		"token":      {"/bearer/", func(s *streaming, in signedIn) { s.do("POST", "/logout", "", in.bearer) }, 401, auth.DetailBadToken, `Bearer realm="authgate", error="invalid_token"`},
		"role lost":  {"/admin/", func(s *streaming, _ signedIn) { s.reload("roles: [user, admin], ", "roles: [user], ") }, 403, "not allowed", ""},
		"route gone": {"/session/", func(s *streaming, _ signedIn) { s.reload("match: /session/, ", "match: /elsewhere/, ") }, 404, "nothing here", ""},
	} {
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				streamsOf(t, func(s *streaming) {
					in := s.login(aliceIn)
					s.upstream.answering(s.hold)
					ended := time.Now().Add(time.Minute)
					time.AfterFunc(time.Minute, func() { c.end(s, in) })
					header := in.cookie
					if c.path == "/bearer/" {
						header = in.bearer
					}
					answer := s.ask(protocol, c.path, header)
					if took := time.Since(ended); took < 0 || took > within {
						t.Errorf("answered %v after the end", took)
					}
					body, err := io.ReadAll(answer.Body)
					if err != nil || answer.StatusCode != c.status || !strings.Contains(string(body), c.detail) {
						t.Errorf("%d, %s, %v", answer.StatusCode, body, err)
					}
					if got := answer.Header.Get("WWW-Authenticate"); got != c.challenge {
						t.Errorf("WWW-Authenticate: %q", got)
					}
					if answer.Close != (protocol == "HTTP/1.1") {
						t.Errorf("the connection closes: %t", answer.Close)
					}
					answer.Body.Close()
					synctest.Wait()
					s.upstream.answering(s.begin)
					s.open(protocol, "/public/", "Accept: */*").Close() // the client can make further requests
				})
			})
		}
	}
}

// endlessBody never ends.
type endlessBody struct{}

func (endlessBody) Read(b []byte) (int, error) { return len(b), nil }
func (endlessBody) Close() error               { return nil }

// A client that does not read does not delay the end of its stream.
func TestStreamsOfClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		streamsOf(t, func(s *streaming) {
			s.upstream.answering(func(q *http.Request) (*http.Response, error) {
				context.AfterFunc(q.Context(), func() { s.canceled <- time.Now() })
				answer := response(q, http.StatusOK, http.Header{}, "")
				answer.Body, answer.ContentLength = endlessBody{}, 1<<40
				return answer, nil
			})
			in := s.login(aliceIn)
			answer := s.ask(protocol, "/session/", in.cookie)
			time.Sleep(3 * web.AnswerPause / 4) // the limit for slow readers is moved on meanwhile
			s.do("POST", "/logout", "", in.cookie)
			ended := time.Now()
			if took := (<-s.canceled).Sub(ended); took > within {
				t.Errorf("%s: the upstream noticed after %v", protocol, took)
			}
			time.Sleep(within - time.Since(ended))
			synctest.Wait()
			if n := s.load.inFlight.Load(); n != 0 {
				t.Errorf("%s: %d requests are in flight", protocol, n)
			}
			answer.Body.Close()
		})
	}
}

// While the store does not answer, a stream goes on for at most ten seconds.
func TestStreamsWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		away time.Duration // from 0 on
		ends bool
	}{
		"for a moment": {7 * time.Second, false},
		"for longer":   {time.Hour, true},
	} {
		for kind, fail := range map[string]func(string, int64, string) bool{
			"fails": func(string, int64, string) bool { return true },
			"hangs": func(string, int64, string) bool { time.Sleep(checkTime); return true },
		} {
			streamsOf(t, func(s *streaming) {
				body := s.open("HTTP/1.1", "/session/", s.login(aliceIn).cookie)
				defer time.Sleep(2 * checkTime) // for operations that hang
				defer body.Close()
				time.Sleep(time.Minute)
				s.rig.store.breakIf(fail)
				away := time.Now()
				time.AfterFunc(c.away, s.rig.store.heal)
				time.Sleep(7 * time.Second)
				if n := s.load.inFlight.Load(); n != 1 {
					t.Fatalf("%s, %s: gone within 7 s", name, kind)
				}
				if !c.ends {
					time.Sleep(time.Hour)
					if n := s.load.inFlight.Load(); n != 1 {
						t.Fatalf("%s, %s: gone", name, kind)
					}
					return
				}
				_, _ = io.ReadAll(body)
				if took := time.Since(away); took > unconfirmedTime {
					t.Errorf("%s, %s: ended after %v", name, kind, took)
				}
				synctest.Wait()
				s.wantEnded("not confirmed in time")
			})
		}
	}
}

// Streams whose records the store does not return do not delay the checks of
// others.
func TestStreamsBesideThoseThatWait(t *testing.T) {
	t.Parallel()
	streamsOf(t, func(s *streaming) {
		alice, bob := s.login(aliceIn), s.login(bobIn)
		for range checksAtOnce / 2 {
			defer s.open("HTTP/2.0", "/session/", alice.cookie).Close()
		}
		var alices sync.Map // keys
		s.rig.store.breakIf(func(_ string, _ int64, key string) bool {
			alices.Store(key, true)
			return false
		})
		time.Sleep(time.Minute)
		s.rig.store.heal()
		body := s.open("HTTP/1.1", "/session/", bob.cookie)
		s.rig.store.breakIf(func(_ string, _ int64, key string) bool {
			_, hang := alices.Load(key)
			if hang {
				time.Sleep(checkTime)
			}
			return hang
		})
		time.Sleep(2 * time.Second)
		s.do("POST", "/logout", "", bob.cookie)
		ended := time.Now()
		_, _ = io.ReadAll(body)
		if took := time.Since(ended); took > within {
			t.Errorf("ended after %v", took)
		}
		body.Close()
		s.rig.store.heal()
		time.Sleep(2 * checkTime) // for operations that hang
	})
}
