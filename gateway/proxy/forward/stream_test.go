package forward

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
	"authgate/internal/test/must"
	"authgate/policy"
)

// Every request over HTTP/1.1 is a stream: its client may leave unnoticed. Over HTTP/2 those
// are whose login may end. A request that asks to become a WebSocket is one in any case.
func TestWhatIsAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, urlKey("http://app.invalid"))
	for _, served := range []bool{true, false} { // as HTTP/1.1 is, and not as HTTP/2 is
		for _, id := range []*policy.Identity{nil, &alice} {
			for _, upgrade := range []bool{true, false} {
				in := request("GET", "/public/")
				if served {
					in = in.WithContext(conn.Context(in.Context(), nil))
				}
				if upgrade {
					in.Header.Set("Upgrade", "websocket")
				}
				ex := &web.Exchange{}
				ex.Init(r.site, httptest.NewRecorder(), in)
				ex.Identity = id
				q := &Request{Exchange: ex, Route: r.routes[0], Login: r}
				q.cancelable(in)
				q.release()
				if is := q.cancel != nil; is != (served || upgrade || id != nil) {
					t.Errorf("HTTP/1.1: %t, upgrade: %t, identity: %v: a stream: %t", served, upgrade, id, is)
				}
				q.Done()
			}
		}
	}
}

// TestAlone: after a request of the fast path whose response came whole, nothing knows of it any
// more. Anything else may: a transport, or the copy of a body.
func TestAlone(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		switch q.URL.Path {
		case "/public/long":
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		case "/public/chunks":
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(append([]byte("ok"), body...))
	}))
	t.Cleanup(app.Close)
	r := newRig(t, urlKey(app.URL))
	var last *Request
	r.sent = func(q *Request) { last = q }
	send := func(method, target, body string) bool {
		in := request(method, target)
		in.Body, in.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		r.ServeHTTP(w, in)
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), body) {
			t.Fatalf("%s %s: got %d %.100q", method, target, w.Code, w.Body)
		}
		return last.Alone()
	}
	for _, c := range []struct {
		method, target, body string
		want                 bool
	}{
		{"GET", "/public/", "", true},
		{"POST", "/public/", "hello", true},
		{"HEAD", "/public/", "", false},
		{"GET", "/public/chunks", "", false},
		{"GET", "/public/long", "", false},
	} {
		got := send(c.method, c.target, c.body)
		if c.want { // which needs an idle connection
			got = inTime(func() bool { return send(c.method, c.target, c.body) })
		}
		if got != c.want {
			t.Errorf("%s %s: alone: %t, want %t", c.method, c.target, got, c.want)
		}
	}
}

// TestMetIsNotAlone: a check of streams that has met a request may still use it.
func TestMetIsNotAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short, met := &Request{whole: true, Login: &rig{}}, &Request{whole: true, Login: &rig{}}
		set := streams.NewSet()
		for _, q := range []*Request{short, met} {
			set.Add(&q.stream, (*stream)(q), q.Login)
		}
		short.Done()
		time.Sleep(time.Second)
		met.Done()
		if !short.Alone() || met.Alone() {
			t.Errorf("alone: %t before a check, %t after it", short.Alone(), met.Alone())
		}
	})
}

// TestKeptBody: a body for httputil.ReverseProxy stays as it is while the next request is read.
func TestKeptBody(t *testing.T) {
	t.Parallel()
	p := newPlainPool().get()
	for _, body := range []string{"of alice", "of bob"} { // the second one uses memory again
		must.Do(t, p.readBody(strings.NewReader(body), int64(len(body))))
		if string(p.Body) != body {
			t.Errorf("the body is %q, want %q", p.Body, body)
		}
	}
	kept := p.keepBody()
	must.Do(t, p.readBody(strings.NewReader("of carol"), 8))
	if string(kept) != "of bob" {
		t.Errorf("the body that is kept became %q", kept)
	}
}
