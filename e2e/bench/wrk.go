package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// load is the result of one wrk.
type load struct {
	requests int64
	elapsed  time.Duration
	p50, p99 time.Duration // latency
}

// doneScript makes wrk print one line for parseLoad at the end. Times are in
// microseconds. It defines no function that wrk calls for each request.
const doneScript = `function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("result %d %d %d %d %d %d %d %d %d\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
`

// wrk loads url for a time and returns the result. A failed request is an error.
func wrk(ctx context.Context, core, connections int, script string, lasting time.Duration, url, header string) (load, error) {
	cmd := exec.CommandContext(ctx, "taskset", "--cpu-list", strconv.Itoa(core),
		"wrk", "--threads", "1", "--connections", strconv.Itoa(connections),
		"--duration", fmt.Sprintf("%ds", int(lasting.Seconds())),
		"--script", script, "--header", header, url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parseLoad(string(out))
}

func parseLoad(out string) (load, error) {
	_, line, _ := strings.Cut("\n"+out, "\nresult ")
	var l load
	var micros, p50, p99, connect, read, write, status, timeout int64
	if _, err := fmt.Sscan(line, &l.requests, &micros, &p50, &p99, &connect, &read, &write, &status, &timeout); err != nil {
		return load{}, fmt.Errorf("wrk printed no result: %w\n%s", err, out)
	}
	if l.requests == 0 {
		return load{}, errors.New("no request was answered while wrk ran")
	}
	if connect+read+write+status+timeout > 0 {
		return load{}, fmt.Errorf("of %d requests failed: to connect %d, to read %d, to write %d, with a status over 399 %d, by time %d",
			l.requests, connect, read, write, status, timeout)
	}
	l.elapsed = time.Duration(micros) * time.Microsecond
	l.p50, l.p99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	return l, nil
}
