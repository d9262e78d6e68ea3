package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"authgate/gateway/config"
	"authgate/upstream/provider"
)

// demoProvider is the name of the provider that the demonstration starts.
const demoProvider = "demo"

// bundledProvider returns the configured provider demo. It returns false if there
// is none, or if its issuer uses https and so is not the bundled one.
func bundledProvider(cfg *config.Config) (config.Provider, bool) {
	for _, p := range cfg.Providers {
		if p.Name == demoProvider && strings.HasPrefix(p.Issuer, "http://") {
			return p, true
		}
	}
	return config.Provider{}, false
}

// startProvider serves the bundled provider, with the gateway as its client, until
// the caller calls stop.
func startProvider(cfg *config.Config, configured config.Provider, logger *slog.Logger) (stop func(), err error) {
	client, err := gatewayClient(cfg)
	if err != nil {
		return nil, err
	}
	own := cfg.PublicURL.String() + cfg.Endpoints.Prefix
	p, err := provider.New(provider.Options{
		Issuer: configured.Issuer,
		Clients: []provider.Client{{
			ID: configured.ClientID, Secret: configured.ClientSecret.Reveal(),
			RedirectURIs:           []string{own + "callback", own + "auth/callback"},
			PostLogoutRedirectURIs: []string{cfg.PublicURL.String() + "/"},
			BackchannelLogoutURI:   own + "backchannel-logout/" + demoProvider,
		}},
		HTTPClient: client,
		Logger:     logger,
	})
	if err != nil {
		return nil, err
	}
	issuer, err := url.Parse(configured.Issuer)
	if err != nil {
		return nil, err
	}
	listener, err := provider.Listen(issuer.Host)
	if err != nil {
		return nil, err
	}
	server := serve("the provider", listener, p)
	return func() {
		server.Close()
		p.Close()
	}, nil
}

// gatewayClient returns an HTTP client that trusts the certificate of the gateway,
// also if its local authority issued it.
func gatewayClient(cfg *config.Config) (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	if cfg.TLS.Mode == config.TLSInternal {
		file := filepath.Join(cfg.DataDir, "ca.pem")
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", file)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return &http.Client{Transport: transport}, nil
}
