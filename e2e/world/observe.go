package world

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// checkLog fails the test if the log has a line that no test allows. It shows the end of the log
// if the test has failed.
func checkLog(t testing.TB, output *Output) {
	log := output.String()
	for _, mishap := range []string{"WARNING: DATA RACE", `"msg":"panic"`} {
		if strings.Contains(log, mishap) {
			t.Errorf("the log of the gateway has %q:\n%s", mishap, log)
		}
	}
	if t.Failed() {
		t.Logf("the end of the log of the gateway:\n%s", log[max(0, len(log)-4000):])
	}
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
