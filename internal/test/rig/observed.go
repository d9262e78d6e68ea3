package rig

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/proxy/web"
	"authgate/internal/test/must"
)

// Sample returns the value of a counter or gauge, or the number of
// observations of a histogram. Labels are like "route=basic". If there is no such
// sample, it returns 0.
func Sample(t testing.TB, registry *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families := must.Get(registry.Gather())(t)
	sum := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var pairs []string
			for _, pair := range metric.GetLabel() {
				pairs = append(pairs, pair.GetName()+"="+pair.GetValue())
			}
			other := slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(pairs, l) })
			if family.GetName() == name && !other {
				sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
				sum += float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// Events returns how often each event of tokens was counted.
func (r *Rig) Events() string {
	r.T.Helper()
	var all []string
	for _, event := range []string{web.TokenIssued, web.TokenRefreshed, web.TokenRevoked, web.TokenReused} {
		all = append(all, fmt.Sprint(r.Sample("authgate_tokens_total", "event="+event)))
	}
	return strings.Join(all, " ")
}

// Audited returns the events of the audit log.
func (r *Rig) Audited() string {
	r.T.Helper()
	var all []string
	for _, record := range r.Log.Records(r.T, "audit") {
		line := fmt.Sprint(record["event"], " ", record["subject"])
		if result := record["result"]; result != nil {
			line += fmt.Sprint(" ", result)
		}
		all = append(all, line)
		unexplained := record["event"] == "denied" && record["reason"] == ""
		if record["client"] != "192.0.2.7" || record["request_id"] == nil || record["route"] == nil || unexplained {
			r.T.Errorf("the record lacks something: %v", record)
		}
	}
	return strings.Join(all, ", ")
}

// EventsOf returns the audit events of a name, each with those of the fields that it has. All are
// events of requests.
func (r *Rig) EventsOf(event string, fields ...string) (events []string) {
	r.T.Helper()
	for _, record := range r.Log.Records(r.T, "audit") {
		if record["event"] != event {
			continue
		}
		if id, _ := record["request_id"].(string); id == "" {
			r.T.Errorf("the event has no request_id: %v", record)
		}
		var text []string
		for _, field := range fields {
			if value := record[field]; value != nil {
				text = append(text, fmt.Sprint(field, "=", value))
			}
		}
		events = append(events, strings.Join(text, " "))
	}
	return events
}

// Sample returns the value of a metric of the rig.
func (r *Rig) Sample(name string, labels ...string) float64 {
	r.T.Helper()
	return Sample(r.T, r.Registry, name, labels...)
}
