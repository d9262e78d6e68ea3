package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/proxy/web"
)

// Each exchange is counted and logged, whether the answer is the gateway's or the
// upstream's.
func TestExchangeAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
		if strings.HasSuffix(q.URL.Opaque, "teapot") {
			return response(q, http.StatusTeapot, http.Header{}, "short and stout"), nil
		}
		return response(q, http.StatusOK, http.Header{}, "hello"), nil
	}
	for _, c := range []struct {
		method, target, header, route, mechanism, decision string
		status, bytes                                      int
		subject                                            any
	}{
		{"GET", "/public/", "", "public", "none", "allow", 200, 5, nil},
		{"GET", "/public/teapot?secret", "", "public", "none", "allow", 418, 15, nil},
		{"GET", "/session/", alice.cookie, "session", "session", "allow", 200, 5, "local:alice"},
		{"GET", "/bearer/", alice.bearer, "bearer", "bearer", "allow", 200, 5, "local:alice"},
		{"GET", "/basic/", basicHeader("service", "s3rvice"), "basic", "basic", "allow", 200, 5, "basic:service"},
		{"GET", "/basic/", basicHeader("service", "x"), "basic", "none", "challenge", 401, -1, nil},
		{"GET", "/session/", "", "session", "none", "challenge", 401, -1, nil},
		{"GET", "/session/", browser, "session", "none", "challenge", 302, 0, nil},
		{"GET", "/admin/", r.login(bobIn).cookie, "admin", "session", "forbid", 403, -1, "local:bob"},
		{"GET", "/nowhere", "", "none", "none", "error", 404, -1, nil},
		{"GET", "//", "", "none", "none", "error", 400, -1, nil},
		{"GET", "/me", alice.cookie, "authgate/me", "session", "allow", 200, -1, "local:alice"},
		{"GET", "/me", "", "authgate/me", "none", "challenge", 401, -1, nil},
		{"PUT", "/me", "", "authgate/me", "none", "error", 405, -1, nil},
		{"GET", "/signin", browser, "authgate/signin", "none", "allow", 200, -1, nil},
		{"GET", "/login", browser, "authgate/login", "none", "allow", 302, 0, nil},
		{"GET", "/.well-known/jwks.json", "", "authgate/.well-known/jwks.json", "none", "allow", 200, -1, nil},
	} {
		labels := []string{
			"route=" + c.route, "mechanism=" + c.mechanism, "decision=" + c.decision, fmt.Sprintf("code=%d", c.status),
		}
		counted := func() [2]float64 {
			return [2]float64{
				r.sample("authgate_requests_total", labels...), r.sample("authgate_request_duration_seconds", labels[0]),
			}
		}
		before := counted()
		w := r.do(c.method, c.target, "", c.header)
		if c.bytes < 0 {
			c.bytes = w.Body.Len()
		}
		line := r.log.Last(t, "request")
		for key, value := range map[string]any{
			"method": c.method, "path": strings.TrimSuffix(c.target, "?secret"), "host": "gw.example", "client": "192.0.2.7",
			"route": c.route, "mechanism": c.mechanism, "decision": c.decision,
			"status": float64(c.status), "bytes": float64(c.bytes), "subject": c.subject,
		} {
			if line[key] != value {
				t.Errorf("%s %s: logged %s %v, want %v", c.method, c.target, key, line[key], value)
			}
		}
		if got := counted(); w.Code != c.status || got != [2]float64{before[0] + 1, before[1] + 1} {
			t.Errorf("%s %s: %d, counted %v after %v under %v", c.method, c.target, w.Code, got, before, labels)
		}
	}
	var denied []any
	for _, line := range r.log.Records(t, "audit") {
		if line["event"] == "denied" && line["reason"] != "" && line["request_id"] != nil {
			denied = append(denied, line["subject"])
		}
	}
	if !slices.Equal(denied, []any{nil, "local:bob"}) {
		t.Errorf("denied are %v", denied)
	}
}

