package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// http2 is the load over HTTP/2, by h2load.
type http2 struct {
	lab      *lab
	posted   string // a file to post; empty: GET
	requests int    // in progress
	streams  int    // of them on each connection
}

// streams is the usual number of requests in progress on each connection over HTTP/2.
const streams = 4

// run implements load.
func (h http2) run(ctx context.Context, to target, lasting time.Duration) (result, error) {
	dir, err := os.MkdirTemp(h.lab.dir, "h2load-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "log")
	args := []string{
		"--cpu-list", strconv.Itoa(h.lab.loadCore), "h2load", "--threads", "1",
		"--clients", strconv.Itoa(max(1, h.requests/h.streams)), "--max-concurrent-streams", strconv.Itoa(h.streams),
		"--duration", strconv.Itoa(int(lasting.Seconds())), "--log-file", log,
	}
	if h.posted != "" {
		args = append(args, "--data", h.posted)
	}
	for _, header := range to.headers {
		args = append(args, "--header", header)
	}
	out, err := exec.CommandContext(ctx, "taskset", append(args, to.url)...).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("h2load: %w\n%s", err, out)
	}
	r, err := parseH2load(string(out))
	if err != nil {
		return result{}, err
	}
	requests, err := os.ReadFile(log)
	if err != nil {
		return result{}, err
	}
	r.p50, r.p99, err = parseH2loadLog(string(requests))
	return r, err
}

var (
	h2loadFinished = regexp.MustCompile(`(?m)^finished in ([^ ,]+),`)
	h2loadRequests = regexp.MustCompile(`(?m)^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$`)
	h2loadStatus   = regexp.MustCompile(`(?m)^status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx$`)
)

// parseH2load reads what h2load prints. Any answer other than 2xx is an error.
func parseH2load(out string) (result, error) {
	finished, requests, status := h2loadFinished.FindStringSubmatch(out), h2loadRequests.FindStringSubmatch(out), h2loadStatus.FindStringSubmatch(out)
	if finished == nil || requests == nil || status == nil {
		return result{}, fmt.Errorf("h2load printed no result:\n%s", out)
	}
	if !strings.Contains(out, "Application protocol: h2\n") {
		return result{}, fmt.Errorf("the server does not speak HTTP/2:\n%s", out)
	}
	// Answers of which only the header had come at the end are counted in 2xx alone.
	done := requests[2]
	if requests[3] != done || slices.ContainsFunc(append(requests[4:], status[2:]...), func(n string) bool { return n != "0" }) {
		return result{}, fmt.Errorf("requests failed: %s; %s", requests[0], status[0])
	}
	var r result
	var err, err2 error
	r.requests, err = strconv.ParseInt(done, 10, 64)
	r.elapsed, err2 = time.ParseDuration(finished[1])
	return r, errors.Join(err, err2)
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
	slices.Sort(times)
	return times[len(times)*50/100], times[len(times)*99/100], nil
}
