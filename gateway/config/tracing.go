package config

import (
	"net/url"
	"strings"
	"unicode"

	"authgate/gateway/config/section"
)

// Tracing configures the traces of requests. Without an Endpoint there are none.
type Tracing struct {
	Endpoint    string  `yaml:"endpoint"`
	Sample      float64 `yaml:"sample" default:"1" range:"0..1" why:": the share of the requests that are recorded"`
	ServiceName string  `yaml:"service_name" default:"authgate"`
}

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

func (t Tracing) checkTracing(r *section.Report) {
	if t != defaults().Tracing && t.Endpoint == "" {
		r.Warn("tracing", "has no effect without endpoint; set it, or remove this key")
	}
	if t.Endpoint != "" {
		if _, err := section.HTTPURL(t.Endpoint); err != nil {
			r.Fault("tracing.endpoint",
				"%v; expected the address of a collector that takes OTLP over HTTP, like http://127.0.0.1:4318", err)
		}
	}
	if t.ServiceName == "" || strings.ContainsFunc(t.ServiceName, unicode.IsControl) {
		r.Fault("tracing.service_name",
			"must not be empty and have no control characters; expected a name like authgate")
	}
}
