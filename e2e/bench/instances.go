package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/process"
)

const (
	// sharedSessions is how many sessions are read cold, and then ended.
	sharedSessions = 2000
	// logoutsPerSecond is how fast they are ended.
	logoutsPerSecond = 1000
	// sharedAnswers is how long a gateway may be unable to tell whether a session lives.
	sharedAnswers = 5 * time.Second
)

var sharedConfiguration = lab.Configuration("", `data_dir: data
log: {level: error}
token: {secret: "the key that signs tokens in the benchmark"}
store: {driver: redis, addresses: ["{{.Redis}}"]}
accounts:
  users:
{{.Users}}upstreams:
  resources: {url: "http://{{.Upstream}}"}
routes:
  - {match: /session/, upstream: resources, auth: [session]}
`)

// shared is several gateways on one Redis.
type shared struct {
	redis    *process.Process
	gateways []*lab.Server
	cookies  []string // of live sessions
	visitors []load.Visitor
}

// measureInstances returns the cost of requests and logouts with 1, 2 and 4 gateways on one Redis.
func (b *bench) measureInstances(ctx context.Context, stderr io.Writer) (string, error) {
	table := [][]string{{"Gateways", "Warm request: gateways", "Redis", "Cold request: gateways", "Redis",
		"Logout: gateways", "Redis", fmt.Sprintf("%d logouts/s: cores of the gateways, of Redis", logoutsPerSecond)}}
	for _, n := range []int{1, 2, 4} {
		row, err := b.instancesRow(ctx, n)
		if err != nil {
			return "", fmt.Errorf("%d gateways: %w", n, err)
		}
		fmt.Fprintln(stderr, " ", row)
		table = append(table, row)
	}
	return markdown(table), nil
}

func (b *bench) instancesRow(ctx context.Context, n int) ([]string, error) {
	s, err := b.startShared(ctx, n)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	row := []string{fmt.Sprint(n)}
	// Every gateway reads every session for the first time, and then again.
	cold, err := s.costs(func() (int, error) { return n * sharedSessions, s.readAll(ctx, b.connections) })
	if err != nil {
		return nil, err
	}
	warm, err := s.costs(func() (int, error) { return n * sharedSessions, s.readAll(ctx, b.connections) })
	if err != nil {
		return nil, err
	}
	logout, err := s.costs(func() (int, error) { return sharedSessions, s.endAll(ctx) })
	if err != nil {
		return nil, err
	}
	for _, c := range []cost{warm, cold, logout} {
		row = append(row, short(c.gateways), short(c.redis))
	}
	cores := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*logoutsPerSecond) }
	return append(row, cores(logout.gateways)+", "+cores(logout.redis)), s.refuseAll(ctx)
}

// startShared starts Redis and gateways on it, and signs users in at the first.
func (b *bench) startShared(ctx context.Context, n int) (*shared, error) {
	redis, address, err := b.lab.Redis(ctx)
	if err != nil {
		return nil, err
	}
	s := &shared{redis: redis}
	for range n {
		gateway, err := b.lab.Configured(ctx, sharedConfiguration, map[string]string{
			"Redis": address, "Users": users(1 + sharedSessions/loginsOfUser).Users,
		}, 0)
		if err != nil {
			s.stop()
			return nil, err
		}
		s.gateways = append(s.gateways, gateway)
		s.visitors = append(s.visitors, b.loads.Visitor(gateway.Base(), "HTTP/1.1"))
	}
	s.cookies = make([]string, sharedSessions)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.connections)
	for i := range s.cookies {
		group.Go(func() error {
			user := fmt.Sprint("user", i/loginsOfUser)
			login, err := b.lab.Client.SignIn(ctx, s.visitors[0].URL+"/login", user, cheapPassword)
			s.cookies[i] = login.Cookie
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *shared) stop() {
	for _, gateway := range s.gateways {
		gateway.Stop()
	}
	s.redis.Stop()
}

// cost is the processor time of one of many.
type cost struct{ gateways, redis time.Duration }

// costs returns the cost of one action of f, which returns how many it did.
func (s *shared) costs(f func() (int, error)) (cost, error) {
	before, err := s.used()
	if err != nil {
		return cost{}, err
	}
	n, err := f()
	if err != nil {
		return cost{}, err
	}
	after, err := s.used()
	each := func(d time.Duration) time.Duration { return d / time.Duration(n) }
	return cost{each(after.gateways - before.gateways), each(after.redis - before.redis)}, err
}

// used returns the processor time so far.
func (s *shared) used() (cost, error) {
	redis, err := s.redis.CPU()
	if err != nil {
		return cost{}, err
	}
	sum := cost{redis: redis}
	for _, gateway := range s.gateways {
		used, err := gateway.Process.CPU()
		if err != nil {
			return cost{}, err
		}
		sum.gateways += used
	}
	return sum, nil
}

// readAll asks every gateway with every session.
func (s *shared) readAll(ctx context.Context, atOnce int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, cookie := range s.cookies {
		for _, v := range s.visitors {
			group.Go(func() error {
				_, err := v.Want(ctx, http.StatusOK, load.Visit{Path: "/session/resource", Cookie: cookie})
				return err
			})
		}
	}
	return group.Wait()
}

// endAll signs all sessions out at the gateways in turn, so many a second.
func (s *shared) endAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	pace := time.NewTicker(time.Second / logoutsPerSecond)
	defer pace.Stop()
	for i, cookie := range s.cookies {
		<-pace.C
		group.Go(func() error {
			v := s.visitors[i%len(s.visitors)]
			_, err := v.Want(ctx, http.StatusOK, load.Visit{Method: http.MethodPost, Path: "/logout", Cookie: cookie})
			return err
		})
	}
	return group.Wait()
}

// refuseAll checks that no gateway accepts a session any more. One that cannot tell yet (503) is asked again.
func (s *shared) refuseAll(ctx context.Context) error {
	for _, cookie := range s.cookies {
		for _, v := range s.visitors {
			status, err := http.StatusServiceUnavailable, error(nil)
			end := time.Now().Add(sharedAnswers)
			for err == nil && status == http.StatusServiceUnavailable && time.Now().Before(end) {
				_, status, err = v.Ask(ctx, load.Visit{Path: "/session/resource", Cookie: cookie})
			}
			if err != nil || status != http.StatusUnauthorized {
				return fmt.Errorf("after the logout: the answer is %d, want 401 (%w)", status, err)
			}
		}
	}
	return nil
}
