package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// Traffic is a load that wrk and h2load do not make, of a kind of trafficKinds. A body has volume
// bytes for the time that is measured; messages have none, and last as long as the time.
func (g Generator) Traffic(kind string, connections int, volume int64) Load {
	return traffic{g, kind, connections, volume}
}

// traffic is made by bench itself, in a process of its own.
type traffic struct {
	Generator
	kind        string
	connections int
	volume      int64
}

// Run implements Load. A body is shorter while the servers warm up.
func (k traffic) Run(ctx context.Context, to Target, lasting time.Duration) (Result, error) {
	self, err := os.Executable()
	if err != nil {
		return Result{}, err
	}
	bytes := int64(float64(k.volume)*lasting.Seconds()/k.measured.Seconds()) >> 20 << 20
	out, err := k.run(ctx, to, self, "traffic", "-kind", k.kind, "-roots", k.certificate,
		"-connections", strconv.Itoa(k.connections), "-lasting", lasting.String(),
		"-bytes", strconv.FormatInt(bytes, 10))
	if err != nil {
		return Result{}, err
	}
	return parseResult(out)
}

// journey is the work of one connection of a traffic, with its results.
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

func parseTraffic(args []string) (trafficOptions, error) {
	var o trafficOptions
	flags := flag.NewFlagSet("traffic", flag.ContinueOnError)
	flags.StringVar(&o.kind, "kind", "", "`kind` of traffic")
	flags.StringVar(&o.roots, "roots", "", "PEM `file` of certificates to trust")
	flags.Func("header", "`line` to send", func(line string) error {
		o.headers = append(o.headers, line)
		return nil
	})
	flags.IntVar(&o.connections, "connections", 1, "connections at a time")
	flags.DurationVar(&o.lasting, "lasting", 0, "`time` for messages")
	flags.Int64Var(&o.bytes, "bytes", 0, "length of bodies")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.url = flags.Arg(0)
	if trafficKinds[o.kind] == nil || flags.NArg() != 1 {
		return o, fmt.Errorf("there is no traffic %q to %q", o.kind, flags.Args())
	}
	return o, nil
}

// trafficKinds are the actions of a connection until its time is over, or once for a body.
var trafficKinds = map[string]func(context.Context, *journey) error{
	"download":   download,
	"upload":     upload,
	"websocket":  echoSocket,
	"events":     readEvents,
	"grpc":       echoGRPC,
	"http3":      getHTTP3,
	"http3 post": postHTTP3,
}

// Play is the role of a process that makes traffic. It prints the same as doneScript.
func Play(args []string, stdout io.Writer) error {
	o, err := parseTraffic(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sum, err := (&journey{options: o}).divide(o.connections, func(part *journey) error {
		err := trafficKinds[o.kind](ctx, part)
		if err != nil {
			cancel()
		}
		return err
	})
	if err != nil {
		return err
	}
	p50, p99 := Percentiles(sum.times)
	_, err = fmt.Fprintf(stdout, "result %d %d %d %d 0 0 0 0 0\n",
		sum.messages, sum.bytes, p50.Microseconds(), p99.Microseconds())
	return err
}

// divide lets n parts travel at the same time, and returns the results of all.
func (j *journey) divide(n int, travel func(part *journey) error) (*journey, error) {
	parts, failures := make([]journey, n), make([]error, n)
	var group sync.WaitGroup
	for i := range parts {
		parts[i].options = j.options
		group.Go(func() { failures[i] = travel(&parts[i]) })
	}
	group.Wait()
	sum := &journey{options: j.options}
	for _, part := range parts {
		sum.messages, sum.bytes = sum.messages+part.messages, sum.bytes+part.bytes
		sum.times = append(sum.times, part.times...)
	}
	return sum, errors.Join(failures...)
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
