package config

import (
	"slices"
	"strings"
	"time"
)

// check makes all checks of decoded values.
func (l *loader) check() {
	l.checkOrigin()
	l.checkEndpoints()
	l.checkListen()
	l.checkTLS()
	l.checkStore()
	l.checkUsers()
	l.checkRealm()
	l.checkSession()
	l.checkToken()
	l.checkTrustedIssuers()
	l.checkCookies()
	l.checkProviders()
	l.checkDelegated()
	l.checkIdentityHeaders("identity_headers", l.cfg.IdentityHeaders)
	l.checkUpstreams()
	l.checkPolicies()
	l.checkRoutes()
	l.checkLimits()
	l.checkDemo()
}

// oneOf checks that a value is one of words.
func (l *loader) oneOf(path, value string, words ...string) {
	if !slices.Contains(words, value) {
		l.fault(path, "%q is not a valid value; expected %s", value, orList(words))
	}
}

// orList writes "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// lifetime checks the lifetime of a cookie or a token. Max-Age and exp count
// whole seconds.
func (l *loader) lifetime(key string, d time.Duration) {
	switch {
	case d == 0:
		l.fault(key, "must be longer than 0")
	case d < time.Second:
		l.fault(key, "must be at least 1s")
	}
}
