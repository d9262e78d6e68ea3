package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 1 7 7 0 -1 4194304 100 0 0 0 123 45 0 0 20 0 5 0 1000 1000000 500 18446744073709551615\n"
	tests := []struct {
		name, stat string
		want       time.Duration
		fails      bool
	}{
		{"plain", "42 (authgate)" + rest, 1680 * time.Millisecond, false},
		{"odd command", "42 (a) R 1 (2 )" + rest, 1680 * time.Millisecond, false},
		{"empty", "", 0, true},
		{"no command", "42 authgate" + rest, 0, true},
		{"short", "42 (authgate) S 1 7 7", 0, true},
		{"no number", "42 (authgate) S 1 7 7 0 -1 4194304 100 0 0 0 x 45 0 0", 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat(tt.stat)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %v, %v; want %v, an error: %t", got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestParsePeak(t *testing.T) {
	t.Parallel()
	if got, err := parsePeak("Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n"); got != 16<<20 || err != nil {
		t.Errorf("got %d, %v; want 16 MiB", got, err)
	}
	for _, status := range []string{"", "VmRSS:\t 8 kB\n", "VmHWM:\t many kB\n"} {
		if got, err := parsePeak(status); err == nil {
			t.Errorf("%q gives %d, want an error", status, got)
		}
	}
}

func TestParseLoad(t *testing.T) {
	t.Parallel()
	const chatter = "Running 1s test @ https://127.0.0.1/\n  1 threads and 16 connections\n"
	got, err := parseLoad(chatter + "result 12000 2000000 800 2500 0 0 0 0 0\n")
	want := load{requests: 12000, elapsed: 2 * time.Second, p50: 800 * time.Microsecond, p99: 2500 * time.Microsecond}
	if got != want || err != nil {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for name, out := range map[string]string{
		"nothing":   chatter,
		"short":     chatter + "result 12000 2000000\n",
		"no answer": "result 0 2000000 0 0 0 0 0 0 0\n",
		"connect":   "result 12000 2000000 800 2500 1 0 0 0 0\n",
		"read":      "result 12000 2000000 800 2500 0 1 0 0 0\n",
		"write":     "result 12000 2000000 800 2500 0 0 1 0 0\n",
		"status":    "result 12000 2000000 800 2500 0 0 0 1 0\n",
		"timeout":   "result 12000 2000000 800 2500 0 0 0 0 1\n",
	} {
		if _, err := parseLoad(out); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// rounds returns a series in which the subject costs these multiples of the bare proxy.
func rounds(name string, ratios ...float64) series {
	s := series{name: name, other: "bare", most: 1.15}
	for _, ratio := range ratios {
		l := load{requests: 1000, elapsed: time.Second, p50: time.Millisecond, p99: 2 * time.Millisecond}
		s.pairs = append(s.pairs, pair{
			subject: sample{load: l, cpu: time.Duration(ratio * float64(time.Second)), peak: 32 << 20},
			other:   sample{load: l, cpu: time.Second, peak: 16 << 20},
		})
	}
	return s
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ratios []float64
		want   float64
	}{
		{[]float64{1.5}, 1.5},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(rounds("", tt.ratios...), pair.ratio); got != tt.want {
			t.Errorf("median of %v is %v, want %v", tt.ratios, got, tt.want)
		}
	}
}

func TestNoiseIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ratios []float64
		noisy  bool
	}{
		{[]float64{1, 1.01, 0.99}, false},
		{[]float64{1.5, 1.01, 0.5}, false},
		{[]float64{1.03, 1.03, 1}, true},
		{[]float64{0.97, 0.97, 1}, true},
	} {
		if err := rounds("", tt.ratios...).report(io.Discard, 0.02); (err != nil) != tt.noisy {
			t.Errorf("%v: error %v, want one: %t", tt.ratios, err, tt.noisy)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	results := []series{rounds("Basic", 1.5, 1.1, 1), rounds("session", 1.2, 1.2, 1)}
	err := report(&out, results)
	if err == nil || !strings.Contains(err.Error(), "session 1.200") || strings.Contains(err.Error(), "Basic") {
		t.Errorf("error %v, want one about session 1.200 alone", err)
	}
	for _, want := range []string{"1.100", "1.500 1.100 1.000", "1.1ms", "32.0 MiB", "16.0 MiB", "(bare beside it)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &out)
		}
	}
	results[1].most = 1.2
	if err := report(io.Discard, results); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-seconds", "2", "-server-core", "3"}, io.Discard)
	if err != nil || o.measured != 2*time.Second || o.rounds != 3 || o.maxRatio != 1.15 || o.maxRedis != 1.1 || o.serverCore != 3 || o.loadCore != 1 {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range []string{"-seconds 0", "-warm 0", "-rounds 0", "-connections -1", "-max-ratio 0", "-max-redis 0", "-max-noise -1",
		"-server-core 1", "-load-core -1", "-what", "more"} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	if _, err := parseOptions([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: error %v, want flag.ErrHelp", err)
	}
}

// play runs a role in this process until the test ends, and returns its addresses.
func play(t *testing.T, role string, args ...string) []string {
	t.Helper()
	stdin, stop := io.Pipe()
	addresses, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- playRole(role, args, stdin, stdout) }()
	t.Cleanup(func() {
		stop.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", role, err)
		}
	})
	line := make([]byte, 256)
	n, err := addresses.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(line[:n]))
}

// TestBareProxyForwardsAll: the two roles work together over TLS as in a measurement,
// and count the requests.
func TestBareProxyForwardsAll(t *testing.T) {
	t.Parallel()
	l := &lab{certificate: t.TempDir() + "/c.pem", key: t.TempDir() + "/k.pem"}
	if err := l.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	upstreams := play(t, "upstream")
	if len(upstreams) != 2 {
		t.Fatalf("the upstream has the addresses %v, want two", upstreams)
	}
	proxy := play(t, "bare", "-upstream", "http://"+upstreams[1], "-certificate", l.certificate, "-key", l.key)
	for range 3 {
		status, answer, err := l.get(t.Context(), "https://"+proxy[0]+"/a/b", "Authorization", "Bearer x")
		if err != nil || status != http.StatusOK || answer != string(body) {
			t.Fatalf("status %d, body %q, error %v", status, answer, err)
		}
	}
	for i, want := range []string{"0", "3"} {
		if _, count, err := l.get(t.Context(), "http://"+upstreams[i]+countPath, "", ""); count != want || err != nil {
			t.Errorf("upstream %d counts %s, %v; want %s", i, count, err, want)
		}
	}
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	const key = "Authorization"
	tests := []struct {
		name    string
		handler http.HandlerFunc
		fails   bool
	}{
		{"guarded", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(key) != "right" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			io.WriteString(w, "alice")
		}, false},
		{"open", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "alice") }, true},
		{"closed", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, true},
		{"another user", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(key) != "right" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			io.WriteString(w, "bob")
		}, true},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(key) != "right" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			http.Redirect(w, r, "/signin", http.StatusFound)
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			l := &lab{certificate: os.DevNull, key: os.DevNull}
			if err := l.makeCertificate(); err != nil {
				t.Fatal(err)
			}
			if err := l.guarded(t.Context(), server.URL, "alice", key, "right"); (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %t", err, tt.fails)
			}
		})
	}
}

func TestRoleRefuses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-upstream", "http://127.0.0.1:1", "-certificate", os.DevNull, "-key", os.DevNull},
		{"-upstream", ":"},
		{"-what"},
	} {
		stdin, stop := io.Pipe() // never ends before the test does
		err := playRole("bare", args, stdin, io.Discard)
		stop.Close()
		if err == nil {
			t.Errorf("%v: it runs", args)
		}
	}
}

func TestReadyGivesUp(t *testing.T) {
	t.Parallel()
	l := &lab{certificate: os.DevNull, key: os.DevNull}
	if err := l.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	failing := httptest.NewServer(http.NotFoundHandler())
	defer failing.Close()
	ended := &process{ended: make(chan struct{})}
	close(ended.ended)
	if err := l.ready(t.Context(), ended, failing.URL); err == nil {
		t.Error("a process that has ended is ready")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.ready(ctx, &process{ended: make(chan struct{})}, failing.URL); err == nil {
		t.Error("a server that answers 404 is ready")
	}
}
