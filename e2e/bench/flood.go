package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
)

const (
	// floodGuessers is how many clients guess passwords, each as fast as it gets answers.
	floodGuessers = 300
	// floodUsers is how many signed-in users work beside them.
	floodUsers = 50
	// floodSignIns is how many sign in beside them, each again and again.
	floodSignIns = 50
	// floodPause is the time between two requests of a user.
	floodPause = 100 * time.Millisecond
	// mostFlood is the p99 of the users as a multiple of that without guesses.
	mostFlood = 3
)

// The load is on the same machine, so it tells the gateway from which addresses it comes.
var floodConfiguration = lab.Configuration(", trusted_proxies: [127.0.0.1]", `data_dir: data
log: {level: error}
accounts:
  users:
    - {username: alice, password_hash: "{{.Hash}}", roles: [user]}
`+repeat(floodSignIns, `    - {username: user%d, password_hash: "{{.Hash}}", roles: [user]}
`)+`upstreams:
  resources: {url: "http://{{.Upstream}}"}
policies:
  user: {roles: [user]}
routes:
  - {match: /session/, upstream: resources, auth: [session], policy: user}
`)

// besides are the clients beside the users, by what a row says of them.
var besides = []struct {
	name            string
	signIns, guests int
	most            float64 // the p99 of the users as a multiple of the quiet one; 0: any will do
}{{"none", 1, 0, 0}, {"50 who sign in", floodSignIns, 0, 0}, {"300 who guess", 1, floodGuessers, mostFlood}}

// measureFlood returns the latencies of signed-in users while others sign in or guess passwords. The gateway has
// one processor, and then two.
func (b *bench) measureFlood(ctx context.Context, stderr io.Writer) (string, error) {
	table := [][]string{{"Processors", "Other clients", "p50", "p99", "Each round", "Guesses/s", "Refused as busy/s",
		"Sign-ins, slowest"}}
	var failure error
	one := *b.lab
	b.lab.UseBothCores()
	for i, at := range []*lab.Lab{&one, b.lab} {
		processors := fmt.Sprint(i + 1)
		rows, err := b.floodOn(ctx, at, processors, stderr)
		if rows == nil {
			return "", err
		}
		table, failure = append(table, rows...), errors.Join(failure, err)
	}
	return markdown(table), failure
}

// floodOn returns the rows of one gateway.
func (b *bench) floodOn(ctx context.Context, at *lab.Lab, processors string, stderr io.Writer) ([][]string, error) {
	gateway, err := at.Configured(ctx, floodConfiguration, nil, 0)
	if err != nil {
		return nil, err
	}
	defer gateway.Stop()
	login, err := at.Client.SignIn(ctx, gateway.Base()+"/login", "alice", lab.Password,
		"X-Forwarded-For: 192.0.2.1") // from now on this address is known
	if err != nil {
		return nil, err
	}
	f := &flood{Visitor: b.loads.Visitor(gateway.Base(), "HTTP/1.1"), cookie: login.Cookie}
	var table [][]string
	var quiet time.Duration
	var failure error
	for _, beside := range besides {
		if _, err := f.round(ctx, beside.signIns, beside.guests, b.warm); err != nil { // it opens the connections
			return nil, fmt.Errorf("warming up beside %s: %w", beside.name, err)
		}
		var rounds []floodRound
		for range b.rounds {
			r, err := f.round(ctx, beside.signIns, beside.guests, b.measured)
			if err != nil {
				return nil, fmt.Errorf("beside %s: %w", beside.name, err)
			}
			fmt.Fprintf(stderr, "  %s processors, beside %s: p50 %s, p99 %s\n", processors, beside.name, r.p50, r.p99)
			rounds = append(rounds, r)
		}
		slices.SortFunc(rounds, func(a, b floodRound) int { return int(a.p99 - b.p99) })
		middle := rounds[len(rounds)/2]
		table = append(table, append([]string{processors, beside.name}, middle.row(rounds, b.measured)...))
		if beside.guests+beside.signIns == 1 {
			quiet = middle.p99
		}
		if ratio := float64(middle.p99) / float64(quiet); beside.most > 0 && ratio > beside.most {
			failure = fmt.Errorf("with %s processors, the p99 of users beside %s is %.1f times that without, at most %v "+
				"are allowed", processors, beside.name, ratio, beside.most)
		}
	}
	return table, failure
}

// flood is users and clients that guess.
type flood struct {
	load.Visitor
	cookie string       // of the users
	names  atomic.Int64 // that were guessed
}

// floodRound is the result of a round.
type floodRound struct {
	p50, p99, slowest time.Duration
	signIns           int
	guesses, busy     int64
}

func (r floodRound) row(all []floodRound, lasting time.Duration) []string {
	each := ""
	for _, one := range all {
		each += short(one.p99) + " "
	}
	rate := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/lasting.Seconds()) }
	return []string{short(r.p50), short(r.p99), each, rate(r.guesses), rate(r.busy),
		fmt.Sprintf("%d of %[1]d, %s", r.signIns, short(r.slowest))}
}

// round lets users work, and others sign in again and again, or guess. If one signs in, it rests between.
func (f *flood) round(ctx context.Context, signIns, guessers int, lasting time.Duration) (floodRound, error) {
	end := time.Now().Add(lasting)
	group, ctx := errgroup.WithContext(ctx)
	var r floodRound
	var mu sync.Mutex
	var times []time.Duration
	for range floodUsers {
		group.Go(func() error {
			return until(ctx, end, floodPause, func() error {
				visit := load.Visit{Path: "/session/resource", From: "192.0.2.2", Cookie: f.cookie}
				took, err := f.Want(ctx, http.StatusOK, visit)
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took)
				return err
			})
		})
	}
	for i := range signIns {
		visit, pause := load.SignIn("/login", fmt.Sprint("user", i), lab.Password), time.Duration(0)
		if signIns == 1 {
			visit, pause = load.SignIn("/login", "alice", lab.Password), time.Second
		}
		visit.From = "192.0.2.1"
		group.Go(func() error {
			return until(ctx, end, pause, func() error {
				took, err := f.Want(ctx, http.StatusOK, visit)
				mu.Lock()
				defer mu.Unlock()
				r.signIns, r.slowest = r.signIns+1, max(r.slowest, took)
				return err
			})
		})
	}
	var guesses, busy atomic.Int64
	for i := range guessers {
		from := fmt.Sprintf("198.51.%d.%d", 100+i/200, 1+i%200)
		group.Go(func() error {
			return until(ctx, end, 0, func() error { return f.guess(ctx, from, &guesses, &busy) })
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	r.p50, r.p99 = load.Percentiles(times)
	r.guesses, r.busy = guesses.Load(), busy.Load()
	return r, nil
}

// guess tries a password from an address, and counts whether it was looked at or refused as busy.
func (f *flood) guess(ctx context.Context, from string, guesses, busy *atomic.Int64) error {
	visit := load.SignIn("/login", fmt.Sprint("name-", f.names.Add(1)), "guess")
	visit.From = from
	_, status, err := f.Ask(ctx, visit)
	if err != nil {
		return err
	}
	switch status {
	case http.StatusUnauthorized:
		guesses.Add(1)
	case http.StatusServiceUnavailable:
		busy.Add(1)
	case http.StatusTooManyRequests: // its address has guessed too often
	default:
		return fmt.Errorf("the answer to a guess is %d, want 401, 429 or 503", status)
	}
	return nil
}

// until calls f with pauses until the end.
func until(ctx context.Context, end time.Time, pause time.Duration, f func() error) error {
	for time.Now().Before(end) {
		if err := f(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}
