package world

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Entries returns the lines of the log so far, each a JSON object.
func (g *Instance) Entries() []map[string]any {
	g.T.Helper()
	var all []map[string]any
	for line := range g.Log.Lines() {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			g.T.Fatalf("a line of the log is not a JSON object: %q", line)
		}
		all = append(all, entry)
	}
	return all
}

// EntriesOf returns the entries with a message: "request" for the access log,
// "audit" for the audit log.
func (g *Instance) EntriesOf(message string) []map[string]any {
	g.T.Helper()
	return g.Log.Records(g.T, message)
}

// Scrape reads the metrics: series like name{a="b",c="d"} and their values.
func (g *Instance) Scrape(t testing.TB) map[string]float64 {
	t.Helper()
	response := Must(http.Get(g.Admin + "/metrics"))(t)
	defer response.Body.Close()
	all := map[string]float64{}
	for line := range strings.Lines(string(Must(io.ReadAll(response.Body))(t))) {
		if value := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") {
			all[line[:value]] = Must(strconv.ParseFloat(strings.TrimSpace(line[value:]), 64))(t)
		}
	}
	return all
}

// Readiness requests /readyz, as a balancer does.
func (g *Instance) Readiness() (status int, body string, err error) {
	response, err := (&http.Client{Timeout: Patience}).Get(g.Admin + "/readyz")
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Ready is Readiness for an admin listener that must answer.
func (g *Instance) Ready() (status int, body string) {
	g.T.Helper()
	status, body, err := g.Readiness()
	if err != nil {
		g.T.Fatalf("/readyz: %v\n%s", err, g.Log)
	}
	return status, body
}

// WantReady fails the test unless the admin listener answers that the gateway
// is ready.
func WantReady(t testing.TB, g *Instance, when string) {
	t.Helper()
	Eventually(t, Patience, "/readyz "+when, func() error {
		status, body, err := g.Readiness()
		if err != nil {
			t.Errorf("/readyz %s: %v", when, err)
		} else if status != http.StatusOK { // such as a disk that is late
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}
