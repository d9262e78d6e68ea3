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

func (l Log) check(r *report) {
	r.oneOf("log.level", l.Level, words("log.level"))
	r.oneOf("log.format", l.Format, words("log.format"))
}
