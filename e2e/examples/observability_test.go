package examples

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
	"authgate/gateway/audit"

	"github.com/goccy/go-yaml"
)

// observabilityPage explains metrics, the log and audit events.
const observabilityPage = "docs/observability/README.md"

// tableOf returns the cells of the rows of the table below a heading.
func tableOf(t *testing.T, doc *world.Document, heading string) [][]string {
	t.Helper()
	_, part, ok := strings.Cut(doc.Prose, "\n## "+heading+"\n")
	part, _, _ = strings.Cut(part, "\n## ")
	var rows [][]string
	for line := range strings.Lines(part) {
		if strings.HasPrefix(line, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	if !ok || len(rows) == 0 {
		t.Fatalf("%s has no table below %s", doc.Name, heading)
	}
	return rows
}

// TestDocsMetrics checks that the page has every metric of the gateway with its
// labels, and no other.
func TestDocsMetrics(t *testing.T) {
	t.Parallel()
	registered, documented := metricsOf(t), map[string]bool{}
	for _, row := range tableOf(t, world.ReadDocument(t, observabilityPage), "Metrics") {
		span := strings.Trim(row[0], "`")
		name, list, _ := strings.Cut(strings.TrimSuffix(span, "}"), "{")
		labels := strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
		if want, exists := registered[name]; !exists || !slices.Equal(labels, want) {
			t.Errorf("the page has the metric %s; exists: %t, with the labels %q", span, exists, want)
		}
		if len(row) != 4 || row[1] == "" || row[2] == "" || documented[name] {
			t.Errorf("the row of %s is not complete, or not the only one: %q", span, row)
		}
		documented[name] = true
	}
	for name, labels := range registered {
		if !documented[name] {
			t.Errorf("the page does not have the metric %s with the labels %q", name, labels)
		}
	}
}

// ownCookie matches the constant with the name of a cookie.
var ownCookie = regexp.MustCompile(`const Cookie\w+ = "authgate_\w+"`)

// metricsOf finds the gateway's own metrics in its source, with their labels. The
// labels are the quoted words that follow the name.
func metricsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, code := range gatewayCode(t) {
		if strings.Contains(code, "\n\t\"testing\"\n") { // of a package for tests
			continue
		}
		for _, part := range strings.Split(ownCookie.ReplaceAllString(code, ""), `"authgate_`)[1:] {
			name, rest, _ := strings.Cut(part, `"`)
			rest, _, _ = strings.Cut(rest, "\n}\n") // the end of the function
			if strings.HasSuffix(name, "_") {
				continue // the mark of cookies
			}
			all["authgate_"+name] = nil
			for _, label := range regexp.MustCompile(`"([a-z]+)"`).FindAllStringSubmatch(rest, -1) {
				all["authgate_"+name] = append(all["authgate_"+name], label[1])
			}
		}
	}
	all["authgate_build_info"] = []string{"version", "goversion"} // constant labels, which come before the name
	return all
}

// gatewayCode returns the code of each package of the gateway, by its folder.
func gatewayCode(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range goFiles(t, world.Path("gateway")) {
		all[filepath.Dir(path)] += world.ReadFile(t, path) + "\n"
	}
	return all
}

// auditCall matches where the source names an audit event.
var auditCall = regexp.MustCompile(
	`(?:\bAudit(?:Refused)?\(|\bEvents\.Record\(|\bend\(ex, |slog\.String\("event", |` +
		`^\t(?:continued|cut|lost) += )"([a-z_]+)"`)

// fieldsOf returns the fields of the event of a row: its own, and those that the page names above the table.
func fieldsOf(page *world.Document, row []string) map[string]bool {
	_, common, _ := strings.Cut(page.Prose, "\n## Audit events\n")
	common, _, _ = strings.Cut(common, "\n|")
	return spans(common + row[2])
}

// TestDocsAuditEvents checks that the page has every audit event, with the fields
// that the source names beside it, and no other event, and that webhooks can name them all.
func TestDocsAuditEvents(t *testing.T) {
	t.Parallel()
	fields := map[string]map[string]bool{} // by event
	for _, code := range gatewayCode(t) {
		for line := range strings.Lines(code) {
			for _, found := range auditCall.FindAllStringSubmatch(line, -1) {
				if fields[found[1]] == nil {
					fields[found[1]] = map[string]bool{}
				}
				for _, field := range regexp.MustCompile(`slog\.String\("([a-z_]+)"`).FindAllStringSubmatch(line, -1) {
					fields[found[1]][field[1]] = true
				}
			}
		}
	}
	if names := slices.Sorted(maps.Keys(fields)); !slices.Equal(names, audit.Events()) {
		t.Errorf("the code records the events %q, and webhooks can name %q", names, audit.Events())
	}
	documented := map[string]bool{}
	page := world.ReadDocument(t, observabilityPage)
	for _, row := range tableOf(t, page, "Audit events") {
		event, named := strings.Trim(row[0], "`"), fieldsOf(page, row)
		if fields[event] == nil || documented[event] || row[1] == "" {
			t.Errorf("the page has the event %s; exists: %t; the row: %q", event, fields[event] != nil, row)
		}
		documented[event] = true
		for field := range fields[event] {
			if !named[field] {
				t.Errorf("the page does not have the field %s of the event %s", field, event)
			}
		}
	}
	for event := range fields {
		if !documented[event] {
			t.Errorf("the page does not have the event %s", event)
		}
	}
}

// promtool runs promtool, which must succeed.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	command := exec.Command(world.FindProgram(t, "promtool"), args...)
	command.Stdin, command.Dir = strings.NewReader(input), world.Path("docs/observability")
	if printed, err := command.CombinedOutput(); err != nil || strings.Contains(string(printed), "metrics should") {
		t.Errorf("promtool %q: %v\n%s", args, err, printed)
	}
}

