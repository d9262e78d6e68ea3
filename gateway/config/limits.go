package config

import (
	"time"
)

// Limits are limits for clients.
type Limits struct {
	LoginFailures  int           `yaml:"login_failures" default:"10" min:"1" why:"; with 0 no user could sign in"`
	LoginWindow    time.Duration `yaml:"login_window" default:"5m" min:"1ns"`
	MaxHeaderBytes int           `yaml:"max_header_bytes" default:"65536" range:"4096..1048576" reload:"restart"`
	InFlight       int           `yaml:"in_flight"`
	// StreamsPerLogin is how many streams a login may have open at once on an instance.
	StreamsPerLogin int           `yaml:"streams_per_login" default:"1000" min:"1" why:"; with 0 no stream could open"`
	BodyPause       time.Duration `yaml:"body_pause" default:"2m" min:"1ns"`
}

// Why returns why keys of the section have the bounds that they have.
func (Limits) Why() map[string]string {
	return map[string]string{"body_pause": "; with 0 every request with a body would fail"}
}
