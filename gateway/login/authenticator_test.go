package login

import (
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/clocktest"
)

// The first mechanism that finds its credential decides, also in Alive. A store that fails
// stops the chain.
func TestChain(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s, other := m.signIn(t, "alice"), m.signIn(t, "bob")
	clock := clocktest.New()
	verifier := auth.NewVerifier(auth.NewHasher(1), auth.NewThrottle(1000, time.Minute, clock.Now), 10, time.Minute, clock.Now)
	basic := auth.NewBasic("authgate", newTestAccounts(t, auth.Account{Username: "service", PasswordHash: testHash("s3rvice")}), verifier)
	chain := auth.Chain{basic, NewBearerTokens(m.bearer, nil), m.session}
	for _, test := range []struct {
		name  string
		creds auth.Credentials
		want  string // user name; "" when refused
		err   error
	}{
		{"basic", auth.Credentials{Scheme: "basic", Value: basicValue("service:s3rvice")}, "service", nil},
		{"basic before cookies", auth.Credentials{Scheme: "basic", Value: basicValue("service:s3rvice"), Access: s.access, Session: s.session}, "service", nil},
		{"token", auth.Credentials{Scheme: "bearer", Value: s.access}, "alice", nil},
		{"token before cookies", auth.Credentials{Scheme: "bearer", Value: s.access, Access: other.access, Session: other.session}, "alice", nil},
		{"access cookie", auth.Credentials{Access: other.access}, "bob", nil},
		{"session", auth.Credentials{Session: other.session}, "bob", nil},
		{"session beside what is the application's", auth.Credentials{Scheme: "digest", Value: "x", Session: s.session}, "alice", nil},
		{"nothing", auth.Credentials{}, "", auth.ErrNoCredentials},
		{"another scheme", auth.Credentials{Scheme: "negotiate", Value: "x"}, "", auth.ErrNoCredentials},
		{"bad basic beside good cookies", auth.Credentials{Scheme: "basic", Value: basicValue("service:wrong"), Access: s.access, Session: s.session}, "", auth.ErrRejected},
		{"malformed basic beside a good session", auth.Credentials{Scheme: "basic", Value: "?", Session: s.session}, "", auth.ErrRejected},
		{"bad token beside a good session", auth.Credentials{Scheme: "bearer", Value: "x", Session: s.session}, "", auth.ErrRejected},
		{"empty token beside a good session", auth.Credentials{Scheme: "bearer", Session: s.session}, "", auth.ErrRejected},
		{"bad access cookie beside a good session", auth.Credentials{Access: "x", Session: s.session}, "", auth.ErrRejected},
		{"empty token beside a good access cookie", auth.Credentials{Scheme: "bearer", Access: s.access}, "", auth.ErrRejected},
		{"bad token beside a good access cookie", auth.Credentials{Scheme: "bearer", Value: "x", Access: s.access}, "", auth.ErrRejected},
	} {
		id, err := chain.Authenticate(t.Context(), &test.creds)
		if !errors.Is(err, test.err) || (id != nil) != (test.want != "") || id != nil && id.Username != test.want {
			t.Errorf("%s: got %+v, %v, want %q, %v", test.name, id, err, test.want, test.err)
		}
		if again, err := chain.Alive(t.Context(), &test.creds); again != id || !errors.Is(err, test.err) {
			t.Errorf("%s: Alive got %+v, %v, want %+v, %v", test.name, again, err, id, test.err)
		}
	}
	m.store.fails("get revoked:")
	wantNoAnswer(t)(chain.Authenticate(t.Context(), &auth.Credentials{Access: s.access, Session: s.session}))
	m.store.fails("")
	m.clock.Advance(15 * time.Minute)
	wantRejected(t, auth.DetailBadToken, "expired")(chain.Alive(t.Context(), &auth.Credentials{Scheme: "bearer", Value: s.access, Session: s.session}))
	if id, err := (auth.Chain{}).Authenticate(t.Context(), &auth.Credentials{Session: s.session}); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("no mechanism: got %+v, %v", id, err)
	}
	want := []auth.Challenge{`Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`}
	if got := chain.Challenges(&auth.Credentials{}); !slices.Equal(got, want) {
		t.Errorf("the challenges are %q, want %q", got, want)
	}
	want[1] = `Bearer realm="authgate", error="invalid_token"`
	if got := chain.Challenges(&auth.Credentials{Scheme: "bearer"}); !slices.Equal(got, want) {
		t.Errorf("the challenges after a token are %q, want %q", got, want)
	}
}

func basicValue(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
