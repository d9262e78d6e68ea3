package own_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// eventRow is a row of the page about events.
type eventRow struct{ requests, given, refused []string }

// eventRows returns the rows of docs/observability/credentials.md.
func eventRows(t *testing.T) (rows []eventRow) {
	t.Helper()
	span := regexp.MustCompile("`([^`]+)`")
	spans := func(cell string) (texts []string) {
		for _, match := range span.FindAllStringSubmatch(cell, -1) {
			texts = append(texts, match[1])
		}
		return texts
	}
	for line := range strings.Lines(string(must.Get(os.ReadFile("../../../docs/observability/credentials.md"))(t))) {
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			rows = append(rows, eventRow{spans(cells[1]), spans(cells[2]), spans(cells[3])})
		}
	}
	return rows
}

// preferences are the requests that change only what a browser prefers, and refuse no credential.
var preferences = []string{"POST /signin/cookies", "POST /signin/language"}

// TestEventsOfEndpoints checks that the page about events has each own endpoint that can change
// something, that all of them exist, and that its events are audit events. TestEventsAppear sends
// the requests.
func TestEventsOfEndpoints(t *testing.T) {
	t.Parallel()
	events := string(must.Get(os.ReadFile("../../../docs/observability/README.md"))(t))
	documented := map[string]bool{}
	for _, row := range eventRows(t) {
		for _, request := range row.requests {
			documented[request] = true
			if len(row.given)+len(row.refused) == 0 && !slices.Contains(preferences, request) {
				t.Errorf("%s leaves no event", request)
			}
		}
		for _, event := range slices.Concat(row.given, row.refused) {
			if !strings.Contains(events, "\n| `"+event+"` |") {
				t.Errorf("there is no event %s", event)
			}
		}
	}
	r := rig.NewProvider(t).Rig(rig.Base, "oauth: {enabled: true}\n")
	for _, name := range r.Config.OwnEndpoints() {
		if strings.HasPrefix(name, "account/people") { // each change is an account_changed; see the room
			continue
		}
		methods := strings.Split(r.Want(405, "PATCH", "/"+name, "").Header().Get("Allow"), ", ")
		for _, method := range methods {
			request := method + " /" + strings.Replace(name, "small", "PROVIDER", 1)
			if known := documented[request]; method == "POST" && !known {
				t.Errorf("docs/observability/credentials.md does not have %s", request)
			}
			delete(documented, request)
		}
	}
	for request := range documented {
		t.Errorf("docs/observability/credentials.md has %s, which does not exist", request)
	}
}
