package gateway

import (
	"errors"
	"fmt"

	"authgate/gateway/audit/webhook"
	"authgate/gateway/config"
)

// Receivers returns where a configuration sends audit events.
func Receivers(cfg *config.Config) ([]webhook.Receiver, error) {
	all := make([]webhook.Receiver, len(cfg.Webhooks))
	for i := range cfg.Webhooks {
		w := &cfg.Webhooks[i]
		address, badAddress := w.Address()
		keys, badKeys := w.Keys()
		roots, badRoots := w.Roots()
		if err := errors.Join(badAddress, badKeys, badRoots); err != nil {
			return nil, fmt.Errorf("webhooks[%s]: %w", w.Name, err)
		}
		all[i] = webhook.Receiver{
			Name: w.Name, URL: address, Keys: keys, Events: w.Events, Timeout: w.Timeout, Roots: roots,
		}
	}
	return all, nil
}
