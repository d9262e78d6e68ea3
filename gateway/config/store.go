package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"

	"authgate/policy"
)

// checkStore checks data_dir and store.
func (l *loader) checkStore() {
	s := l.cfg.Store
	if l.cfg.DataDir == "" {
		l.fault("data_dir", "must not be empty; it is the folder for the store and generated keys")
	}
	l.checkKeyLength("store.encryption_key", s.EncryptionKey)
	l.oneOf("store.driver", s.Driver, StoreSQLite, StoreMemory, StoreRedis)
	switch s.Driver {
	case StoreSQLite:
		if s.Path == "" {
			l.fault("store.path", "must not be empty; expected the name of a file under data_dir")
		} else if s.Path == l.cfg.DataDir {
			l.fault("store.path", "is data_dir itself; expected a file under it")
		}
	case StoreRedis:
		l.checkRedis()
	}
}

// checkRedis checks the keys that only the driver redis uses.
func (l *loader) checkRedis() {
	s := l.cfg.Store
	if len(s.Addresses) == 0 {
		l.fault("store.addresses", "at least one address is needed")
	}
	for i, address := range s.Addresses {
		if host, _, _ := net.SplitHostPort(address); host == "" || checkListenAddress(address) != nil {
			l.fault(fmt.Sprintf("store.addresses[%d]", i), "%q is not HOST:PORT, like 127.0.0.1:6379", address)
		}
	}
	if s.SentinelMaster == "" {
		const needs = "is for Sentinels and needs store.sentinel_master; for Redis itself use store.username and store.password"
		if s.SentinelUsername != "" {
			l.fault("store.sentinel_username", needs)
		}
		if s.SentinelPassword != "" {
			l.fault("store.sentinel_password", needs)
		}
	}
	if strings.ContainsFunc(s.KeyPrefix, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		l.fault("store.key_prefix", "%q contains a space or a control character", s.KeyPrefix)
	}
	if s.MaxStaleness == 0 {
		l.fault("store.max_staleness", "must be longer than 0")
	}
	l.checkSharedKeys()
}

// checkSharedKeys checks that the configuration has the keys that instances must
// share. If each instance generated its own key, it would refuse what another
// instance issued.
func (l *loader) checkSharedKeys() {
	t := l.cfg.Token
	if slices.ContainsFunc(l.cfg.Routes, func(r Route) bool { return slices.Contains(r.Auth, policy.Bearer) }) {
		const needed = "is needed with store.driver redis, because a route accepts bearer and every instance must sign tokens with the same key"
		switch {
		case t.Algorithm == AlgorithmHS256 && t.Secret == "":
			l.fault("token.secret", needed)
		case t.Algorithm == AlgorithmRS256 && t.PrivateKey == "":
			l.fault("token.private_key", needed)
		}
	}
	for _, use := range []struct {
		used    bool
		purpose string
	}{
		{l.cfg.TLS.Mode == TLSACME, "tls.mode acme, because Redis stores the certificates and their keys"},
		{len(l.cfg.Providers) > 0, "providers, because Redis stores the tokens that they issue"},
		{l.cfg.Session.CSRFToken, "session.csrf_token, because every instance must make the same tokens"},
	} {
		if use.used && l.cfg.Store.EncryptionKey == "" {
			l.fault("store.encryption_key", "is needed with store.driver redis and %s; give every instance the same key, for example from `openssl rand -base64 32`", use.purpose)
			return
		}
	}
}
