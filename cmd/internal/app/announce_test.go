package app

import (
	"fmt"
	"strings"
	"testing"

	"authgate/internal/test/logtest"
)

const announced = `
authgate 1.2.3 runs at https://gw.example

  https          127.0.0.1:8443
  admin          127.0.0.1:9090  /metrics /healthz /readyz
  hosts          gw.example, wiki.example
  authority      data/ca.pem  (clients must trust it)
  configuration  /etc/config.yaml  (changes apply at once)

  ROUTE      UPSTREAM                   AUTH              RULE
  /          app                        session, bearer   every user
  wiki` + "\ufffd" + `[2J   (forward authentication)   session           [admin, office]

  warning: beware

`

// On a terminal the announcement is a block, without characters that it acts on.
func TestAnnouncedBlock(t *testing.T) {
	t.Parallel()
	of := announcement{
		version: "1.2.3", configuration: "/etc/config.yaml", publicURL: "https://gw.example",
		listeners: [][2]string{{"https", "127.0.0.1:8443"}, {"admin", "127.0.0.1:9090"}},
		hosts:     []string{"gw.example", "wiki.example"}, authority: "data/ca.pem",
		routes: []announcedRoute{
			{"/", "app", "session, bearer", "every user"},
			{"wiki\x1b[2J", "(forward authentication)", "session", "[admin, office]"},
		},
		warnings: []string{"beware"},
	}
	if got := of.block(); got != announced {
		t.Errorf("got\n%s", got)
	}
	for i := range 100 {
		of.routes = append(of.routes, announcedRoute{name: fmt.Sprintf("route %d", i)})
		of.hosts = append(of.hosts, fmt.Sprintf("host%d", i))
	}
	got := of.block()
	if !strings.Contains(got, "  and 62 more\n") || !strings.Contains(got, "host37 and 62 more\n") ||
		strings.Contains(got, "route 38") {
		t.Errorf("many routes and hosts:\n%s", got)
	}
}

// Without a terminal the announcement is a line of the log.
func TestAnnouncedInLog(t *testing.T) {
	t.Parallel()
	const more = `endpoints: {prefix: /.authgate/}
policies: {admin: {roles: [admin]}, office: {networks: [10.0.0.0/8]}}
providers: []
`
	yaml := strings.Replace(usual, "routes:\n", more+"routes:\n  - {match: /admin, auth: [session], "+
		"policy: [admin, office]}\n  - {match: wiki.example/, upstream: app, auth: [none]}\n"+
		"  - {match: wiki.example/edit/, upstream: app, auth: [session, none], policy: admin}\n"+
		"  - {match: wiki.example/read/, upstream: app, auth: [session, none]}\n", 1)
	path := folder(t, t.TempDir(), map[string]string{"config.yaml": yaml, "accounts.yaml": alice})
	log := &logtest.Buffer{}
	a := open(t, path, log)
	shut(t, a)
	line := log.Last(t, "started")
	want := "map[auth:session route:/admin rule:[admin, office] upstream:(forward authentication)]" +
		" map[auth:none route:wiki.example/ rule:public upstream:app]" +
		" map[auth:session, none route:wiki.example/edit/ rule:admin upstream:app]" +
		" map[auth:session, none route:wiki.example/read/ rule:everyone upstream:app]" +
		" map[auth:session route:/ rule:every user upstream:app]"
	if got := fmt.Sprint(line["routes"]); got != "["+want+"]" || line["number_of_routes"] != 5.0 ||
		line["version"] != "test" || line["configuration"] != path {
		t.Errorf("logged %v", line)
	}
	if got := fmt.Sprint(line["hosts"]); !strings.HasPrefix(got, "[localhost wiki.example") {
		t.Errorf("the hosts %s", got)
	}
	listeners, _ := line["listeners"].(map[string]any)
	if len(listeners) != 2 || listeners["https"] != a.Server().Address("https") {
		t.Errorf("the listeners %v", listeners)
	}
	if of := a.announcement(); len(of.warnings) != 3 ||
		!strings.Contains(of.warnings[0], `no account has the role "admin"`) {
		t.Errorf("the warnings %q", of.warnings)
	}
}
