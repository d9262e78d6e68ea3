package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"

	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
	"authgate/policy"
)

// Store drivers.
const (
	StoreSQLite = "sqlite"
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// Store configures the store of logins and sessions.
type Store struct {
	Driver           string        `yaml:"driver" default:"sqlite" words:"sqlite memory redis"`
	Path             string        `yaml:"path" default:"authgate.db"` // absolute or under DataDir, resolved
	Addresses        []string      `yaml:"addresses" default:"127.0.0.1:6379"`
	SentinelMaster   string        `yaml:"sentinel_master"`
	Username         string        `yaml:"username"`
	Password         Secret        `yaml:"password"`
	SentinelUsername string        `yaml:"sentinel_username"`
	SentinelPassword Secret        `yaml:"sentinel_password"`
	TLS              bool          `yaml:"tls"`
	KeyPrefix        string        `yaml:"key_prefix" default:"authgate:"`
	MaxStaleness     time.Duration `yaml:"max_staleness" default:"2s"`
	EncryptionKey    Secret        `yaml:"encryption_key" check:"key"`
}

// checkDriver checks the keys of this section. Keys that instances must share are
// checked in checker.sharedKeys.
func (s Store) checkDriver(r *section.Report, dataDir string) {
	if s.Driver != StoreRedis {
		s.warnOfRedis(r)
	}
	switch s.Driver {
	case StoreSQLite:
		if s.Path == "" {
			r.Fault("store.path", "must not be empty; expected the name of a file under data_dir")
		} else if s.Path == dataDir {
			r.Fault("store.path", "is data_dir itself; expected a file under it")
		}
	case StoreRedis:
		s.checkRedis(r)
	}
}

// warnOfRedis warns of the place of a Redis that is not used, unless it is the default.
func (s Store) warnOfRedis(r *section.Report) {
	for path, other := range map[string]bool{
		"store.addresses":       !slices.Equal(s.Addresses, defaults().Store.Addresses),
		"store.sentinel_master": s.SentinelMaster != "",
		"store.username":        s.Username != "", "store.password": s.Password != "",
	} {
		if other {
			r.Warn(path, "has no effect without driver: redis; add that, or remove this key")
		}
	}
}

// checkRedis checks the keys that only the driver redis uses.
func (s Store) checkRedis(r *section.Report) {
	if len(s.Addresses) == 0 {
		r.Fault("store.addresses", "at least one address is needed")
	}
	for i, address := range s.Addresses {
		if host, _, _ := net.SplitHostPort(address); host == "" || section.CheckAddress(address) != nil {
			r.Fault(fmt.Sprintf("store.addresses[%d]", i), "%q is not HOST:PORT, like 127.0.0.1:6379", address)
		}
	}
	checkStoreUser(r, "store.username", s.Username)
	checkStoreUser(r, "store.sentinel_username", s.SentinelUsername)
	if s.SentinelMaster == "" {
		const needs = "is for Sentinels and needs store.sentinel_master; " +
			"for Redis itself use store.username and store.password"
		if s.SentinelUsername != "" {
			r.Fault("store.sentinel_username", needs)
		}
		if s.SentinelPassword != "" {
			r.Fault("store.sentinel_password", needs)
		}
	}
	if strings.ContainsFunc(s.KeyPrefix, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		r.Fault("store.key_prefix", "%q contains a space or a control character", s.KeyPrefix)
	}
	if s.MaxStaleness == 0 {
		r.Fault("store.max_staleness", "must be longer than 0")
	}
}

// sharedKeys checks that the configuration has the keys that instances with one Redis
// must share. If each instance generated its own key, it would refuse what another
// instance issued.
func (k *checker) sharedKeys() {
	c := k.cfg
	if c.Store.Driver != StoreRedis {
		return
	}
	k.sharedTokenKeys()
	for _, use := range []struct {
		used    bool
		purpose string
	}{
		{c.TLS.Mode == listening.TLSACME, "tls.mode acme, because Redis stores the certificates and their keys"},
		{len(c.Providers) > 0, "providers, because Redis stores the tokens that they issue"},
		{c.Session.CSRFToken, "session.csrf_token, because every instance must make the same tokens"},
	} {
		if use.used && c.Store.EncryptionKey == "" {
			k.report.Fault("store.encryption_key",
				"is needed with store.driver redis and %s; "+
					"give every instance the same key, for example from `openssl rand -base64 32`", use.purpose)
			return
		}
	}
}

// sharedTokenKeys checks that the configuration has the keys that sign tokens, and what
// others verify.
func (k *checker) sharedTokenKeys() {
	c, r := k.cfg, k.report
	const (
		needed    = "is needed with store.driver redis, because %s and every instance must sign %s with the same key"
		neededRSA = needed + ", for example from `openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072`"
	)
	why := ""
	switch {
	case k.accepts(policy.Bearer):
		why = "a route accepts bearer"
	case c.OAuth.Enabled:
		why = "oauth.enabled is true"
	}
	if why != "" && c.Token.Algorithm == AlgorithmHS256 && c.Token.Secret == "" {
		r.Fault("token.secret", needed+", for example from `openssl rand -hex 32`", why, "tokens")
	}
	switch {
	case c.Token.PrivateKey != "":
	case why != "" && c.Token.Algorithm == AlgorithmRS256:
		r.Fault("token.private_key", neededRSA, why, "tokens")
	case c.OAuth.Enabled:
		r.Fault("token.private_key", neededRSA, "oauth.enabled is true", "ID tokens")
	case asserts(c.Upstreams):
		r.Fault("token.private_key", neededRSA, "an upstream has an assertion", "assertions")
	}
}

// checkStoreUser checks the name of the gateway as a user of Redis, if one is given.
func checkStoreUser(r *section.Report, path, name string) {
	if err := policy.CheckName(name); err != nil && name != "" {
		r.Fault(path, "the user name %v", err)
	}
}
