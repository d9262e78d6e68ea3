package config

// Messages of lines in the log, which tell them from others.
const (
	AccessMessage = "request" // of the access log
	AuditMessage  = "audit"   // of an audit event
)

// Log configures the log.
type Log struct {
	Level  string `yaml:"level" default:"info" words:"debug info warn error"` // debug, info, warn or error
	Format string `yaml:"format" words:"json text"`
}
