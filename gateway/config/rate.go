package config

import (
	"time"

	"authgate/gateway/config/section"
)

// Who a rate counts requests of.
const (
	RateByClient = "client"
	RateByUser   = "user"
)

// rate limits the requests of each client or user.
type rate struct {
	Requests int64         `yaml:"requests" range:"1..1000000000" zero:"no limit"` // in Per
	Per      time.Duration `yaml:"per" default:"1s" range:"100ms..24h"`
	By       string        `yaml:"by" default:"client" words:"client user"` // client or user
}

// checkRate checks the section rate of a route.
func (route *Route) checkRate(r *section.Report, path string) {
	if !r.Given(path) {
		return
	}
	if !r.Given(path + ".requests") {
		r.Missing(path+".requests", "give how many requests are allowed in per; 0 means no limit")
	}
	if route.Rate.By == RateByUser && route.public() {
		r.Fault(path+".by",
			"a public route has no users, so their requests cannot be counted; use client, or name a mechanism in auth")
	}
}
