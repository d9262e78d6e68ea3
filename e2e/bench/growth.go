package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/bench/lab"
	"authgate/e2e/bench/load"
	"authgate/e2e/bench/process"
	"authgate/e2e/bench/role"
)

// growing is something of which a gateway can have more or less.
type growing struct {
	name  string
	sizes []int
	// section returns its part of the YAML for n.
	section func(n int) growthSections
	// use makes n of it while the gateway runs, and returns their end. It is nil for a part of the
	// configuration.
	use func(ctx context.Context, b *bench, gateway *lab.Server, n int) (end func(), err error)
}

// growthSections are entries of the sections of a configuration, and the host that is asked.
type growthSections struct{ Users, Policies, Routes, Host, Path string }

// growths are the subjects of the measurement. The request is for the last of many.
var growths = []growing{
	{name: "routes of a host", sizes: []int{10, 1_000, 10_000}, section: func(n int) growthSections {
		return growthSections{
			Routes: repeat(n, "  - {match: /r%d/, upstream: resources, auth: [basic]}\n"),
			Path:   fmt.Sprintf("/r%d/", n-1),
		}
	}},
	{name: "hosts", sizes: []int{10, 1_000, 10_000}, section: func(n int) growthSections {
		return growthSections{
			Path:   "/",
			Routes: repeat(n, "  - {match: h%d.example.org/, upstream: resources, auth: [basic]}\n"),
			Host:   fmt.Sprintf("h%d.example.org", n-1),
		}
	}},
	{name: "rules of a policy", sizes: []int{1, 50}, section: func(n int) growthSections {
		return growthSections{Policies: "  many:\n    any:\n" + repeat(n-1, "      - {networks: [10.0.0.%d]}\n") +
			"      - {users: ['basic:service']}\n",
			Routes: "  - {match: /r0/, upstream: resources, auth: [basic], policy: many}\n", Path: "/r0/"}
	}},
	{name: "accounts", sizes: []int{10, 1_000, 10_000}, section: users},
	{name: "live logins", sizes: []int{10, 1_000, 10_000}, use: signInMany,
		section: func(n int) growthSections { return users(1 + n/loginsOfUser) }},
	{name: "open WebSockets", sizes: []int{10, 1_000, 5_000}, use: openSockets,
		section: func(int) growthSections { return growthSections{} }},
}

// cheapPassword is that of the users, and cheapHash its hash with the least cost that is allowed.
const (
	cheapPassword = "wonderland"
	cheapHash     = "$2a$04$XZlLtRtj4Ano71PcG2hyZediusBgoYoeBhgjjyL/erflaPst/dRPi"
)

func users(n int) growthSections {
	return growthSections{Users: repeat(n, "    - {username: user%d, password_hash: '"+cheapHash+"', roles: [user]}\n")}
}

// repeat returns a line for each number below n.
func repeat(n int, line string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, line, i)
	}
	return text.String()
}

var growthConfiguration = lab.Configuration("", `data_dir: data
log: {level: error}
limits: {streams_per_login: 5000}
endpoints: {prefix: /.authgate/}
basic:
  users: [{username: service, password_hash: '{{.Hash}}'}]
accounts:
  users:
    - {username: alice, password_hash: '{{.Hash}}', roles: [user]}
{{.Users}}upstreams:
  resources: {url: "http://{{.Upstream}}"}
policies:
  user: {roles: [user]}
{{.Policies}}routes:
  - {match: /basic/, upstream: resources, auth: [basic]}
  - {match: /session/, upstream: resources, auth: [session]}
{{.Routes}}`)

// measureGrowth returns how the cost of a request, memory, start, reload and scrape grow.
func (b *bench) measureGrowth(ctx context.Context, stderr io.Writer) (string, error) {
	table := [][]string{{"How many", "CPU of a request", "Memory", "Start", "Reload", "Scrape"}}
	for _, g := range growths {
		for _, n := range g.sizes {
			row, err := b.grown(ctx, g, n)
			if err != nil {
				return "", fmt.Errorf("%d %s: %w", n, g.name, err)
			}
			fmt.Fprintln(stderr, " ", row)
			table = append(table, row)
		}
	}
	return markdown(table), nil
}

