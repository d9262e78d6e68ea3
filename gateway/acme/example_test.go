package acme_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"authgate/gateway/acme"
	"authgate/gateway/seal"
	"authgate/gateway/store"
)

// The certificates of one name, for a TLS listener. Instances that share the
// store share the certificates.
func Example() {
	secret := make([]byte, seal.MinSecret) // store.encryption_key
	box, err := seal.New(secret)
	if err != nil {
		panic(err)
	}
	shared := store.NewMemory(time.Now)
	defer shared.Close()

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	m, err := acme.Open(ctx, acme.Options{
		Domains: []string{"gate.example.org"}, Storage: acme.NewStorage(shared, box, store.ClockOf(shared, time.Now)),
		HTTP: ":80", HTTPS: ":443", Logger: slog.Default(),
	})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	go m.Run(ctx) // obtains and renews

	_ = &tls.Config{GetCertificate: m.GetCertificate, NextProtos: []string{"h2", "http/1.1", acme.Protocol}}
}
