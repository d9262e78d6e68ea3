package oauth

import (
	"testing"

	"authgate/e2e/world"
)

// TestOpenIDClient: openid-client signs users in, and calls the API for them. It knows
// the issuer, and its own name, alone. Clients of each kind are in testdata/openid-client.mjs.
func TestOpenIDClient(t *testing.T) {
	t.Parallel()
	s := prepare(t, "  metadata_clients: {hosts: [localhost], trusted_roots: roots.pem}\n")
	d := serveDocument(t, s.Instance, "private_key_jwt")
	s.Run()
	for _, story := range []string{"confidential", "public", "registered", "document", "credentials", "device", "ending"} {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			port := world.FreePort(t)
			if story == "ending" {
				port = s.port
			}
			node(t, s.Instance, "openid-client.mjs", story, s.Base, port, shopSecret, d.key, d.address)
			user, roles := "alice", "user,admin"
			if story == "credentials" {
				user, roles = "client:shop", "machine"
			}
			s.wantUpstream(t, "/api/"+story, user, roles)
		})
	}
}

// TestOAuth4WebAPI: oauth4webapi, which is strict, takes each answer of the gateway.
func TestOAuth4WebAPI(t *testing.T) {
	t.Parallel()
	s := start(t, "token: {algorithm: RS256}\n")
	node(t, s.Instance, "oauth4webapi.mjs", "strict", s.Base, world.FreePort(t), shopSecret)
	s.wantUpstream(t, "/api/strict", "alice", "user,admin")
}
