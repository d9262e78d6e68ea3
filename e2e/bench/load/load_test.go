package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParseResult(t *testing.T) {
	t.Parallel()
	const chatter = "Running 1s test @ https://127.0.0.1/\n  1 threads and 16 connections\n"
	want := Result{Requests: 12000, Bytes: 6e9, P50: 800 * time.Microsecond, P99: 2500 * time.Microsecond}
	const good = "result 12000 6000000000 800 2500 0 0 0 0 0\n"
	if got, err := parseResult(chatter + good); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"no result":         "",
		"short result":      "result 12000 2000000\n",
		"failed to connect": "result 12000 6000000000 800 2500 1 0 0 0 0\n",
		"failed to read":    "result 12000 6000000000 800 2500 0 1 0 0 0\n",
		"failed to write":   "result 12000 6000000000 800 2500 0 0 1 0 0\n",
		"a bad status":      "result 12000 6000000000 800 2500 0 0 0 1 0\n",
		"timeout":           "result 12000 6000000000 800 2500 0 0 0 0 1\n",
	} {
		if got, err := parseResult(chatter + text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestParseH2load(t *testing.T) {
	t.Parallel()
	const good = `TLS Protocol: TLSv1.3
Application protocol: h2

finished in 2.50s, 24598.50 req/s, 1.67MB/s
requests: 49197 total, 49213 started, 49197 done, 49197 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 49199 2xx, 0 3xx, 0 4xx, 0 5xx
`
	if got, err := parseH2load(good); err != nil || got != (Result{Requests: 49197}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, change := range [][2]string{
		{"protocol: h2", "protocol: http/1.1"},
		{"requests:", "total:"},
		{"status codes:", "codes:"},
		{"49197 succeeded", "49196 succeeded"},
		{"0 failed", "1 failed"},
		{"0 errored", "1 errored"},
		{"0 timeout", "1 timeout"},
		{"0 3xx", "1 3xx"},
		{"0 4xx", "1 4xx"},
		{"0 5xx", "1 5xx"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if got, err := parseH2load(text); err == nil {
			t.Errorf("%s: got %+v, want an error", change[1], got)
		}
	}
}

func TestParseH2loadLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for n := range 100 {
		fmt.Fprintf(&log, "1795383711095790\t200\t%d\n", 100-n)
	}
	p50, p99, err := parseH2loadLog(log.String())
	if err != nil || p50 != 51*time.Microsecond || p99 != 100*time.Microsecond {
		t.Errorf("got %v, %v, %v; want 51µs, 100µs", p50, p99, err)
	}
	for _, text := range []string{"", "1\t200\n", "1\t200\tfast\n"} {
		if _, _, err := parseH2loadLog(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestPlayRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-kind pigeons https://a", "-kind grpc -what https://a", "-kind grpc", "-kind grpc https://a https://b",
	} {
		if err := Play(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

// TestHeldStayOpen: a connection that the server closes, or an answer other than
// 200, fails the run.
func TestHeldStayOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path  string
		fails bool
	}{"open": {"/", false}, "closing": {"/close", true}, "refused": {"/refuse", true}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/close":
				w.Header().Set("Connection", "close")
			case "/refuse":
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer server.Close()
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		all := Held{&heldRequests{conn, "GET " + c.path + " HTTP/1.1\r\nHost: a\r\n\r\n"}}
		defer all.Close()
		if err := errors.Join(all.Ask(), all.Ask()); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
	}
}
