package chain

import (
	"errors"
	"net/http"
	"testing"

	"authgate/gateway/identity/auth"
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
	id, err := none.For(&creds).Authenticate(t.Context(), &creds)
	if id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("it finds %v, %v", id, err)
	}
	if none.TriesPassword(&creds) || none.Metadata(&creds) != "" || len(none.Challenges(&creds)) > 0 {
		t.Errorf("it asks for credentials: %v", none.Challenges(&creds))
	}
}

// A password is tried where a route accepts Basic, and an API token in its place is none.
func TestTriesPassword(t *testing.T) {
	t.Parallel()
	password, token := auth.Authorization("Basic YTpi"), auth.Authorization("Basic YTphZ3RfYg==") // a:b, a:agt_b
	bearer := auth.Authorization("Bearer YTpi")
	accepts, other := Chain{basic: true}, Chain{bearer: true}
	if !accepts.TriesPassword(&password) || accepts.TriesPassword(&token) || accepts.TriesPassword(&bearer) ||
		other.TriesPassword(&password) {
		t.Error("what is no password is one, or the other way round")
	}
}

// A 401 asks for what may come apart, also if nothing came.
func TestChallengesApart(t *testing.T) {
	t.Parallel()
	c := Chain{apart: auth.Chain{auth.NewBasic("here", nil, nil)}}
	if got := c.Challenges(&auth.Credentials{}); len(got) != 1 || got[0] != auth.BasicChallenge("here") {
		t.Errorf("it asks for %q", got)
	}
}