// busyGateway returns a gateway that has done something of every kind that metrics
// tell of.
func busyGateway(t *testing.T) *world.Instance {
	t.Helper()
	up := world.Record(t)
	config := world.People + "log: {audit_file: audit.jsonl}\ntracing: {endpoint: \"http://127.0.0.1:1\"}\n" + `
webhooks: [{name: ops, url: "http://127.0.0.1:1", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}]
providers:
  - {name: away, issuer: "http://127.0.0.1:1", client_id: gate}
upstreams:
  app: {urls: ["` + up.URL + `", "http://127.0.0.1:1"], health: {path: /healthz}}
policies:
  some: {roles: [user], next: {roles: [admin]}}
routes:
  - {match: /app/, name: app, upstream: app, auth: [session, bearer], policy: some}
  - {match: /away/, name: away, upstream: app, auth: [oidc]}
`
	g := world.Start(t, config)
	c := g.Stranger()
	in := g.SignIn(c, "alice")
	g.Status(c, "GET", "/app/", "Cookie", in.Session)
	g.Status(c, "GET", "/login?provider=away")
	if _, status, err := g.TryRefresh(c, in.Refresh); err != nil || status != http.StatusOK {
		t.Fatalf("refresh: %d, %v", status, err)
	}
	g.Signal(syscall.SIGHUP)
	world.Until(t, "the reload", func() bool { return strings.Contains(g.Log.String(), `"msg":"reloaded"`) })
	return g
}

