package own_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// TestEventsOfEndpoints checks that the page about events has each own endpoint that can change
// something, that all of them exist, and that its events are audit events.
func TestEventsOfEndpoints(t *testing.T) {
	t.Parallel()
	span := regexp.MustCompile("`([^`]+)`")
	events := string(must.Get(os.ReadFile("../../../docs/observability/README.md"))(t))
	documented := map[string]bool{}
	for line := range strings.Lines(string(must.Get(os.ReadFile("../../../docs/observability/credentials.md"))(t))) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		for _, request := range span.FindAllStringSubmatch(cells[1], -1) {
			documented[request[1]] = true
		}
		for _, event := range span.FindAllStringSubmatch(cells[2]+cells[3], -1) {
			if !strings.Contains(events, "\n| `"+event[1]+"` |") {
				t.Errorf("there is no event %s", event[1])
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
