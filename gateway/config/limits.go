package config

// Bounds of limits.max_header_bytes.
const (
	minHeaderBytes = 4096
	maxHeaderBytes = 1 << 20
)

func (l Limits) check(r *report) {
	if l.LoginFailures < 1 {
		r.Fault("limits.login_failures", "must be at least 1; with 0 no user could sign in")
	}
	r.positive("limits.login_window", l.LoginWindow)
	if n := l.MaxHeaderBytes; n < minHeaderBytes || n > maxHeaderBytes {
		r.Fault("limits.max_header_bytes", "%d is out of range; expected %d to %d", n, minHeaderBytes, maxHeaderBytes)
	}
	if l.BodyPause == 0 {
		r.Fault("limits.body_pause", "must be longer than 0; with 0 every request with a body would fail")
	}
}

// Words returns the words that keys of a log take.
func (Log) Words() map[string][]string {
	return map[string][]string{"level": {"debug", "info", "warn", "error"}, "format": {"json", "text"}}
}