// TestObservability checks that the dashboard and the alert rules ask for metrics
// and labels that a running gateway exports, and lets promtool check all of it.
func TestObservability(t *testing.T) {
	t.Parallel()
	g := busyGateway(t)
	response := world.Must(http.Get(g.Admin + "/metrics"))(t)
	defer response.Body.Close()
	text := string(world.Must(io.ReadAll(response.Body))(t))
	promtool(t, text, "check", "metrics")
	for _, row := range tableOf(t, world.ReadDocument(t, observabilityPage), "Metrics") {
		name, _, _ := strings.Cut(strings.Trim(row[0], "`"), "{")
		if !strings.Contains(text, "\n# TYPE "+name+" "+row[1]+"\n") {
			t.Errorf("the page says that %s is a %s", name, row[1])
		}
	}
	exported := labelsOf(g.Scrape(t))
	for name := range metricsOf(t) {
		if exported[name] == nil && exported[name+"_bucket"] == nil {
			t.Errorf("this gateway does not export %s, so the test cannot judge who asks for it", name)
		}
	}

	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	world.NoError(t, yaml.Unmarshal([]byte(world.ReadFile(t, world.Path("docs/observability/alerts.yml"))), &rules))
	tests := world.ReadFile(t, world.Path("docs/observability/alerts_test.yml"))
	for _, rule := range rules.Groups[0].Rules {
		checkQuery(t, exported, rule.Alert, rule.Expr)
		fires := regexp.MustCompile(`(?m)^        alertname: ` + rule.Alert + `\n        exp_alerts:\n          - exp_labels`)
		if !fires.MatchString(tests) || !strings.Contains(tests, "name: "+rule.Alert+", not\n") {
			t.Errorf("alerts_test.yml does not test that %s fires, and when not", rule.Alert)
		}
	}
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")

	queries := dashboardQueries(t)
	recorded := "groups:\n  - name: dashboard\n    rules:\n"
	for title, all := range queries {
		for _, query := range all {
			query = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$route", ".*").Replace(query)
			checkQuery(t, exported, title, query)
			recorded += fmt.Sprintf("      - {record: 'query:%d', expr: %q}\n", len(recorded), query)
		}
	}
	g.Write("dashboard.yml", recorded)
	promtool(t, "", "check", "rules", filepath.Join(g.Dir, "dashboard.yml"))
	shown := fmt.Sprint(queries)
	for name := range metricsOf(t) {
		if !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// labelsOf returns the labels of each metric of a scrape.
func labelsOf(scrape map[string]float64) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for series := range scrape {
		name, labels, _ := strings.Cut(series, "{")
		if all[name] == nil {
			all[name] = map[string]bool{"instance": true, "job": true} // of Prometheus
		}
		for _, label := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(labels, -1) {
			all[name][label[1]] = true
		}
	}
	all["up"] = map[string]bool{"instance": true, "job": true}
	return all
}

var (
	// queried matches a metric in a query, with its conditions.
	queried = regexp.MustCompile(`\b((?:authgate|go|process)_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?`)
	grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// checkQuery checks that the metrics and labels of a query exist.
func checkQuery(t *testing.T, exported map[string]map[string]bool, title, query string) {
	t.Helper()
	labels := map[string]bool{}
	found := queried.FindAllStringSubmatch(query, -1)
	for _, metric := range found {
		of := exported[metric[1]]
		if of == nil {
			t.Errorf("%s: the gateway does not export %s", title, metric[1])
		}
		for _, condition := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(metric[2], -1) {
			if !of[condition[1]] {
				t.Errorf("%s: %s has no label %s", title, metric[1], condition[1])
			}
		}
		for label := range of {
			labels[label] = true
		}
	}
	for _, by := range grouped.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !labels[label] {
				t.Errorf("%s: no metric of %s has the label %s", title, query, label)
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("%s: the query %s has no metric", title, query)
	}
}

// dashboardQueries returns the queries of each panel of the dashboard.
func dashboardQueries(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Query any }
		}
	}
	world.NoError(t, json.Unmarshal([]byte(world.ReadFile(t, world.Path("docs/observability/dashboard.json"))),
		&dashboard))
	all, ids := map[string][]string{}, map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || all[panel.Title] != nil || panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("the panel %d, %q, is there twice, or asks for nothing", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			all[panel.Title] = append(all[panel.Title], target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		if query, ok := variable.Query.(map[string]any); ok {
			all["variable "+fmt.Sprint(variable.Name)] = []string{
				regexp.MustCompile(`\((\w+),`).FindStringSubmatch(fmt.Sprint(query["query"]))[1],
			}
		}
	}
	return all
}
