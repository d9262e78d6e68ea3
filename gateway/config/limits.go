package config

import (
	"time"

	"authgate/gateway/config/section"
)

// Limits are limits for clients.
type Limits struct {
	LoginFailures  int           `yaml:"login_failures"`
	LoginWindow    time.Duration `yaml:"login_window"`
	MaxHeaderBytes int           `yaml:"max_header_bytes"`
	InFlight       int           `yaml:"in_flight"`  // requests at the same time; 0: as many as file descriptors allow
	BodyPause      time.Duration `yaml:"body_pause"` // longest pause of a request body while the response pauses too
}

func defaultLimits() Limits {
	return Limits{LoginFailures: 10, LoginWindow: 5 * time.Minute, MaxHeaderBytes: 65536, BodyPause: 2 * time.Minute}
}

// Bounds of limits.max_header_bytes.
const (
	minHeaderBytes = 4096
	maxHeaderBytes = 1 << 20
)

func (l Limits) check(r *section.Report) {
	if l.LoginFailures < 1 {
		r.Fault("limits.login_failures", "must be at least 1; with 0 no user could sign in")
	}
	r.Positive("limits.login_window", l.LoginWindow)
	if n := l.MaxHeaderBytes; n < minHeaderBytes || n > maxHeaderBytes {
		r.Fault("limits.max_header_bytes", "%d is out of range; expected %d to %d", n, minHeaderBytes, maxHeaderBytes)
	}
	if l.BodyPause == 0 {
		r.Fault("limits.body_pause", "must be longer than 0; with 0 every request with a body would fail")
	}
}
