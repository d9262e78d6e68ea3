package config

import (
	"authgate/gateway/strictyaml"
)

// ClientIssuer is what the gateway's own authority for clients needs to know.
type ClientIssuer struct {
	DataDir  string
	Username string // the kind of name that names the account
	ClientCA string // tls.client_ca
}

// ClientIssuerOf returns that of the configuration file at path, also if it has other mistakes. The
// error is Diagnostics or a *ReadError.
func ClientIssuerOf(path string) (*ClientIssuer, error) {
	source, _, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return nil, &ReadError{err}
	}
	reader, main, c := Environment{}.readMain(path, source)
	const key = "certificates.username"
	if main.Unreadable("") || main.Broken("data_dir") || main.Broken(key) || main.Broken("tls.client_ca") {
		return nil, reader.Err()
	}
	if !c.Certificates.NamesAccounts() {
		main.Fault(key, "%q does not say which name in a certificate names the account; expected san_email, san_uri, "+
			"san_dns or cn", c.Certificates.Username)
		return nil, reader.Err()
	}
	return &ClientIssuer{c.DataDir, c.Certificates.Username, c.TLS.ClientCA}, nil
}
