package config

// Bounds of limits.max_header_bytes.
const (
	minHeaderBytes = 4096
	maxHeaderBytes = 1 << 20
)

// checkLimits checks limits, shutdown_timeout and log.
func (l *loader) checkLimits() {
	limits := l.cfg.Limits
	if limits.LoginFailures < 1 {
		l.fault("limits.login_failures", "must be at least 1; with 0 no user could sign in")
	}
	if limits.LoginWindow == 0 {
		l.fault("limits.login_window", "must be longer than 0")
	}
	if n := limits.MaxHeaderBytes; n < minHeaderBytes || n > maxHeaderBytes {
		l.fault("limits.max_header_bytes", "%d is out of range; expected %d to %d", n, minHeaderBytes, maxHeaderBytes)
	}
	if limits.BodyPause == 0 {
		l.fault("limits.body_pause", "must be longer than 0; with 0 every request with a body would fail")
	}
	if l.cfg.ShutdownTimeout == 0 {
		l.fault("shutdown_timeout", "must be longer than 0; with 0 a stop would end every request in flight")
	}
	l.oneOf("log.level", l.cfg.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", l.cfg.Log.Format, "json", "text")
}
