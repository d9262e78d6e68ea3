package gateway

import (
	"fmt"
	"strings"

	"authgate/gateway/proxy/web"
)

// events returns how often each event of tokens was counted.
func (r *rig) events() string {
	r.t.Helper()
	var all []string
	for _, event := range []string{web.TokenIssued, web.TokenRefreshed, web.TokenRevoked, web.TokenReused} {
		all = append(all, fmt.Sprint(r.sample("authgate_tokens_total", "event="+event)))
	}
	return strings.Join(all, " ")
}

// audited returns the events of the audit log.
func (r *rig) audited() string {
	r.t.Helper()
	var all []string
	for _, record := range r.log.Records(r.t, "audit") {
		line := fmt.Sprint(record["event"], " ", record["subject"])
		if result := record["result"]; result != nil {
			line += fmt.Sprint(" ", result)
		}
		all = append(all, line)
		if record["client"] != "192.0.2.7" || record["request_id"] == nil || record["route"] == nil ||
			record["event"] == "denied" && record["reason"] == "" {
			r.t.Errorf("the record lacks something: %v", record)
		}
	}
	return strings.Join(all, ", ")
}

// refresh returns what a refresh gives.
func (r *rig) refresh(token string) signedIn {
	r.t.Helper()
	return readLogin(r.t, r.want(200, "POST", "/refresh", refreshBody(token), jsonType))
}
