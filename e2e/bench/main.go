// Command bench measures the cost of authentication over a bare proxy, beside nginx
// and HAProxy as plain proxies, a session with Redis over one with SQLite, and forward
// authentication beside oauth2-proxy.
//
// Two servers run at the same time on one core. Each is under its own load on
// another core, where their upstream is too, so that the same noise affects both.
// The benchmark compares the processor time for each request: user and system time
// of the server's processes, divided by the requests that its load saw answered. For
// large answers it compares the time for each byte. Both servers get the same
// requests with the credential of a real login, and both present the same
// certificate with the same cipher of TLS 1.3. Servers are fresh in each round, and
// the median of the rounds counts. For idle connections it compares the memory that
// they add.
//
// The floor is a bare httputil.ReverseProxy that has all that makes it fast (kept
// connections, pooled buffers, no compression) and nothing that costs: no timeout, no
// log, no metrics. Authgate does everything that it does by default, but it writes an
// access log in the rows with that name only: JSON to the null device, because the disk
// is not measured. Nginx and HAProxy are plain proxies with one worker and kept
// connections, without a log.
//
// For streams it makes the load itself. Messages of WebSockets and gRPC streams come back
// before the next is sent, events are paced. Bodies of 2 GiB count in MiB, and the memory
// of authgate must not rise meanwhile.
//
// Named by -only, it measures the programs of docs/comparison.md, and the authorization server
// beside oidc-provider, whose forms wrk posts.
//
// With -unread it measures instead the cost of transfers that a client or an application does not
// read: the memory that they add for each pair of protocols, and the time of a form beside them. With
// -flood it measures the latencies of signed-in users while others sign in or guess passwords, with
// -logins what logins and logouts cost on each embedded store, with -growth how the costs grow with the
// configuration and its use, with -streams what streams at rest cost and what others see when many of
// them end, and with -instances the cost of several gateways on one Redis. These modes print tables of
// their own, without the floor.
//
// With -older, each row of authgate is compared with another build of it instead of the floor, to see
// the cost of a change.
//
// The floor is also compared with itself. If it differs by more than 2 %, the machine
// is too noisy, and the benchmark fails. Each run is checked: without the credential
// the answer is 401, with it the upstream gets the user, no answer is an error, the
// upstream counted as many requests as were answered and got their bodies, Redis
// holds the login, and idle connections still answer.
//
// It prints the ratio and the latency of each round to stderr, and to stdout the rows of the
// table of docs/benchmarks.md.
//
// Exit status: 0; 1 when a ratio is over -max-ratio or -max-redis, the machine is too
// noisy, or something failed; 2 for a wrong command line. A goal that is not met is
// only printed.
//
// Package lab starts the servers, package load asks them, and package role is the upstream and the
// floor. Here are the rows, their measurements, and the tables.
//
// It needs Linux, two cores, taskset, wrk, h2load, nginx, haproxy and
// redis-server, and caddy for the peers; make bench installs them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/role"
)

func main() {
	os.Exit(run())
}

func run() int {
	if len(os.Args) > 1 {
		switch name := os.Args[1]; name {
		case "upstream", "bare", "gate":
			if err := role.Play(name, os.Args[2:], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintf(os.Stderr, "bench %s: %v\n", name, err)
				return 1
			}
			return 0
		case "traffic":
			if err := load.Play(os.Args[2:], os.Stdout); err != nil {
				fmt.Fprintf(os.Stderr, "bench traffic: %v\n", err)
				return 1
			}
			return 0
		}
	}
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// options are those of the command line.
type options struct {
	measured, warm      time.Duration
	rounds, connections int
	only                *regexp.Regexp
	maxRatio, maxRedis  float64
	maxNoise            float64
	servers             lab.Options
	unread, flood       bool
	grows, shared       bool
	logins, streams     bool
	older               string
	picture             string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var seconds, warm int
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&seconds, "seconds", 4, "`seconds` that are measured in each round; few are quick and rough")
	flags.IntVar(&warm, "warm", 1, "`seconds` of load before each round")
	flags.StringVar(&only, "only", "", "measure only the rows that `regexp` matches, such as 'GET HTTP/2: "+
		"(floor|session)'; ^peers: those of docs/comparison.md; ^oauth: the authorization server; ^kinds: "+
		"what some applications need; ^callers: tokens of programs")
	o.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.measured, o.warm = time.Duration(seconds)*time.Second, time.Duration(warm)*time.Second
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return o, o.check()
}

