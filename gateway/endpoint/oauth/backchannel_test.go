package oauth

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/gateway/config"
	"authgate/internal/test/must"
)

// A client whose certificate is of a private authority is told with its trusted_roots alone.
func TestBackchannelRoots(t *testing.T) {
	t.Parallel()
	var told []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told = append(told, r.FormValue("logout_token"))
	}))
	t.Cleanup(server.Close)
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	clients := []config.OAuthClient{
		{ID: "public", BackchannelLogoutURI: server.URL},
		{ID: "private", BackchannelLogoutURI: server.URL, TrustedRoots: "roots.pem", TrustedRootsContent: root},
	}
	b := must.Get(newBackchannel(clients))(t)
	for i := range clients {
		c := &clients[i]
		if _, err := b.send(t.Context(), c, "for "+c.ID); (err == nil) != (c.ID == "private") {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
	if len(told) != 1 || told[0] != "for private" {
		t.Errorf("told: %q", told)
	}
}
