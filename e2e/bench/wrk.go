package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// http1 is the load over HTTP/1.1, by wrk.
type http1 struct {
	lab         *lab
	script      string // a file: doneScript, and what else wrk must know
	connections int
}

// doneScript makes wrk print one line for parseWrk at the end. Times are in
// microseconds. It defines no function that wrk calls for each request.
const doneScript = `function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("result %d %d %d %d %d %d %d %d %d %d\n",
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
`

// postScript is a format for a file that wrk posts.
const postScript = `wrk.method = "POST"
wrk.body = io.open(%q):read("*a")
`

// run implements load.
func (h http1) run(ctx context.Context, to target, lasting time.Duration) (result, error) {
	args := []string{
		"--cpu-list", strconv.Itoa(h.lab.loadCore), "wrk", "--threads", "1", "--connections", strconv.Itoa(h.connections),
		"--duration", fmt.Sprintf("%ds", int(lasting.Seconds())), "--timeout", "60s", "--script", h.script,
	}
	for _, header := range to.headers {
		args = append(args, "--header", header)
	}
	out, err := exec.CommandContext(ctx, "taskset", append(args, to.url)...).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parseWrk(string(out))
}

func parseWrk(out string) (result, error) {
	_, line, _ := strings.Cut("\n"+out, "\nresult ")
	var r result
	var micros, p50, p99, connect, read, write, status, timeout int64
	if _, err := fmt.Sscan(line, &r.requests, &r.bytes, &micros, &p50, &p99, &connect, &read, &write, &status, &timeout); err != nil {
		return result{}, fmt.Errorf("wrk printed no result: %w\n%s", err, out)
	}
	if connect+read+write+status+timeout > 0 {
		return result{}, fmt.Errorf("beside %d requests failed: to connect %d, to read %d, to write %d, with a status over 399 %d, by time %d",
			r.requests, connect, read, write, status, timeout)
	}
	r.elapsed = time.Duration(micros) * time.Microsecond
	r.p50, r.p99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	return r, nil
}
