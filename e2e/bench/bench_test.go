package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const chatter = "Running 1s test @ https://127.0.0.1/\n  1 threads and 16 connections\n"
	measured := result{requests: 12000, bytes: 6e9, elapsed: 2 * time.Second, p50: 800 * time.Microsecond, p99: 2500 * time.Microsecond}
	peak := func(text string) (any, error) { return parseMemory(text, peakMemory) }
	present := func(text string) (any, error) { return parseMemory(text, presentMemory) }
	wrk := func(text string) (any, error) { return parseWrk(chatter + text) }
	for _, c := range []struct {
		name  string
		parse func(string) (any, error)
		text  string
		want  any // nil: an error
	}{
		{"peak", peak, "Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n", int64(16 << 20)},
		{"present memory", present, "Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n", int64(8 << 10)},
		{"no peak", peak, "VmRSS:\t 8 kB\n", nil},
		{"peak without a number", peak, "VmHWM:\t many kB\n", nil},
		{"result", wrk, "result 12000 6000000000 2000000 800 2500 0 0 0 0 0\n", measured},
		{"no result", wrk, "", nil},
		{"short result", wrk, "result 12000 2000000\n", nil},
		{"failed to connect", wrk, "result 12000 6000000000 2000000 800 2500 1 0 0 0 0\n", nil},
		{"failed to read", wrk, "result 12000 6000000000 2000000 800 2500 0 1 0 0 0\n", nil},
		{"failed to write", wrk, "result 12000 6000000000 2000000 800 2500 0 0 1 0 0\n", nil},
		{"a bad status", wrk, "result 12000 6000000000 2000000 800 2500 0 0 0 1 0\n", nil},
		{"timeout", wrk, "result 12000 6000000000 2000000 800 2500 0 0 0 0 1\n", nil},
	} {
		if got, err := c.parse(c.text); (err != nil) != (c.want == nil) || err == nil && got != c.want {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
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
	if got, err := parseH2load(good); err != nil || got != (result{requests: 49197, elapsed: 2500 * time.Millisecond}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, change := range [][2]string{
		{"protocol: h2", "protocol: http/1.1"},
		{"finished", "ended"},
		{"2.50s", "2.50"},
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
	if p50, p99, err := parseH2loadLog(log.String()); err != nil || p50 != 51*time.Microsecond || p99 != 100*time.Microsecond {
		t.Errorf("got %v, %v, %v; want 51µs, 100µs", p50, p99, err)
	}
	for _, text := range []string{"", "1\t200\n", "1\t200\tfast\n"} {
		if _, _, err := parseH2loadLog(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// TestSample: a round counts only if the upstream has seen as much as the load.
func TestSample(t *testing.T) {
	t.Parallel()
	before := reading{cpu: time.Second, reached: 10, posted: 20}
	for name, c := range map[string]struct {
		task    task
		seen    result
		after   reading
		answers float64 // 0: an error
	}{
		"requests":          {task{}, result{requests: 100, bytes: 5000}, reading{cpu: 3 * time.Second, reached: 110, posted: 20}, 100},
		"in progress":       {task{}, result{requests: 100}, reading{cpu: 3 * time.Second, reached: 126, posted: 20}, 100},
		"not forwarded":     {task{}, result{requests: 100}, reading{cpu: 3 * time.Second, reached: 109, posted: 20}, 0},
		"bodies":            {task{posted: 8}, result{requests: 100}, reading{cpu: 3 * time.Second, reached: 110, posted: 820}, 100},
		"a body is cut":     {task{posted: 8}, result{requests: 100}, reading{cpu: 3 * time.Second, reached: 110, posted: 819}, 0},
		"large":             {task{size: 1000}, result{requests: 3, bytes: 4500}, reading{cpu: 3 * time.Second, reached: 15, posted: 20}, 4.5},
		"part of an answer": {task{size: 1000}, result{bytes: 500}, reading{cpu: 3 * time.Second, reached: 11, posted: 20}, 0.5},
		"nothing":           {task{}, result{bytes: 500}, reading{cpu: 3 * time.Second, reached: 11, posted: 20}, 0},
	} {
		got, err := c.task.sample(c.seen, before, c.after)
		if (err != nil) != (c.answers == 0) || err == nil && (got.answers != c.answers || got.cpu != 2*time.Second || got.result != c.seen) {
			t.Errorf("%s: got %+v, %v; want %g answers", name, got, err, c.answers)
		}
	}
}

// rounds returns a series in which the subject costs these multiples of the floor.
func rounds(subject string, ratios ...float64) series {
	s := series{comparison: comparison{task: task{name: "GET", load: http1{}}, subject: subject, other: "floor", most: 1.15}}
	for _, ratio := range ratios {
		r := result{requests: 1000, elapsed: time.Second, p50: time.Millisecond, p99: 2 * time.Millisecond}
		s.pairs = append(s.pairs, pair{
			subject: sample{result: r, answers: 1000, cpu: time.Duration(ratio * float64(time.Second)), peak: 32 << 20, idle: int64(ratio * idleConnections * 10240)},
			other:   sample{result: r, answers: 2000, cpu: 2 * time.Second, peak: 16 << 20, idle: idleConnections * 10240},
		})
	}
	return s
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for want, ratios := range map[float64][]float64{1.5: {1.5}, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		s := rounds("", ratios...)
		if got := median(s, s.ratio); got != want {
			t.Errorf("median of %v is %v, want %v", ratios, got, want)
		}
	}
}

func TestNoiseIsRefused(t *testing.T) {
	t.Parallel()
	for ratios, noisy := range map[[3]float64]bool{{1, 1.01, 0.99}: false, {1.5, 1.01, 0.5}: false, {1.03, 1.03, 1}: true, {0.97, 0.97, 1}: true} {
		s := rounds("floor", ratios[:]...)
		s.noise, s.most = 0.02, 0
		if err := report(io.Discard, []series{s}); (err != nil) != noisy || err != nil && !strings.Contains(err.Error(), "noisy") {
			t.Errorf("%v: error %v, want one: %t", ratios, err, noisy)
		}
	}
}

// TestRate: a rate to reach is a goal of its own.
func TestRate(t *testing.T) {
	t.Parallel()
	s := rounds("session", 1, 1, 1) // 1000 requests for each second of a core
	for rate, want := range map[float64]string{1000: "1000/s, met", 1001: "1001/s, not met"} {
		s.rate = rate
		if got := s.verdict(); got != want {
			t.Errorf("the verdict is %q, want %q", got, want)
		}
	}
}

// TestReport: a goal that is not met is printed, a limit that is not kept is an error.
func TestReport(t *testing.T) {
	t.Parallel()
	results := []series{rounds("Basic", 1.5, 1.1, 1), rounds("session", 1.2, 1.2, 1), rounds("nginx", 3), rounds("session", 1), rounds("session", 0.5)}
	results[0].goal, results[1].goal, results[2].most = 1.1, 0.8, 0
	results[3].task = task{name: "1 MiB", load: http1{}, size: 1 << 20}
	results[4].task = task{name: "idle"}
	var out strings.Builder
	err := report(&out, results)
	if err == nil || !strings.Contains(err.Error(), "GET: session 1.200") || strings.Contains(err.Error(), "Basic") || strings.Contains(err.Error(), "nginx") {
		t.Errorf("error %v, want one about session 1.200 alone", err)
	}
	const want = `
| Requests | Server  | Ratio | Goal          | Each round        | CPU of a request | the floor's | Requests/s of a core | p50 | p99 | Peak memory |
|----------|---------|-------|---------------|-------------------|------------------|-------------|----------------------|-----|-----|-------------|
| GET      | Basic   | 1.100 | 1.10, met     | 1.500 1.100 1.000 | 1.1ms            | 1ms         | 909                  | 1ms | 2ms | 32.0 MiB    |
| GET      | session | 1.200 | 0.80, not met | 1.200 1.200 1.000 | 1.2ms            | 1ms         | 833                  | 1ms | 2ms | 32.0 MiB    |
| GET      | nginx   | 3.000 |               | 3.000             | 3ms              | 1ms         | 333                  | 1ms | 2ms | 32.0 MiB    |
| 1 MiB    | session | 1.000 |               | 1.000             | 1ms              | 1ms         | 1000                 | 1ms | 2ms | 32.0 MiB    |

| Connections | Server  | Ratio | Goal | Each round | Memory of each | the floor's | CPU to open one | the floor's | Peak memory |
|-------------|---------|-------|------|------------|----------------|-------------|-----------------|-------------|-------------|
| idle        | session | 0.500 |      | 0.500      | 5.0 KiB        | 10.0 KiB    | 500µs           | 1ms         | 32.0 MiB    |

| Requests/s of a core | GET |
|----------------------|-----|
| Basic                | 900 |
| session              | 830 |
| bearer HS256         |     |
| bearer RS256         |     |
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
	results[1].most, results[3].task.flat = 1.2, 1
	results[3].pairs[0].subject.grown = 2
	if err := report(io.Discard, results); err == nil || !strings.Contains(err.Error(), "not flat: 1 MiB: session") {
		t.Errorf("memory that grows: %v", err)
	}
	results[3].pairs[0].subject.grown = 1
	if err := report(io.Discard, results); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 45678: "45.7µs", 123456: "123µs", 999999: "1ms", 1234567890: "1.23s"} {
		if got := short(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestRounded(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{8.9: "8", 909: "900", 999.9: "990", 1050: "1,000", 17286: "17,000", 123456: "120,000"} {
		if got := rounded(n); got != want {
			t.Errorf("%g: got %s, want %s", n, got, want)
		}
	}
}

// TestComparisons: no row is there twice, and only rows of authgate can fail the run
// by their cost. All but those with the access log have a goal.
func TestComparisons(t *testing.T) {
	t.Parallel()
	l := &lab{options: options{maxRatio: 1.15, maxRedis: 1.1, maxNoise: 0.02}}
	all := l.comparisons()
	goals := map[string]float64{}
	for _, c := range all {
		if _, twice := goals[c.name()]; twice {
			t.Errorf("%s is there twice", c.name())
		}
		goals[c.name()] = c.goal
		plain, logs := slices.Contains([]string{"floor", "nginx", "HAProxy"}, c.subject), c.subject == "session, access log"
		if plain != (c.most == 0) || plain != (c.goal == 0 && c.rate == 0 && !logs) || (c.subject == "floor") != (c.noise > 0) {
			t.Errorf("%s has the limits %g, %g and the goal %g", c.name(), c.most, c.noise, c.goal)
		}
	}
	for name, want := range map[string]float64{
		"GET HTTP/1.1: Basic": 0.80, "GET HTTP/1.1: bearer RS256": 0.82, "POST 1 KiB HTTP/1.1: session": 0.90, "GET HTTP/2: bearer RS256": 0.80,
		"1 MiB HTTP/1.1: session": 1.02, "100 MiB HTTP/1.1: session": 0.95, "2000 idle HTTP/1.1: session": 0.65,
		"2000 idle WebSockets: session": 1, "GET HTTP/3: session": 1, "POST 1 KiB HTTP/2, 32 at a time: Basic": 0.63,
		"POST 1 KiB HTTP/2: nginx":        0,
		"forward authentication: session": 0, "GET HTTP/1.1: session on Redis": 1.1, "2 GiB up HTTP/1.1: session": 1.05, "WebSocket messages: session": 1.05, "gRPC messages: session": 1.05,
	} {
		if got, found := goals[name]; !found || got != want {
			t.Errorf("%s: goal %g (found: %t), want %g", name, got, found, want)
		}
	}
	for only, want := range map[string]int{"": len(all), "^GET HTTP/2:": 8, "1.1: (floor|session)$": 9, "caddy": 0} {
		chosen, err := choose(all, regexp.MustCompile(only))
		if len(chosen) != want || (err != nil) != (want == 0) {
			t.Errorf("-only %q chooses %d rows, %v; want %d", only, len(chosen), err, want)
		}
	}
}

// TestImitate: both servers of a comparison get the same requests, each with its own
// credential if it needs one.
func TestImitate(t *testing.T) {
	t.Parallel()
	gateway := &server{address: "a", folder: "basic", header: "Authorization: x"}
	post := task{resource: "resource", headers: []string{"A: b"}}
	for name, c := range map[string]struct {
		subject, other server
		want           [2]target
	}{
		"a bare one beside authgate": {*gateway, server{address: "b"}, [2]target{
			{"https://a/basic/resource", []string{"Authorization: x", "A: b"}}, {"https://b/basic/resource", []string{"Authorization: x", "A: b"}}}},
		"two of authgate": {*gateway, server{address: "b", folder: "session", header: "Cookie: y"}, [2]target{
			{"https://a/basic/resource", []string{"Authorization: x", "A: b"}}, {"https://b/session/resource", []string{"Cookie: y", "A: b"}}}},
		"two bare ones": {server{address: "a"}, server{address: "b"}, [2]target{
			{"https://a/session/resource", []string{cookie, "A: b"}}, {"https://b/session/resource", []string{cookie, "A: b"}}}},
	} {
		c.other.imitate(&c.subject)
		if got := [2]target{c.subject.target(post), c.other.target(post)}; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-seconds", "2", "-server-core", "3", "-only", "a|b"}, io.Discard)
	if err != nil || o.measured != 2*time.Second || o.rounds != 3 || o.maxRatio != 1.15 || o.maxRedis != 1.1 || o.serverCore != 3 || o.loadCore != 1 || !o.only.MatchString("b") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range []string{"-seconds 0", "-warm 0", "-rounds 0", "-connections -1", "-max-ratio 0", "-max-redis 0", "-max-noise -1",
		"-server-core 1", "-load-core -1", "-only (", "-what", "more"} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	if _, err := parseOptions([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: error %v, want flag.ErrHelp", err)
	}
}

// TestDocumented: docs/benchmarks.md has the rows that bench prints, in their order, and
// docs/comparison.md those of the peers.
func TestDocumented(t *testing.T) {
	t.Parallel()
	l := &lab{dir: t.TempDir()}
	issuers, err := l.issuers()
	if err != nil {
		t.Fatal(err)
	}
	for file, rows := range map[string][]comparison{"benchmarks.md": l.comparisons(), "comparison.md": l.peers()} {
		document, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		documented := regexp.MustCompile(`(?m)^\| (\S.*?) +\| (\S.*?) +\| \d\.\d{3} \|`).FindAllStringSubmatch(string(document), -1)
		var got, want []string
		for _, row := range documented {
			got = append(got, row[1]+": "+row[2])
		}
		for _, idle := range []bool{false, true} { // the second table
			for _, c := range rows {
				if (c.task.load == nil) == idle {
					want = append(want, c.task.name+": "+c.label())
				}
			}
		}
		if file == "benchmarks.md" { // the last two tables
			for _, c := range append(issuers, l.kindRows()...) {
				want = append(want, c.task.name+": "+c.label())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("docs/%s has the rows\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
