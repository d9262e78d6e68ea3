package forwarding

import (
	"strconv"
	"strings"
	"time"

	"authgate/gateway/config/section"
	"authgate/policy"
)

// Health is the active check of the targets of an upstream. Without a Path there
// is none.
type Health struct {
	Path     string        `yaml:"path"` // with a query, if it has one
	Interval time.Duration `yaml:"interval" default:"10s" min:"1ns"`
	Timeout  time.Duration `yaml:"timeout" default:"2s" min:"1ns"`
	Status   string        `yaml:"status" default:"200-399"`     // of a good answer: "200" or "200-399"
	Failures int           `yaml:"failures" default:"2" min:"1"` // in a row, until a target is unhealthy
	Host     string        `yaml:"host"`                         // empty: that which the upstream's Host names

	From int `yaml:"-"` // the first status of Status
	To   int `yaml:"-"` // and the last one
}

// complete sets From and To, if Status is valid.
func (h *Health) complete() {
	first, last, ranges := strings.Cut(h.Status, "-")
	if !ranges {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 == nil && err2 == nil && len(first) == 3 && len(last) == 3 && 100 <= from && from <= to && to <= 599 {
		h.From, h.To = from, to
	}
}

// checkHealth checks an active health check, if there is one.
func (h *Health) checkHealth(r *section.Report, path string) {
	if !r.Given(path) {
		return
	}
	if h.Path == "" {
		r.Fault(path,
			"needs a path, like path: /healthz; without health, only failed requests tell which target is down")
	} else if _, err := policy.ParseTarget(h.Path); err != nil {
		r.Fault(path+".path", "%q is not a path, with or without a query; expected one like /healthz: %v", h.Path, err)
	}
	if h.To == 0 {
		r.Fault(path+".status", `%q is not a status or a range of them; expected "200" or "200-399"`, h.Status)
	}
	if err := section.CheckHostPort(h.Host); err != nil && r.Given(path+".host") {
		r.Fault(path+".host", "%q %v; expected a name like app.example.org", h.Host, err)
	}
}
