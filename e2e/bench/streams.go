package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/role"
)

const (
	// streamLogins is how many logins have streams of events at rest, and loginStreams how many each has.
	streamLogins, loginStreams = 13, 500
	// streamUsers is how many other users work beside them, and streamPause the time between two requests of one.
	streamUsers, streamPause = 8, 5 * time.Millisecond
	// streamWindow is how long they are watched from a logout on.
	streamWindow = time.Second
	// streamsSettle is how long the streams rest before anything is measured.
	streamsSettle = 20 * time.Second
)

var streamsConfiguration = lab.Configuration("", `data_dir: data
log: {level: error}
accounts:
  users: [{username: alice, password_hash: '`+cheapestHash+`', roles: [user]}]
upstreams:
  resources: {url: "http://{{.Upstream}}"}
routes:
  - {match: /, upstream: resources, auth: [session]}
`)

// atRest is a gateway with streams at rest.
type atRest struct {
	load.Visitor
	gateway *lab.Server
	cookies []string // of the logins, and of the other users
	open    []load.Held
}

// measureStreams returns what streams at rest cost, and what others see when a login with many of them ends.
func (b *bench) measureStreams(ctx context.Context, stderr io.Writer) (string, error) {
	gateway, err := b.lab.Configured(ctx, streamsConfiguration, nil, 0)
	if err != nil {
		return "", err
	}
	defer gateway.Stop()
	s := &atRest{Visitor: b.loads.Visitor(gateway.Base(), "HTTP/1.1"), gateway: gateway}
	defer func() {
		for _, all := range s.open {
			all.Close()
		}
	}()
	for range streamLogins + 1 {
		login, err := b.lab.Client.SignIn(ctx, gateway.Base()+"/login", "alice", cheapPassword)
		if err != nil {
			return "", err
		}
		s.cookies = append(s.cookies, login.Cookie)
	}
	without, err := s.load(ctx, b.measured)
	if err != nil {
		return "", err
	}
	for _, cookie := range s.cookies[:streamLogins] {
		to := load.Target{URL: gateway.Base() + "/" + role.QuietResource, Headers: []string{"Cookie: " + cookie}}
		all, err := b.loads.Hold(ctx, to, loginStreams, b.connections)
		s.open = append(s.open, all)
		if err != nil {
			return "", err
		}
	}
	with, err := s.load(ctx, b.measured)
	if err != nil {
		return "", err
	}
	cores := [][]string{{"Streams", "Of a core"}, {"0", fmt.Sprintf("%.2f %%", 100*without)},
		{fmt.Sprint(streamLogins * loginStreams), fmt.Sprintf("%.2f %%", 100*with)}}
	ends := [][]string{{"Logout of a login with", "Its streams have ended after", "p99 of others before", "and meanwhile"}}
	for i := range min(b.rounds, streamLogins) {
		row, err := s.end(ctx, i)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(stderr, " ", row)
		ends = append(ends, row)
	}
	return markdown(cores) + markdown(ends), nil
}

// load returns the part of a core that the gateway needs for a time.
func (s *atRest) load(ctx context.Context, lasting time.Duration) (float64, error) {
	time.Sleep(streamsSettle)
	before, err := s.gateway.Process.CPU()
	if err != nil {
		return 0, err
	}
	time.Sleep(lasting)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	after, err := s.gateway.Process.CPU()
	return float64(after-before) / float64(lasting), err
}

// end signs out a login while others work, and returns its row.
func (s *atRest) end(ctx context.Context, login int) ([]string, error) {
	if _, _, err := s.watch(ctx, streamWindow); err != nil { // it opens the connections
		return nil, err
	}
	_, before, err := s.watch(ctx, streamWindow)
	if err != nil {
		return nil, err
	}
	var took, meanwhile time.Duration
	group, of := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		_, meanwhile, err = s.watch(of, streamWindow)
		return err
	})
	group.Go(func() error {
		began := time.Now()
		logout := load.Visit{Method: http.MethodPost, Path: "/logout", Cookie: s.cookies[login]}
		if _, err := s.Want(of, http.StatusOK, logout); err != nil {
			return err
		}
		err := s.open[login].Ended()
		took = time.Since(began)
		return err
	})
	err = group.Wait()
	return []string{fmt.Sprint(loginStreams), short(took), short(before), short(meanwhile)}, err
}

// watch lets other users work for a time, and returns the latencies of their requests.
func (s *atRest) watch(ctx context.Context, lasting time.Duration) (p50, p99 time.Duration, err error) {
	var mu sync.Mutex
	var times []time.Duration
	end := time.Now().Add(lasting)
	group, ctx := errgroup.WithContext(ctx)
	for range streamUsers {
		group.Go(func() error {
			return until(ctx, end, streamPause, func() error {
				took, err := s.Want(ctx, http.StatusOK, load.Visit{Path: "/" + small, Cookie: s.cookies[streamLogins]})
				mu.Lock()
				defer mu.Unlock()
				times = append(times, took)
				return err
			})
		})
	}
	err = group.Wait()
	p50, p99 = load.Percentiles(times)
	return p50, p99, err
}
