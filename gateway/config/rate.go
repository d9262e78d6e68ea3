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
	Requests int64         `yaml:"requests"` // in Per
	Per      time.Duration `yaml:"per"`
	By       string        `yaml:"by"` // client or user
}

func defaultRate() rate { return rate{Per: time.Second, By: RateByClient} }

// Words returns the words that keys of a rate take.
func (rate) Words() map[string][]string {
	return map[string][]string{"by": {RateByClient, RateByUser}}
}

// Bounds of routes[].rate. A window must be much longer than a round trip to the
// store.
const (
	maxRateRequests = 1_000_000_000
	minRatePer      = 100 * time.Millisecond
	maxRatePer      = 24 * time.Hour
)

// checkRate checks the section rate of a route.
func (route *Route) checkRate(r *section.Report, path string) {
	if !r.Given(path) {
		return
	}
	switch n := route.Rate.Requests; {
	case !r.Given(path + ".requests"):
		r.Missing(path+".requests", "give how many requests are allowed in per; 0 means no limit")
	case n > maxRateRequests:
		r.Fault(path+".requests", "%d is out of range; expected 1 to %d, or 0 for no limit", n, maxRateRequests)
	}
	if per := route.Rate.Per; per < minRatePer || per > maxRatePer {
		r.Fault(path+".per", "%v is out of range; expected %v to %v", per, minRatePer, maxRatePer)
	}
	if route.Rate.By == RateByUser && route.public() {
		r.Fault(path+".by",
			"a public route has no users, so their requests cannot be counted; use client, or name a mechanism in auth")
	}
}
