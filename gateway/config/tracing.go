package config

import (
	"net/url"
	"strings"
	"unicode"
)

// tracesPath is where a collector receives traces, unless the endpoint has a path
// (OpenTelemetry Protocol, "OTLP/HTTP Request").
const tracesPath = "/v1/traces"

// complete adds the usual path to an endpoint that has none.
func (t *Tracing) complete() {
	if u, err := url.Parse(t.Endpoint); err == nil && u.Host != "" && strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
		t.Endpoint = u.String()
	}
}

func (t Tracing) check(r *report) {
	if t.Endpoint != "" {
		if _, err := httpURL(t.Endpoint); err != nil {
			r.Fault("tracing.endpoint", "%v; expected the address of a collector that takes OTLP over HTTP, like http://127.0.0.1:4318", err)
		}
	}
	if t.Sample > 1 {
		r.Fault("tracing.sample", "must be from 0 to 1: the share of the requests that are recorded")
	}
	if t.ServiceName == "" || strings.ContainsFunc(t.ServiceName, unicode.IsControl) {
		r.Fault("tracing.service_name", "must not be empty and have no control characters; expected a name like authgate")
	}
}
