package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
)

// TestSample: a round counts only if the upstream has seen as much as the load.
func TestSample(t *testing.T) {
	t.Parallel()
	before := lab.Reading{CPU: time.Second, Reached: 10, Posted: 20}
	read := func(reached, posted int64) lab.Reading {
		return lab.Reading{CPU: 3 * time.Second, Reached: reached, Posted: posted}
	}
	for name, c := range map[string]struct {
		task    task
		seen    load.Result
		after   lab.Reading
		answers float64 // 0: an error
	}{
		"requests":          {task{}, load.Result{Requests: 100, Bytes: 5000}, read(110, 20), 100},
		"in progress":       {task{}, load.Result{Requests: 100}, read(126, 20), 100},
		"not forwarded":     {task{}, load.Result{Requests: 100}, read(109, 20), 0},
		"bodies":            {task{posted: 8}, load.Result{Requests: 100}, read(110, 820), 100},
		"a body is cut":     {task{posted: 8}, load.Result{Requests: 100}, read(110, 819), 0},
		"large":             {task{size: 1000}, load.Result{Requests: 3, Bytes: 4500}, read(15, 20), 4.5},
		"part of an answer": {task{size: 1000}, load.Result{Bytes: 500}, read(11, 20), 0.5},
		"nothing":           {task{}, load.Result{Bytes: 500}, read(11, 20), 0},
	} {
		got, err := c.task.sample(c.seen, before, c.after)
		good := got.answers == c.answers && got.cpu == 2*time.Second && got.Result == c.seen
		if (err != nil) != (c.answers == 0) || err == nil && !good {
			t.Errorf("%s: got %+v, %v; want %g answers", name, got, err, c.answers)
		}
	}
}