// addFlags adds the flags that need no reading.
func (o *options) addFlags(flags *flag.FlagSet) {
	flags.IntVar(&o.rounds, "rounds", 3, "rounds for each row")
	flags.IntVar(&o.connections, "connections", 16,
		"requests of each load that are in progress at a time; four times as many for GET, POST and gRPC")
	flags.Float64Var(&o.maxRatio, "max-ratio", 1.15, "the most that authgate may cost, as a multiple of the floor")
	flags.Float64Var(&o.maxRedis, "max-redis", 1.1,
		"the most that a session may cost with Redis, as a multiple of one with SQLite")
	flags.Float64Var(&o.maxNoise, "max-noise", 0.02, "the most that the floor may differ from itself")
	flags.IntVar(&o.servers.ServerCore, "server-core", 0, "the core of both servers")
	flags.IntVar(&o.servers.LoadCore, "load-core", 1, "the core of the load generators and the upstream")
	flags.StringVar(&o.servers.Authgate, "authgate", "", "`file` to run instead of building cmd/authgate")
	flags.StringVar(&o.older, "older", "",
		"`file` of an older authgate to compare with in each row, instead of the floor")
	flags.StringVar(&o.servers.OAuth2Proxy, "oauth2-proxy", "",
		"`file` to run instead of building "+lab.OAuth2ProxyVersion)
	flags.StringVar(&o.servers.Caddy, "caddy", "caddy", "`file` of Caddy")
	flags.BoolVar(&o.unread, "unread", false,
		"measure instead what transfers cost that a client or an application does not read")
	flags.BoolVar(&o.flood, "flood", false, "measure instead what signed-in users see while others sign in or guess")
	flags.BoolVar(&o.grows, "growth", false, "measure instead how cost grows with the configuration and its use")
	flags.BoolVar(&o.shared, "instances", false, "measure instead what several gateways on one Redis cost")
	flags.BoolVar(&o.logins, "logins", false, "measure instead what logins and logouts cost on each embedded store")
	flags.BoolVar(&o.streams, "streams", false,
		"measure instead what streams at rest cost, and what others see when a login with 500 of them ends")
	flags.StringVar(&o.picture, "picture", "", "SVG `file` for the ratios to the floor, as bars")
	flags.StringVar(&o.servers.AuthgateLog, "log", os.DevNull, "`file` for what authgate logs")
}

// check refuses values that measure nothing, or that contradict each other.
func (o *options) check() error {
	switch {
	case o.measured < time.Second || o.warm < time.Second || o.rounds < 1 || o.connections < 1:
		return errors.New("-seconds, -warm, -rounds and -connections must be at least 1")
	case o.older != "" && (o.unread || o.flood || o.grows || o.shared || o.logins || o.streams || o.picture != ""):
		return errors.New("-older compares rows: it goes with no other table, and with no picture")
	case o.maxRatio <= 0 || o.maxRedis <= 0 || o.maxNoise <= 0:
		return errors.New("-max-ratio, -max-redis and -max-noise must be above 0")
	case o.servers.ServerCore < 0 || o.servers.LoadCore < 0 || o.servers.ServerCore == o.servers.LoadCore:
		return errors.New("-server-core and -load-core must be two different cores")
	}
	return nil
}

// bench is the part that all measurements share: servers and loads.
type bench struct {
	options
	lab   *lab.Lab
	loads load.Generator
}

// measure measures, and prints progress to stderr and the result to stdout.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	servers, err := lab.New(ctx, o.servers)
	if err != nil {
		return err
	}
	defer servers.Close()
	loads, err := load.New(strconv.Itoa(o.servers.LoadCore), servers.Dir, servers.Certificate, o.measured)
	if err != nil {
		return err
	}
	b := &bench{o, servers, loads}
	switch {
	case o.unread:
		return b.instead(ctx, b.measureUnread, stdout, stderr)
	case o.flood:
		return b.instead(ctx, b.measureFlood, stdout, stderr)
	case o.logins:
		return b.instead(ctx, b.measureLogins, stdout, stderr)
	case o.streams:
		return b.instead(ctx, b.measureStreams, stdout, stderr)
	case o.grows:
		return b.instead(ctx, b.measureGrowth, stdout, stderr)
	case o.shared:
		return b.instead(ctx, b.measureInstances, stdout, stderr)
	}
	return b.measureRows(ctx, stdout, stderr)
}

// mode measures something in place of the rows, and returns its tables. They can be whole although
// a limit is not kept, which is an error.
type mode func(ctx context.Context, stderr io.Writer) (tables string, err error)

// instead prints the tables of a mode.
func (b *bench) instead(ctx context.Context, mode mode, stdout, stderr io.Writer) error {
	if err := b.lab.Build(ctx); err != nil {
		return err
	}
	text, err := mode(ctx, stderr)
	if _, printed := io.WriteString(stdout, text); printed != nil {
		return printed
	}
	return err
}

// measureRows measures the rows that the options name, and prints them.
func (b *bench) measureRows(ctx context.Context, stdout, stderr io.Writer) error {
	r := rows{b.options, b.lab, b.loads}
	all := r.comparisons()
	if b.older == "" && b.only.String() != "" {
		all = slices.Concat(all, r.peers(), r.issuers(), r.kinds(), r.callers())
	}
	comparisons, err := choose(all, b.only)
	if err != nil {
		return err
	}
	if err := b.lab.Build(ctx); err != nil {
		return err
	}
	results := make([]series, len(comparisons))
	for i, c := range comparisons {
		results[i].comparison = c
	}
	// Each round measures all rows, so that a noisy minute affects one round of a few.
	for n := range b.rounds {
		fmt.Fprintf(stderr, "round %d of %d\n", n+1, b.rounds)
		for i, c := range comparisons {
			p, err := b.round(ctx, c, n)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name(), err)
			}
			results[i].pairs = append(results[i].pairs, p)
			fmt.Fprintf(stderr, "  %s: %.3f, p50 %s, p99 %s\n", c.name(), results[i].ratio(p),
				short(p.subject.P50), short(p.subject.P99))
		}
	}
	if b.picture != "" {
		if err := os.WriteFile(b.picture, draw(results), 0o644); err != nil {
			return err
		}
	}
	return report(stdout, results)
}
