package config

// Messages of lines in the log, which tell them from others.
const (
	AccessMessage = "request" // of the access log
	AuditMessage  = "audit"   // of an audit event
)

// Log configures the log.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // json or text; empty: text on a terminal, else json
}

func defaultLog() Log { return Log{Level: "info"} }

// Words returns the words that keys of a log take.
func (Log) Words() map[string][]string {
	return map[string][]string{"level": {"debug", "info", "warn", "error"}, "format": {"json", "text"}}
}
