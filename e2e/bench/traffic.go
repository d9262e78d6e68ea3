package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// traffic is a load that wrk and h2load do not make: large bodies and streams. Bench
// makes it itself, in a process of its own.
type traffic struct {
	lab         *lab
	kind        string // of trafficKinds
	connections int
	volume      int64 // bytes of a body in the measured time; 0: messages for as long as the time
}

// run implements load. A body is shorter while the servers warm up.
func (k traffic) run(ctx context.Context, to target, lasting time.Duration) (result, error) {
	args := []string{
		"--cpu-list", strconv.Itoa(k.lab.loadCore), k.lab.self, "traffic", "-kind", k.kind, "-url", to.url, "-roots", k.lab.certificate,
		"-connections", strconv.Itoa(k.connections), "-lasting", lasting.String(),
		"-bytes", strconv.FormatInt(int64(float64(k.volume)*lasting.Seconds()/k.lab.measured.Seconds())>>20<<20, 10),
	}
	for _, header := range to.headers {
		args = append(args, "-header", header)
	}
	cmd := exec.CommandContext(ctx, "taskset", args...)
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("%s: %w\n%s", k.kind, err, out)
	}
	return parseWrk(string(out))
}

// journey is what one connection of a traffic does, and what it has seen.
type journey struct {
	options trafficOptions

	messages, bytes int64
	times           []time.Duration // of messages that come back
}

// trafficOptions are those of the command line of the role.
type trafficOptions struct {
	kind, url, roots string
	headers          []string
	connections      int
	lasting          time.Duration
	bytes            int64
}

// headerFlags collects a flag that can be given many times.
type headerFlags struct{ lines *[]string }

// String implements flag.Value.
func (h headerFlags) String() string { return "" }

// Set implements flag.Value.
func (h headerFlags) Set(line string) error {
	*h.lines = append(*h.lines, line)
	return nil
}

func parseTraffic(args []string) (trafficOptions, error) {
	var o trafficOptions
	flags := flag.NewFlagSet("traffic", flag.ContinueOnError)
	flags.StringVar(&o.kind, "kind", "", "`kind` of traffic")
	flags.StringVar(&o.url, "url", "", "`URL` to ask for")
	flags.StringVar(&o.roots, "roots", "", "PEM `file` of certificates to trust")
	flags.Var(headerFlags{&o.headers}, "header", "`line` to send")
	flags.IntVar(&o.connections, "connections", 1, "connections at a time")
	flags.DurationVar(&o.lasting, "lasting", 0, "`time` for messages")
	flags.Int64Var(&o.bytes, "bytes", 0, "length of bodies")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if trafficKinds[o.kind] == nil {
		return o, fmt.Errorf("there is no traffic %q", o.kind)
	}
	return o, nil
}

// trafficKinds are what a connection does until its time is over, or once for a body.
var trafficKinds = map[string]func(context.Context, *journey) error{
	"download":   download,
	"upload":     upload,
	"websocket":  echoSocket,
	"events":     readEvents,
	"grpc":       echoGRPC,
	"http3":      getHTTP3,
	"http3 post": postHTTP3,
}

// makeTraffic is the role of a process that makes traffic. It prints what wrk prints.
func makeTraffic(args []string, stdout io.Writer) error {
	o, err := parseTraffic(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all, failures := make([]journey, o.connections), make([]error, o.connections)
	start := time.Now()
	var group sync.WaitGroup
	for i := range all {
		all[i].options = o
		group.Go(func() {
			if failures[i] = trafficKinds[o.kind](ctx, &all[i]); failures[i] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(failures...); err != nil {
		return err
	}
	var messages, bytes int64
	var times []time.Duration
	for _, j := range all {
		messages += j.messages
		bytes += j.bytes
		times = append(times, j.times...)
	}
	slices.Sort(times)
	p50, p99 := time.Duration(0), time.Duration(0)
	if n := len(times); n > 0 {
		p50, p99 = times[n*50/100], times[n*99/100]
	}
	_, err = fmt.Fprintf(stdout, "result %d %d %d %d %d 0 0 0 0 0\n", messages, bytes, elapsed.Microseconds(), p50.Microseconds(), p99.Microseconds())
	return err
}

// exchanges calls exchange until the time is over, and notes how long each call takes.
func (j *journey) exchanges(exchange func() error) error {
	for end := time.Now().Add(j.options.lasting); ; {
		start := time.Now()
		if start.After(end) {
			return nil
		}
		if err := exchange(); err != nil {
			return err
		}
		j.messages++
		j.times = append(j.times, time.Since(start))
	}
}

// header returns the name and the value of a header line.
func header(line string) (name, value string) {
	name, value, _ = strings.Cut(line, ": ")
	return name, value
}
