package signin_test

import (
	"testing"

	"authgate/internal/test/rig"
)

// A script of any origin can read the public keys, because it verifies tokens with them, and its
// preflight is answered as that of discovery is.
func TestPublicKeysForAnyOrigin(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	const script = "Origin: https://spa.example.net"
	if w := r.Want(200, "GET", "/.well-known/jwks.json", "", script); w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the keys come with %v", w.Header())
	}
	h := r.Want(204, "OPTIONS", "/.well-known/jwks.json", "", script, "Access-Control-Request-Method: GET",
		"Access-Control-Request-Headers: authorization").Header()
	if h.Get("Access-Control-Allow-Origin") != "*" ||
		h.Get("Access-Control-Allow-Headers") != "Authorization, Content-Type, MCP-Protocol-Version" {
		t.Errorf("the preflight is answered with %v", h)
	}
}