// rounds returns a series in which the subject costs these multiples of the floor.
func rounds(subject string, ratios ...float64) series {
	s := series{comparison: comparison{
		task: get("GET", load.Generator{}.Get(1)), subject: subject, other: "floor", most: 1.15,
	}}
	for _, ratio := range ratios {
		r := load.Result{Requests: 1000, P50: time.Millisecond, P99: 2 * time.Millisecond}
		s.pairs = append(s.pairs, pair{
			subject: sample{
				Result: r, answers: 1000, cpu: time.Duration(ratio * float64(time.Second)), peak: 32 << 20,
				idle: int64(ratio * idleConnections * 10240),
			},
			other: sample{Result: r, answers: 2000, cpu: 2 * time.Second, peak: 16 << 20, idle: idleConnections * 10240},
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
	for ratios, noisy := range map[[3]float64]bool{
		{1, 1.01, 0.99}: false, {1.5, 1.01, 0.5}: false, {1.03, 1.03, 1}: true, {0.97, 0.97, 1}: true,
	} {
		s := rounds("floor", ratios[:]...)
		s.noise, s.most = 0.02, 0
		if err := report(io.Discard, []series{s}); (err != nil) != noisy ||
			err != nil && !strings.Contains(err.Error(), "noisy") {
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
	results := []series{
		rounds("Basic", 1.5, 1.1, 1), rounds("session", 1.2, 1.2, 1), rounds("nginx", 3),
		rounds("session", 1), rounds("session", 0.5),
	}
	results[0].goal, results[1].goal, results[2].most = 1.1, 0.8, 0
	results[3].task = task{name: "1 MiB", load: load.Generator{}.Get(1), size: 1 << 20}
	results[4].task = task{name: "idle"}
	var out strings.Builder
	err := report(&out, results)
	if err == nil || !strings.Contains(err.Error(), "GET: session 1.200") ||
		strings.Contains(err.Error(), "Basic") || strings.Contains(err.Error(), "nginx") {
		t.Errorf("error %v, want one about session 1.200 alone", err)
	}
	const want = `
| Requests | Server  | Ratio | Goal          | CPU of a request | Memory       |
|----------|---------|-------|---------------|------------------|--------------|
| GET      | Basic   | 1.100 | 1.10, met     | 1.1ms            | 32.0 MiB     |
| GET      | session | 1.200 | 0.80, not met | 1.2ms            | 32.0 MiB     |
| GET      | nginx   | 3.000 |               | 3ms              | 32.0 MiB     |
| 1 MiB    | session | 1.000 |               | 1ms              | 32.0 MiB     |
| idle     | session | 0.500 |               | 500µs            | 5.0 KiB each |
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
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 45678: "45.7µs", 123456: "123µs", 999999: "1ms", 1234567890: "1.23s",
	} {
		if got := short(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

// TestComparisons: no row is there twice, and only rows of authgate can fail the run
// by their cost. All but those with the access log have a goal.
func TestComparisons(t *testing.T) {
	t.Parallel()
	r := rows{options: options{maxRatio: 1.15, maxRedis: 1.1, maxNoise: 0.02}, lab: &lab.Lab{}}
	all := r.comparisons()
	goals := map[string]float64{}
	for _, c := range all {
		if _, twice := goals[c.name()]; twice {
			t.Errorf("%s is there twice", c.name())
		}
		goals[c.name()] = c.goal
		plain, logs := slices.Contains([]string{"floor", "nginx", "HAProxy"}, c.subject), c.subject == "session, access log"
		if plain != (c.most == 0) || plain != (c.goal == 0 && c.rate == 0 && !logs) ||
			(c.subject == "floor") != (c.noise > 0) {
			t.Errorf("%s has the limits %g, %g and the goal %g", c.name(), c.most, c.noise, c.goal)
		}
	}
	for name, want := range map[string]float64{
		"GET HTTP/1.1: Basic": 0.80, "GET HTTP/1.1: bearer RS256": 0.82,
		"POST 1 KiB HTTP/1.1: session": 0.90, "GET HTTP/2: bearer RS256": 0.80,
		"1 MiB HTTP/1.1: session": 1.02, "100 MiB HTTP/1.1: session": 0.95, "1000 idle HTTP/1.1: session": 0.65,
		"1000 idle WebSockets: session": 1, "1000 idle event streams: session": 1,
		"GET HTTP/3: session": 1, "POST 1 KiB HTTP/2, 32 at a time: Basic": 0.63, "POST 1 KiB HTTP/2: nginx": 0,
		"forward authentication: session": 0, "GET HTTP/1.1: session on Redis": 1.1, "2 GiB up HTTP/1.1: session": 1.05,
		"WebSocket messages: session": 1.05, "gRPC messages: session": 1.05,
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

// TestOlder: with -older, each row of authgate over the floor, or over Caddy, is there over the older one.
func TestOlder(t *testing.T) {
	t.Parallel()
	r := rows{options: options{maxRatio: 1.15}, lab: &lab.Lab{}}
	var want, got []string
	for _, c := range r.comparisons() {
		if c.most > 0 && (c.other == floor || c.other == "Caddy") {
			want = append(want, c.name())
		}
	}
	r.older = "authgate-1.0"
	for _, c := range r.comparisons() {
		if c.other != older || c.goal != noWorse {
			t.Errorf("%s is over %s, with the goal %g", c.name(), c.other, c.goal)
		}
		got = append(got, c.name())
	}
	if !slices.Equal(got, want) || len(got) < 30 {
		t.Errorf("there are the rows %q, want %q", got, want)
	}
}

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := parseOptions([]string{"-seconds", "2", "-server-core", "3", "-only", "a|b"}, io.Discard)
	if err != nil || o.measured != 2*time.Second || o.rounds != 3 || o.maxRatio != 1.15 || o.maxRedis != 1.1 ||
		o.servers.ServerCore != 3 || o.servers.LoadCore != 1 || !o.only.MatchString("b") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range []string{"-seconds 0", "-warm 0", "-rounds 0", "-connections -1", "-max-ratio 0", "-max-redis 0",
		"-max-noise -1", "-older a -flood", "-older a -growth", "-older a -instances", "-older a -unread",
		"-older a -picture b", "-server-core 1", "-load-core -1", "-only (", "-what", "more"} {
		if _, err := parseOptions(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
	if _, err := parseOptions([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: error %v, want flag.ErrHelp", err)
	}
}

// TestDocumented: docs/benchmarks.md has the rows that bench prints, in their order, and
// docs/comparison.md those of the peers. They leave out the floor over itself, and show
// what other mechanisms cost than a session for one kind of request alone.
func TestDocumented(t *testing.T) {
	t.Parallel()
	r := rows{options: options{maxNoise: 0.02}, lab: &lab.Lab{}}
	for file, rows := range map[string][]comparison{
		"benchmarks.md": slices.Concat(r.comparisons(), r.issuers(), r.kinds(), r.callers()), "comparison.md": r.peers(),
	} {
		document, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, row := range regexp.MustCompile(`(?m)^\| (\S.*?) +\| (\S.*?) +\| \d\.\d{3} \|`).
			FindAllStringSubmatch(string(document), -1) {
			got = append(got, row[1]+": "+row[2])
		}
		for _, c := range rows {
			other := c.subject == "Basic" || strings.HasPrefix(c.subject, "bearer ")
			if c.noise == 0 && (!other || c.task.name == "GET HTTP/1.1") {
				want = append(want, c.task.name+": "+c.label())
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("docs/%s has the rows\n%s\nwant\n%s", file, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
