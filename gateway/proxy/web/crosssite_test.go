package web

import (
	"path/filepath"
	"testing"

	"authgate/gateway/config"
	"authgate/gateway/proxy/places"
)

// Without the key of its tokens there is no protection, rather than one that demands none.
func TestCrossSiteWithoutKey(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{DataDir: filepath.Join(t.TempDir(), "missing")}
	cfg.Session.CSRFToken = true
	if c, err := NewCrossSite(&Site{Places: &places.Places{PublicURL: "https://gw.example.org"}}, cfg); c != nil ||
		err == nil {
		t.Errorf("got %v, %v", c, err)
	}
}
