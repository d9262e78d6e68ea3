package config

import (
	"path/filepath"
	"slices"

	"authgate/gateway/config/section"
)

// AccessMessage is the message of a line of the access log, which tells it from others.
const AccessMessage = "request"

// Log configures the log.
type Log struct {
	Level  string `yaml:"level" default:"info" words:"debug info warn error"` // debug, info, warn or error
	Format string `yaml:"format" words:"json text"`
	// AuditFile gets every audit event; absolute or under DataDir, resolved. Empty: there is none.
	AuditFile string `yaml:"audit_file"`
}

// checkAuditFile refuses the files that the gateway itself keeps for the audit file and the store.
func (l *Log) checkAuditFile(r *section.Report, c *Config) {
	own := []string{filepath.Join(c.DataDir, "audit.key"), filepath.Join(c.DataDir, "audit.state"), c.Store.Path}
	if l.AuditFile != "" && slices.Contains(own, filepath.Clean(l.AuditFile)) {
		r.Fault("log.audit_file", "the gateway keeps something else in this file; name another, such as audit.jsonl")
	}
}
