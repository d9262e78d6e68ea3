package config

// AccessMessage is the message of a line of the access log, which tells it from others.
const AccessMessage = "request"

// Log configures the log.
type Log struct {
	Level  string `yaml:"level" default:"info" words:"debug info warn error"` // debug, info, warn or error
	Format string `yaml:"format" words:"json text"`
	// AuditFile gets every audit event; absolute or under DataDir, resolved. Empty: there is none.
	AuditFile string `yaml:"audit_file"`
}
