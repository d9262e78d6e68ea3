package chain

import (
	"errors"
	"net/http"
	"testing"

	"authgate/gateway/auth"
)

// The zero Chain accepts no credentials, wherever they come.
func TestZeroChain(t *testing.T) {
	t.Parallel()
	var none Chain
	h := http.Header{"Proxy-Authorization": {"Bearer x"}, "Authorization": {"Bearer y"}}
	creds := auth.Authorization("Bearer y")
	creds.Token = "z"
	if err := none.Take(&creds, h); err != nil || creds.Token != "" || creds.Apart || creds.Value != "y" {
		t.Errorf("it takes %+v, %v", creds, err)
	}
	if id, err := none.Asked(&creds).Authenticate(t.Context(), &creds); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("it finds %v, %v", id, err)
	}
	if none.TriesPassword(&creds) || none.Metadata(&creds) != "" || len(none.Challenges(&creds)) > 0 {
		t.Errorf("it asks for credentials: %v", none.Challenges(&creds))
	}
}
