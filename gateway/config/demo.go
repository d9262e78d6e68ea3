package config

import (
	"fmt"
	"slices"

	"authgate/gateway/config/listening"
	"authgate/gateway/people/accounts"
)

// demoHashes are the password hashes of the shipped config.yaml. Their passwords
// are public. A test keeps them equal to the file.
var demoHashes = []Secret{
	"$argon2id$v=19$m=19456,t=2,p=1$U3aXXtZhzJj4UN6ZbkMwPg$PGkQq3X6qHC0edJRK+1MVtPSZbbWSrRjQhxi0ckKywg",
	"$argon2id$v=19$m=19456,t=2,p=1$dRIQGPuCKmRV65kL8M3GnA$pKp2zwgPl1GiLBwB3eKpj/uOUTdYHj17EDQfgZnEYjw",
	"$argon2id$v=19$m=19456,t=2,p=1$a9eBLfdOxDEzgYnE6h1UuQ$T0g47KRMpq8/2wtiGNJjbRFCRRyCJsT7SJRnlV8298c",
}

// demoClientSecret is the client's secret in the shipped config.yaml, and demoClientHash its hash
// in the shipped provider.yaml. They are public too.
const demoClientSecret, demoClientHash Secret = "demo-secret", "$argon2id$v=19$m=19456,t=2,p=1$3mRkHe+br+nZiL//CEGe1A" +
	"$Ith4wL8rmyYU6BSv0KgpFbTsheL0Mie+dUztwziNKhk"

// DemoUsers returns the names of the users with a password hash of the shipped
// config.yaml, shared credentials first. It does not recognize another hash of
// the same password.
func (c *Config) DemoUsers() []string {
	var names []string
	for _, u := range c.Basic.Users {
		if slices.Contains(demoHashes, u.PasswordHash) {
			names = append(names, u.Username)
		}
	}
	for _, u := range c.Accounts.Users {
		if slices.Contains(demoHashes, u.PasswordHash) {
			names = append(names, u.Username)
		}
	}
	return names
}

// DemoClients returns the identifiers of the OAuth clients with the secret of the
// shipped provider.yaml.
func (c *Config) DemoClients() []string {
	var ids []string
	for i := range c.OAuth.Clients {
		if client := &c.OAuth.Clients[i]; slices.Contains(client.AllSecrets(), demoClientHash) {
			ids = append(ids, client.ID)
		}
	}
	return ids
}

// demo refuses passwords and secrets of the demonstration if the gateway has a public
// certificate.
func (k *checker) demo() {
	c, r := k.cfg, k.report
	if c.TLS.Mode != listening.TLSACME {
		return
	}
	const message = "the password of %s is the public one of the demonstration, which tls.mode acme refuses; " +
		"make a hash of your own with `authgate hash-password`"
	check := func(at accounts.Place, name string, hash Secret) {
		if slices.Contains(demoHashes, hash) {
			at.FaultHash(message, name)
		}
	}
	for i, u := range c.Basic.Users {
		check(k.places.basic[i], u.Username, u.PasswordHash)
	}
	for i, u := range c.Accounts.Users {
		check(k.places.accounts[i], u.Username, u.PasswordHash)
	}
	for i := range c.OAuth.Clients {
		if slices.Contains(c.OAuth.Clients[i].AllSecrets(), demoClientHash) {
			r.Fault(fmt.Sprintf("oauth.clients[%d]", i),
				"its secret is the public one of the demonstration, which tls.mode "+
					"acme refuses; make one with `openssl rand -base64 32`")
		}
	}
}
