package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
)

const caFile = "ca.pem" // for clients to trust

// shareAuthority gives gateway and provider one local authority, so that a browser must trust only
// one, and each trusts the other. The configurations name its
// certificate, so that it must be there before they are read.
func shareAuthority(gateway, provider string) error {
	from, err := config.DataDir(gateway)
	if err != nil {
		return err
	}
	to, err := config.DataDir(provider)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(from, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(from, caFile)); err != nil {
		_, err := certs.Open(certs.Options{
			Config: &config.Config{DataDir: from, TLS: listening.TLS{
				Mode: listening.TLSInternal, Domains: []string{"localhost", "127.0.0.1", "::1"},
			}},
			Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		})
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{caFile, "ca-key.pem"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
