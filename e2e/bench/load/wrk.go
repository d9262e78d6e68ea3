package load

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The files of a generator. Those of Lua are scripts for wrk.
const (
	doneFile    = "done.lua"
	postFile    = "post.lua"
	formFile    = "form.lua"
	refreshFile = "refresh.lua"
	postedFile  = "posted"
	callFile    = "call.lua"
	calledFile  = "called"
)

// doneScript makes wrk print one line for parseResult at the end. Times are in
// microseconds. It defines no function that wrk calls for each request.
const doneScript = `function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("result %d %d %d %d %d %d %d %d %d\n",
    summary.requests, summary.bytes, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
`

// postScript is a format for a file that wrk posts.
const postScript = `wrk.method = "POST"
wrk.body = io.open(%q):read("*a")
`

// formScript makes wrk post the form that a header has, because only headers differ between
// the two servers of a comparison.
const formScript = `wrk.method = "POST"
wrk.body = wrk.headers["X-Form"]
wrk.headers["X-Form"] = nil
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
`

// refreshScript makes wrk exchange refresh tokens, each for the next one. A header has those to
// begin with: the first half for the first run, and the rest for the second one.
const refreshScript = `local form, list = wrk.headers["X-Form"]:match("^(.*&)refresh_token=(.*)$")
local first, left = wrk.headers["X-Run"] == "1", {}
wrk.headers["X-Form"], wrk.headers["X-Run"] = nil, nil
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
for half, token in list:gmatch("(%d)([^,]+)") do
  if (half == "1") == first then left[#left + 1] = token end
end
function request()
  return wrk.format("POST", nil, nil, form .. "refresh_token=" .. table.remove(left, 1))
end
function response(status, headers, body)
  left[#left + 1] = body:match('"refresh_token":"([^"]+)"')
end
`

// Get is GET over HTTP/1.1.
func (g Generator) Get(connections int) Load { return wrk{g, doneFile, connections} }

// Post posts PostedBytes over HTTP/1.1.
func (g Generator) Post(connections int) Load { return wrk{g, postFile, connections} }

// Calls posts the call of a tool, CalledBytes long, over HTTP/1.1.
func (g Generator) Calls(connections int) Load { return wrk{g, callFile, connections} }

// Forms posts the form that the header line X-Form has.
func (g Generator) Forms(connections int) Load { return wrk{g, formFile, connections} }

// Refreshes exchanges refresh tokens. The header line X-Form has a form that ends with
// refresh_token=1A,2B and so on: the first run on a server begins with the tokens after a 1,
// each further one with those after a 2. A token for each connection and one more, which wrk
// only looks at, are needed.
func (g Generator) Refreshes(connections int) Load {
	return refreshes{wrk{g, refreshFile, connections}, &sync.Map{}}
}

// wrk is a load over HTTP/1.1, by the program of this name.
type wrk struct {
	Generator
	script      string
	connections int
}

// Run implements Load.
func (w wrk) Run(ctx context.Context, to Target, lasting time.Duration) (Result, error) {
	out, err := w.run(ctx, to, "wrk", "--threads", "1", "--connections", strconv.Itoa(w.connections),
		"--duration", fmt.Sprintf("%ds", int(lasting.Seconds())), "--timeout", "60s", "--script", w.file(w.script))
	if err != nil {
		return Result{}, err
	}
	return parseResult(out)
}

// refreshes is the load of clients that exchange refresh tokens.
type refreshes struct {
	wrk
	runs *sync.Map // the URLs that were asked
}

// Run implements Load.
func (r refreshes) Run(ctx context.Context, to Target, lasting time.Duration) (Result, error) {
	run := "1"
	if _, again := r.runs.LoadOrStore(to.URL, true); again {
		run = "2"
	}
	to.Headers = append(slices.Clone(to.Headers), "X-Run: "+run)
	return r.wrk.Run(ctx, to, lasting)
}

// parseResult reads the line of doneScript. Any error in it is one.
func parseResult(out string) (Result, error) {
	_, line, _ := strings.Cut("\n"+out, "\nresult ")
	var r Result
	var p50, p99, connect, read, write, status, timeout int64
	_, err := fmt.Sscan(line, &r.Requests, &r.Bytes, &p50, &p99, &connect, &read, &write, &status, &timeout)
	if err != nil {
		return Result{}, fmt.Errorf("there is no result: %w\n%s", err, out)
	}
	if connect+read+write+status+timeout > 0 {
		return Result{}, fmt.Errorf("beside %d requests failed: to connect %d, to read %d, to write %d, "+
			"with a status over 399 %d, by time %d", r.Requests, connect, read, write, status, timeout)
	}
	r.P50, r.P99 = time.Duration(p50)*time.Microsecond, time.Duration(p99)*time.Microsecond
	return r, nil
}
