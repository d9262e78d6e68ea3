package main

import (
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

func TestParse(t *testing.T) {
	t.Parallel()
	const (
		rest    = " S 1 7 7 0 -1 4194304 100 0 0 0 123 45 0 0 20 0 5 0 1000 1000000 500 18446744073709551615\n"
		chatter = "Running 1s test @ https://127.0.0.1/\n  1 threads and 16 connections\n"
	)
	measured := load{requests: 12000, elapsed: 2 * time.Second, p50: 800 * time.Microsecond, p99: 2500 * time.Microsecond}
	stat := func(text string) (any, error) { return parseStat(text) }
	peak := func(text string) (any, error) { return parsePeak(text) }
	result := func(text string) (any, error) { return parseLoad(chatter + text) }
	for _, c := range []struct {
		name  string
		parse func(string) (any, error)
		text  string
		want  any // nil: an error
	}{
		{"stat", stat, "42 (authgate)" + rest, 1680 * time.Millisecond},
		{"stat of an odd command", stat, "42 (a) R 1 (2 )" + rest, 1680 * time.Millisecond},
		{"empty stat", stat, "", nil},
		{"stat without a command", stat, "42 authgate" + rest, nil},
		{"short stat", stat, "42 (authgate) S 1 7 7", nil},
		{"stat without a number", stat, "42 (authgate) S 1 7 7 0 -1 4194304 100 0 0 0 x 45 0 0", nil},
		{"peak", peak, "Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n", int64(16 << 20)},
		{"no peak", peak, "VmRSS:\t 8 kB\n", nil},
		{"peak without a number", peak, "VmHWM:\t many kB\n", nil},
		{"result", result, "result 12000 2000000 800 2500 0 0 0 0 0\n", measured},
		{"no result", result, "", nil},
		{"short result", result, "result 12000 2000000\n", nil},
		{"no answer", result, "result 0 2000000 0 0 0 0 0 0 0\n", nil},
		{"failed to connect", result, "result 12000 2000000 800 2500 1 0 0 0 0\n", nil},
		{"failed to read", result, "result 12000 2000000 800 2500 0 1 0 0 0\n", nil},
		{"failed to write", result, "result 12000 2000000 800 2500 0 0 1 0 0\n", nil},
		{"a bad status", result, "result 12000 2000000 800 2500 0 0 0 1 0\n", nil},
		{"timeout", result, "result 12000 2000000 800 2500 0 0 0 0 1\n", nil},
	} {
		if got, err := c.parse(c.text); (err != nil) != (c.want == nil) || err == nil && got != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
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
	for want, ratios := range map[float64][]float64{1.5: {1.5}, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := median(rounds("", ratios...), pair.ratio); got != want {
			t.Errorf("median of %v is %v, want %v", ratios, got, want)
		}
	}
}

func TestNoiseIsRefused(t *testing.T) {
	t.Parallel()
	for ratios, noisy := range map[[3]float64]bool{{1, 1.01, 0.99}: false, {1.5, 1.01, 0.5}: false, {1.03, 1.03, 1}: true, {0.97, 0.97, 1}: true} {
		if err := rounds("", ratios[:]...).report(io.Discard, 0.02); (err != nil) != noisy {
			t.Errorf("%v: error %v, want one: %t", ratios, err, noisy)
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

// testLab returns a lab with a certificate in these files.
func testLab(t *testing.T, certificate, key string) *lab {
	t.Helper()
	l := &lab{certificate: certificate, key: key}
	if err := l.makeCertificate(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestBareProxyForwardsAll: the two roles work together over TLS as in a measurement,
// and count the requests.
func TestBareProxyForwardsAll(t *testing.T) {
	t.Parallel()
	l := testLab(t, t.TempDir()+"/c.pem", t.TempDir()+"/k.pem")
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

// TestGuarded measures nothing unless the server answers with the user, and only to
// the credential.
func TestGuarded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stranger, user int // the status
		body           string
		fails          bool
	}{
		"guarded":      {http.StatusUnauthorized, http.StatusOK, "alice", false},
		"open":         {http.StatusOK, http.StatusOK, "alice", true},
		"closed":       {http.StatusUnauthorized, http.StatusUnauthorized, "", true},
		"another user": {http.StatusUnauthorized, http.StatusOK, "bob", true},
		"redirect":     {http.StatusUnauthorized, http.StatusFound, "alice", true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/signin")
			w.WriteHeader(map[bool]int{true: c.user, false: c.stranger}[r.Header.Get("Authorization") == "right"])
			io.WriteString(w, c.body)
		}))
		l := testLab(t, os.DevNull, os.DevNull)
		if err := l.guarded(t.Context(), server.URL, "alice", "Authorization", "right"); (err != nil) != c.fails {
			t.Errorf("%s: error %v, want one: %t", name, err, c.fails)
		}
		server.Close()
	}
}
