package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GetHTTP2 is GET over HTTP/2. So many requests are in progress, some of them as streams of each
// connection.
func (g Generator) GetHTTP2(requests, streams int) Load { return h2load{g, "", requests, streams} }

// PostHTTP2 posts PostedBytes over HTTP/2.
func (g Generator) PostHTTP2(requests, streams int) Load {
	return h2load{g, postedFile, requests, streams}
}

// h2load is a load over HTTP/2, by the program of this name.
type h2load struct {
	Generator
	posted   string // a file to post; empty: GET
	requests int    // in progress
	streams  int    // of them on each connection
}

// Run implements Load.
func (h h2load) Run(ctx context.Context, to Target, lasting time.Duration) (Result, error) {
	dir, err := os.MkdirTemp(h.dir, "h2load-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "log")
	args := []string{
		"h2load", "--threads", "1",
		"--clients", strconv.Itoa(max(1, h.requests/h.streams)), "--max-concurrent-streams", strconv.Itoa(h.streams),
		"--duration", strconv.Itoa(int(lasting.Seconds())), "--log-file", log,
	}
	if h.posted != "" {
		args = append(args, "--data", h.file(h.posted))
	}
	out, err := h.run(ctx, to, args...)
	if err != nil {
		return Result{}, err
	}
	r, err := parseH2load(out)
	if err != nil {
		return Result{}, err
	}
	requests, err := os.ReadFile(log)
	if err != nil {
		return Result{}, err
	}
	r.P50, r.P99, err = parseH2loadLog(string(requests))
	return r, err
}

var (
	h2loadRequests = regexp.MustCompile(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, ` +
		`(\d+) failed, (\d+) errored, (\d+) timeout$`)
	h2loadStatus = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$`)
)

// parseH2load reads the output of h2load. Any answer other than 2xx is an error.
func parseH2load(out string) (Result, error) {
	requests, status := h2loadRequests.FindStringSubmatch(out), h2loadStatus.FindStringSubmatch(out)
	if requests == nil || status == nil {
		return Result{}, fmt.Errorf("h2load printed no result:\n%s", out)
	}
	if !strings.Contains(out, "Application protocol: h2\n") {
		return Result{}, fmt.Errorf("the server does not speak HTTP/2:\n%s", out)
	}
	// Answers of which only the header had come at the end are counted in 2xx alone.
	done := requests[2]
	failed := func(n string) bool { return n != "0" }
	if requests[3] != done || slices.ContainsFunc(append(requests[4:], status[2:]...), failed) {
		return Result{}, fmt.Errorf("requests failed: %s; %s", requests[0], status[0])
	}
	answered, err := strconv.ParseInt(done, 10, 64)
	return Result{Requests: answered}, err
}

// parseH2loadLog returns percentiles of the time of the requests in h2load's log: its
// third column, in microseconds.
func parseH2loadLog(log string) (p50, p99 time.Duration, err error) {
	var times []time.Duration
	for line := range strings.Lines(log) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return 0, 0, fmt.Errorf("not in the form of h2load's log: %q", line)
		}
		micros, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("h2load's log: %w", err)
		}
		times = append(times, time.Duration(micros)*time.Microsecond)
	}
	if len(times) == 0 {
		return 0, 0, errors.New("h2load logged no request")
	}
	p50, p99 = Percentiles(times)
	return p50, p99, nil
}