// grown returns the row of a gateway with n of something.
func (b *bench) grown(ctx context.Context, g growing, n int) ([]string, error) {
	sections := g.section(n)
	gateway, err := b.lab.Configured(ctx, growthConfiguration, map[string]string{
		"Users": sections.Users, "Policies": sections.Policies, "Routes": sections.Routes,
	}, 0)
	if err != nil {
		return nil, err
	}
	defer gateway.Stop()
	if g.use != nil {
		end, err := g.use(ctx, b, gateway, n)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	url := gateway.Base() + cmp.Or(sections.Path, "/basic/") + small
	to := load.Target{URL: url, Headers: []string{lab.BasicHeader()}}
	if sections.Host != "" {
		to.Headers = append(to.Headers, "Host: "+sections.Host)
	}
	request, err := b.requestTime(ctx, gateway, to)
	if err != nil {
		return nil, err
	}
	held, err := gateway.Process.Memory(process.PresentMemory)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	status, metrics, err := b.lab.Client.Get(ctx, "http://"+gateway.Admin+"/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("the scrape: the answer is %d, want 200 (%w)", status, err)
	}
	scrape := time.Since(began)
	reload, err := b.reloadTime(ctx, gateway)
	if err != nil {
		return nil, err
	}
	return []string{fmt.Sprint(n, " ", g.name), short(request), mebibytes(held), short(gateway.Started), short(reload),
		fmt.Sprintf("%s, %d kB", short(scrape), len(metrics)/1000)}, nil
}

// requestTime returns the processor time of a request.
func (b *bench) requestTime(ctx context.Context, gateway *lab.Server, to load.Target) (time.Duration, error) {
	by := b.loads.Get(b.connections)
	if _, err := by.Run(ctx, to, b.warm); err != nil {
		return 0, fmt.Errorf("warming up: %w", err)
	}
	before, err := gateway.Process.CPU()
	if err != nil {
		return 0, err
	}
	seen, err := by.Run(ctx, to, b.measured)
	if err != nil {
		return 0, err
	}
	after, err := gateway.Process.CPU()
	return (after - before) / time.Duration(seen.Requests), err
}

// reloadTime returns how long the command takes after a change of the configuration.
func (b *bench) reloadTime(ctx context.Context, gateway *lab.Server) (time.Duration, error) {
	text, err := os.ReadFile(gateway.Config)
	if err != nil {
		return 0, err
	}
	changed := bytes.Replace(text, []byte("policies:\n"), []byte("policies:\n  new: {roles: [user]}\n"), 1)
	if err := os.WriteFile(gateway.Config, changed, 0o600); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = b.lab.Tool(ctx, "", "reload", "--config", gateway.Config)
	return time.Since(began), err
}

// loginsOfUser is how many live logins an account gets; an account may have 256.
const loginsOfUser = 100

// signInMany signs users in, each many times.
func signInMany(ctx context.Context, b *bench, gateway *lab.Server, n int) (func(), error) {
	v := b.loads.Visitor(gateway.Base(), "HTTP/1.1")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.connections)
	for i := range n {
		group.Go(func() error {
			user := fmt.Sprint("user", i/loginsOfUser)
			_, err := v.Want(ctx, http.StatusOK, load.SignIn("/.authgate/login", user, cheapPassword))
			return err
		})
	}
	return func() {}, group.Wait()
}

// openSockets opens WebSockets, and asks once on each.
func openSockets(ctx context.Context, b *bench, gateway *lab.Server, n int) (func(), error) {
	to := load.Target{URL: gateway.Base() + "/basic/" + role.SocketResource,
		Headers: append(sameOrigin(), lab.BasicHeader())}
	all, err := b.loads.Hold(ctx, to, n, b.connections)
	return all.Close, err
}