// TestExchangeMemory checks that nothing of an exchange is left in the memory that the next one gets, and
// that what mechanisms may keep has memory of its own.
func TestExchangeMemory(t *testing.T) {
	t.Parallel()
	r := newNetworkRig(t, baseConfig, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	})
	alice := r.login(aliceIn)
	seen := map[*web.Lent]bool{}
	for range 100 {
		if w := r.do("GET", "/session/", "", alice.cookie); w.Code != http.StatusOK {
			t.Fatalf("got %d", w.Code)
		}
		ex, ok := r.exchanges.pool.Get().(*exchange)
		if !ok {
			continue // the runtime may drop it
		}
		if !reflect.ValueOf(ex).Elem().IsZero() {
			t.Fatalf("the memory holds %+v", ex)
		}
		ex.Init(r.state.Load().site, httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if seen[ex.Lent] {
			t.Fatal("two exchanges share what mechanisms may keep")
		}
		seen[ex.Lent] = true
		r.exchanges.put(ex)
	}
	if len(seen) == 0 {
		t.Error("no memory is used again")
	}
}

// A panic is a 500 that shows nothing of the cause. The log has the cause.
func TestExchangePanic(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const secret = "the cause of it all"
	r.upstream.Answer = func(*http.Request) (*http.Response, error) { panic(secret) }
	w := r.do("GET", "/public/", "")
	if w.Code != 500 || strings.Contains(w.Body.String(), secret) || detailOf(t, w) != "The gateway failed." {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	line, access := r.log.Last(t, "panic"), r.log.Last(t, "request")
	if line["panic"] != secret || !strings.Contains(fmt.Sprint(line["stack"]), "exchange_test.go") ||
		line["level"] != "ERROR" {
		t.Errorf("logged %v", line)
	}
	if access["status"] != 500.0 || access["decision"] != "error" || access["request_id"] != line["request_id"] {
		t.Errorf("logged %v", access)
	}
	if n := r.sample("authgate_requests_total", "route=public", "decision=error", "code=500"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// brokenBody is a body that fails.
type brokenBody func() error

func (b brokenBody) Read([]byte) (int, error) { return 0, b() }

// An answer that has begun cannot become an error. It is cut off, so that the client
// notices that it is not whole. What the proxy aborts is not logged as a panic.
func TestExchangeCutOff(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]brokenBody{
		"the upstream breaks": func() error { return errors.New("reset") },
		"panic":               func() error { panic("half-way") },
	} {
		r := newRig(t, baseConfig)
		r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
			answer := response(q, 200, http.Header{}, "")
			answer.Body, answer.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader("half"), fail)), -1
			return answer, nil
		}
		w := httptest.NewRecorder()
		q := request("GET", "/public/", "")
		aborted(t, func() { r.ServeHTTP(w, q) })
		if line := r.log.Last(t, "request"); w.Body.String() != "half" || line["status"] != 200.0 ||
			line["bytes"] != 4.0 || line["error"] == nil {
			t.Errorf("%s: the client gets %q; logged %v", name, w.Body, line)
		}
		if panics := r.log.Records(t, "panic"); (len(panics) == 1) != (name == "panic") ||
			len(r.log.Records(t, "request")) != 1 {
			t.Errorf("%s: logged %v", name, r.log)
		}
	}
}

// aborted fails the test unless f ends in the panic by which net/http cuts off
// an answer.
func aborted(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the handler ends with %v, want http.ErrAbortHandler", p)
		}
	}()
	f()
}

// The client, the log and the upstream get the same request ID.
func TestRequestIDEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for id, kept := range map[string]bool{"mine": true, "not mine": false} {
		r.want(200, "GET", "/public/", "", "X-Request-Id: "+id)
		seen, logged := r.upstream.Last().Header.Get("X-Request-Id"), r.log.Last(t, "request")["request_id"]
		if seen != logged || (seen == id) != kept {
			t.Errorf("%s: the upstream gets %q, the log has %v", id, seen, logged)
		}
		if got := r.want(404, "GET", "/nowhere", "", "X-Request-Id: "+id).Header().Get("X-Request-Id"); got == "" ||
			got != r.log.Last(t, "request")["request_id"] {
			t.Errorf("%s: the client gets %q", id, got)
		}
	}
}
