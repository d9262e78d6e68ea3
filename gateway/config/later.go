package config

import (
	"fmt"
	"strings"

	"authgate/policy"
)

// checkLater refuses what the configuration can say but the gateway cannot do
// in this version.
func (l *loader) checkLater() {
	for i := range l.cfg.Providers {
		path := fmt.Sprintf("providers[%d]", i)
		l.add(l.main.text, l.main.at(path), path, "providers are not supported yet")
	}
	for path, place := range l.main.places {
		if strings.HasPrefix(path, "delegated.") {
			l.add(l.main.text, place.key, path, "delegated logins are not supported yet")
		}
	}
	for i, r := range l.cfg.Routes {
		for j, m := range r.Auth {
			if m == policy.OIDC {
				path := fmt.Sprintf("routes[%d].auth[%d]", i, j)
				l.add(l.main.text, l.main.at(path), path, "oidc is not supported yet")
			}
		}
	}
	if l.cfg.TLS.Mode == TLSACME {
		l.add(l.main.text, l.main.at("tls.mode"), "tls.mode", "acme is not supported yet")
	}
	if l.cfg.Store.Driver == StoreRedis {
		l.add(l.main.text, l.main.at("store.driver"), "store.driver", "redis is not supported yet")
	}
}
