package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// floodGuessers is how many clients guess passwords, each as fast as it gets answers.
	floodGuessers = 300
	// floodUsers is how many signed-in users work beside them.
	floodUsers = 50
	// floodPause is the time between two requests of a user.
	floodPause = 100 * time.Millisecond
	// mostFlood is the p99 of the users as a multiple of that without guesses.
	mostFlood = 3
)

// The load is on the same machine, so it tells the gateway from which addresses it comes.
var floodConfiguration = template.Must(template.New("").Parse(`public_url: https://{{.Address}}
listen: {https: "{{.Address}}", http: "", admin: "{{.Admin}}", trusted_proxies: [127.0.0.1]}
tls: {mode: files, certificate: "{{.Certificate}}", key: "{{.Key}}"}
data_dir: data
log: {level: error}
accounts:
  users: [{username: alice, password_hash: "{{.Hash}}", roles: [user]}]
upstreams:
  resources: {url: "http://{{.Upstream}}"}
policies:
  user: {roles: [user]}
routes:
  - {match: /session/, upstream: resources, auth: [session], policy: user}
`))

// flood prints what signed-in users see while others guess passwords. The gateway has two processors.
func (l *lab) flooded(ctx context.Context, stdout, stderr io.Writer) error {
	l.serverCores = "0,1"
	gateway, err := l.startConfigured(ctx, floodConfiguration, map[string]string{
		"Certificate": l.certificate, "Key": l.key, "Upstream": l.upstreams[0],
	}, 0)
	if err != nil {
		return err
	}
	defer gateway.stop()
	base := "https://" + gateway.address
	login, err := l.signIn(ctx, base+"/login", "X-Forwarded-For: 192.0.2.1") // from now on this address is known
	if err != nil {
		return err
	}
	f := &flood{visitor: visitor{base, l.transport("HTTP/1.1")}, cookie: login.cookie}
	table := [][]string{{"Clients that guess", "p50", "p99", "Each round", "Guesses/s", "Refused as busy/s",
		"Sign-ins of a known client, slowest"}}
	var p99s [2]time.Duration
	for i, guessers := range []int{0, floodGuessers} {
		if _, err := f.round(ctx, guessers, l.warm); err != nil { // it opens the connections
			return fmt.Errorf("warming up with %d guessing: %w", guessers, err)
		}
		var rounds []floodRound
		for range l.rounds {
			r, err := f.round(ctx, guessers, l.measured)
			if err != nil {
				return fmt.Errorf("with %d guessing: %w", guessers, err)
			}
			fmt.Fprintf(stderr, "  %d guess: p99 %s\n", guessers, r.p99)
			rounds = append(rounds, r)
		}
		slices.SortFunc(rounds, func(a, b floodRound) int { return int(a.p99 - b.p99) })
		middle := rounds[len(rounds)/2]
		p99s[i] = middle.p99
		table = append(table, middle.row(guessers, rounds, l.measured))
	}
	if _, err := io.WriteString(stdout, markdown(table)); err != nil {
		return err
	}
	if ratio := float64(p99s[1]) / float64(p99s[0]); ratio > mostFlood {
		return fmt.Errorf("the p99 of users is %.1f times that without guesses, at most %d are allowed", ratio, mostFlood)
	}
	return nil
}

// flood is users and clients that guess.
type flood struct {
	visitor
	cookie string       // of the users
	names  atomic.Int64 // that were guessed
}

// floodRound is what a round saw.
type floodRound struct {
	p50, p99, slowest time.Duration
	signIns           int
	guesses, busy     int64
}

func (r floodRound) row(guessers int, all []floodRound, lasting time.Duration) []string {
	each := ""
	for _, one := range all {
		each += short(one.p99) + " "
	}
	rate := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/lasting.Seconds()) }
	return []string{fmt.Sprint(guessers), short(r.p50), short(r.p99), each, rate(r.guesses), rate(r.busy),
		fmt.Sprintf("%d of %[1]d, %s", r.signIns, short(r.slowest))}
}

// round lets users work, one sign in again and again, and others guess.
func (f *flood) round(ctx context.Context, guessers int, lasting time.Duration) (floodRound, error) {
	end := time.Now().Add(lasting)
	group, ctx := errgroup.WithContext(ctx)
	var r floodRound
	var mu sync.Mutex
	var times []time.Duration
	for range floodUsers {
		group.Go(func() error {
			return until(ctx, end, floodPause, func() error {
				took, status, err := f.ask(ctx, visit{path: "/session/resource", from: "192.0.2.2", cookie: f.cookie})
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took)
				return expect(http.StatusOK, status, err)
			})
		})
	}
	group.Go(func() error {
		return until(ctx, end, time.Second, func() error {
			took, status, err := f.ask(ctx, visit{path: "/login", from: "192.0.2.1", body: passwordJSON("alice", password)})
			r.signIns, r.slowest = r.signIns+1, max(r.slowest, took)
			return expect(http.StatusOK, status, err)
		})
	})
	var guesses, busy atomic.Int64
	for i := range guessers {
		from := fmt.Sprintf("198.51.%d.%d", 100+i/200, 1+i%200)
		group.Go(func() error {
			return until(ctx, end, 0, func() error {
				name := fmt.Sprint("name-", f.names.Add(1))
				_, status, err := f.ask(ctx, visit{path: "/login", from: from, body: passwordJSON(name, "guess")})
				switch {
				case err == nil && status == http.StatusUnauthorized:
					guesses.Add(1)
				case err == nil && status == http.StatusServiceUnavailable:
					busy.Add(1)
				case err == nil && status == http.StatusTooManyRequests: // its address has guessed too often
				default:
					return expect(http.StatusUnauthorized, status, err)
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	slices.Sort(times)
	r.p50, r.p99 = times[len(times)*50/100], times[len(times)*99/100]
	r.guesses, r.busy = guesses.Load(), busy.Load()
	return r, nil
}
