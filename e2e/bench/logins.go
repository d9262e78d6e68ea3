package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
)

const (
	// manyLogins is how many logins some accounts have, and mostLogins how many they can have.
	manyLogins, mostLogins = 192, 256
	// busyAccounts is how many accounts have so many, and otherAccounts how many have few.
	busyAccounts, otherAccounts = 16, 500
)

// cheapestHash is of cheapPassword, and costs next to nothing, so that logins cost what they write.
const cheapestHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$edwR30reVHbeNtmhKNQuprrOgSf+2WXmNH0ZnhUV7dc"

var loginsConfiguration = lab.Configuration("", `data_dir: data
log: {level: error}
store: {driver: {{.Driver}}}
accounts:
  users:
{{.Users}}upstreams:
  resources: {url: "http://{{.Upstream}}"}
routes:
  - {match: /, upstream: resources, auth: [session]}
`)

// loginCost is what one of many costs.
type loginCost struct {
	cpu  time.Duration
	rate float64 // how many in a second
}

// loginCosts are the costs on one store.
type loginCosts struct{ login, many, full, logout loginCost }

// measureLogins returns the costs of logins and logouts on each embedded store.
func (b *bench) measureLogins(ctx context.Context, stderr io.Writer) (string, error) {
	drivers := []string{"memory", "sqlite"}
	rounds := map[string][]loginCosts{}
	for range b.rounds {
		for _, driver := range drivers {
			one, err := b.loginRound(ctx, driver)
			if err != nil {
				return "", fmt.Errorf("on %s: %w", driver, err)
			}
			fmt.Fprintf(stderr, "  %s: login %s, one of many %s, beyond %s, logout %s, %.0f/s\n", driver,
				short(one.login.cpu), short(one.many.cpu), short(one.full.cpu), short(one.logout.cpu), one.logout.rate)
			rounds[driver] = append(rounds[driver], one)
		}
	}
	table := [][]string{{"Store", "Login", "of an account with 192 to 256", "beyond, which ends the oldest", "Logout",
		"Logouts/s", "Each round"}}
	for _, driver := range drivers {
		all := rounds[driver]
		each := ""
		for _, one := range all {
			each += short(one.logout.cpu) + " "
		}
		slices.SortFunc(all, func(a, b loginCosts) int { return int(a.logout.cpu - b.logout.cpu) })
		middle := all[len(all)/2]
		beside := func(c loginCost) string {
			return fmt.Sprintf("%s, %.2f", short(c.cpu), float64(c.cpu)/float64(middle.login.cpu))
		}
		table = append(table, []string{driver, short(middle.login.cpu), beside(middle.many), beside(middle.full),
			short(middle.logout.cpu), fmt.Sprintf("%.0f", middle.logout.rate), each})
	}
	return markdown(table), nil
}

// loginRound measures a fresh gateway.
func (b *bench) loginRound(ctx context.Context, driver string) (loginCosts, error) {
	var costs loginCosts
	gateway, err := b.lab.Configured(ctx, loginsConfiguration, map[string]string{"Driver": driver, "Users": repeat(
		busyAccounts+otherAccounts, "    - {username: user%d, password_hash: '"+cheapestHash+"', roles: [user]}\n")}, 0)
	if err != nil {
		return costs, err
	}
	defer gateway.Stop()
	l := &logins{Visitor: b.loads.Visitor(gateway.Base(), "HTTP/1.1"), lab: b.lab, gateway: gateway, atOnce: b.connections}
	of := func(first, users int) func(context.Context, int) error {
		return func(ctx context.Context, i int) error { return l.signIn(ctx, first+i%users, i) }
	}
	busy, other := of(0, busyAccounts), of(busyAccounts, otherAccounts)
	for _, step := range []struct {
		cost *loginCost
		n    int
		do   func(ctx context.Context, i int) error
	}{
		{&loginCost{}, otherAccounts, other},
		{&loginCost{}, busyAccounts * manyLogins, busy},
		{&costs.many, busyAccounts * (mostLogins - manyLogins), busy},
		{&costs.full, 2 * otherAccounts, busy},
		{&costs.login, 4 * otherAccounts, other},
		{&costs.logout, 4 * otherAccounts, l.signOut},
	} {
		if *step.cost, err = l.measure(ctx, step.n, step.do); err != nil {
			return costs, err
		}
	}
	return costs, nil
}

// logins are those at a gateway.
type logins struct {
	load.Visitor
	lab     *lab.Lab
	gateway *lab.Server
	atOnce  int
	cookies [4 * otherAccounts]string // of the last logins
}

// signIn signs a user in, and keeps the cookie.
func (l *logins) signIn(ctx context.Context, user, i int) error {
	visit := load.SignIn("/login", fmt.Sprint("user", user), cheapPassword)
	_, got, err := l.Answer(ctx, visit)
	if err != nil || got.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer to a sign-in is %v, want 200 (%w)", got, err)
	}
	for _, cookie := range got.Cookies() {
		if cookie.Name == "session_id" {
			l.cookies[i%len(l.cookies)] = cookie.Name + "=" + cookie.Value
		}
	}
	return nil
}

// signOut signs out a login.
func (l *logins) signOut(ctx context.Context, i int) error {
	_, err := l.Want(ctx, http.StatusOK, load.Visit{Method: http.MethodPost, Path: "/logout", Cookie: l.cookies[i]})
	return err
}

// measure calls do n times, several at a time, and returns what one costs the gateway.
func (l *logins) measure(ctx context.Context, n int, do func(ctx context.Context, i int) error) (loginCost, error) {
	before, err := l.lab.Read(ctx, l.gateway)
	if err != nil {
		return loginCost{}, err
	}
	began := time.Now()
	var next atomic.Int64
	group, of := errgroup.WithContext(ctx)
	for range l.atOnce {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(of, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return loginCost{}, err
	}
	took := time.Since(began)
	after, err := l.lab.Read(ctx, l.gateway)
	return loginCost{(after.CPU - before.CPU) / time.Duration(n), float64(n) / took.Seconds()}, err
}
