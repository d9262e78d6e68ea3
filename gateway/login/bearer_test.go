package login

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/identity/trusted"
	"authgate/internal/test/providertest"
)

// wantIssuersAsked fails the test unless plain and asked were asked about that many tokens.
func (r *rig) wantIssuersAsked(tb testing.TB, plain, asked int) {
	tb.Helper()
	if p, a := len(r.plain.Questions()), len(r.asked.Questions()); p != plain || a != asked {
		tb.Errorf("the issuers were asked %d and %d times, want %d and %d", p, a, plain, asked)
	}
}

// The issuer that a token names verifies it, cold and warm. The gateway's own tokens are
// not shown to others. Only the Authorization header can hold a token of another issuer.
func TestIssuerSelectsTheVerifier(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	own, outside := r.signIn(t, "alice"), providertest.JWT(r.plain.Identifier)
	r.plain.Knows(outside, r.access("one"))
	r.asked.Knows("opaque", r.access("two"))
	wantNoneInCookies := func() {
		t.Helper()
		for _, creds := range []*auth.Credentials{{Access: outside}, {Access: "opaque"},
			{Scheme: "digest", Value: outside, Access: outside}} {
			wantRejected(t, auth.DetailBadToken, "access token: ")(r.bearers.Authenticate(t.Context(), creds))
		}
	}
	wantNoneInCookies()
	r.wantIssuersAsked(t, 0, 0)
	for range 3 {
		for token, subject := range map[string]string{own.access: "local:alice", outside: "plain:7", "opaque": "asked:7"} {
			if id, err := r.byBearer(t, token); err != nil || id.Subject != subject {
				t.Errorf("got %+v, %v, want %s", id, err, subject)
			}
		}
	}
	wantNoneInCookies()
	if r.bearer.verified.Get(outside) != nil || r.bearer.verified.Get("opaque") != nil ||
		r.trusted.Accepts(own.access, isRefresh) {
		t.Error("one of the two remembers a token of the other")
	}
	// The gateway also decides about its own tokens that are not valid.
	wantRejected(t, auth.DetailBadToken, "signature is invalid")(r.byBearer(t, own.access[:len(own.access)-4]+"AAAA"))
	r.end(t, own)
	wantRejected(t, auth.DetailBadToken, "its login has ended")(r.byBearer(t, own.access))
	r.wantIssuersAsked(t, 1, 1)
}

// Without an issuer of opaque tokens, or without any trusted issuer, no issuer is asked.
func TestBearerTokensWithoutTrustedIssuers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.plain.Answers(func(context.Context, string) (*provider.AccessToken, error) {
		access := r.access("one")
		return &access, nil
	})
	plain := trusted.New([]trusted.Issuer{{Name: "plain", Verifier: r.plain}}, r.store, r.now, r.now)
	for _, others := range []*trusted.Tokens{nil, plain} {
		r.bearers = NewBearerTokens(r.bearer, others)
		if id, err := r.byBearer(t, s.access); err != nil || id.Username != "alice" {
			t.Errorf("got %+v, %v, want alice", id, err)
		}
		for _, token := range []string{"", ".", "opaque", "a.b", "a.b.c.d.e", providertest.JWT("https://other.example")} {
			wantRejected(t, auth.DetailBadToken, "access token: ")(r.byBearer(t, token))
		}
	}
	r.wantIssuersAsked(t, 0, 0)
}

// No issuer is asked about a token that names another one, or that is a refresh token of the
// gateway.
func TestTokensOfUnknownIssuers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, token := range []string{providertest.JWT("https://attacker.example"), r.signIn(t, "alice").refresh} {
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byBearer(t, token))
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.bearers.Revoke(t.Context(), token))
	}
	r.wantIssuersAsked(t, 0, 0)
}

// BearerTokens accept exactly the tokens that AccessTokens or trusted.Tokens accept alone,
// with the same identity.
func FuzzBearerTokens(f *testing.F) {
	alone := newRig(f)
	both := alone.instance(f)
	outsideKey := []byte("the outside issuer's secret, which only the tests know")
	alone.plain.Answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
		parsed, err := jwt.Parse(raw, func(*jwt.Token) (any, error) { return outsideKey, nil },
			jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer(alone.plain.Identifier),
			jwt.WithStrictDecoding(), jwt.WithTimeFunc(alone.now))
		if err != nil {
			return nil, providertest.Fails(provider.ErrInvalid)
		}
		access := alone.access("")
		access.Profile.Subject, _ = parsed.Claims.GetSubject()
		return &access, nil
	})
	alone.asked.Knows("opaque", alone.access("two"))
	own := alone.forge(f, alone.signIn(f, "alice"))
	outside := &forger{header: map[string]any{"alg": "HS256"},
		claims: map[string]any{"iss": alone.plain.Identifier, "sub": "7"}, sign: signHS256(outsideKey)}
	forgers := []*forger{own, outside, {sign: signHS256([]byte("a key of no issuer, as long as the others are"))}}
	for i, signer := range forgers {
		for _, each := range []*forger{own, outside, own.with(map[string]any{"iss": alone.plain.Identifier}),
			outside.with(map[string]any{"iss": testIssuer})} {
			token := each.token()
			part := strings.Split(token, ".")
			f.Add(byte(i), decoded(f, part[0]), decoded(f, part[1]), token)
			f.Add(byte(i), decoded(f, part[0]), strings.Replace(decoded(f, part[1]), "{", `{"ISS":"`+testIssuer+`","iss":"x",`,
				1), signer.raw("{}", "{}"))
		}
	}
	for _, raw := range []string{"", "opaque", "opaque ", ".opaque", "opaque.", "..", "a.b", "\x00", "a.b.c.d.e",
		strings.Repeat("x", maxTokenBytes+1)} {
		f.Add(byte(0), "{}", "{}", raw)
	}
	f.Fuzz(func(t *testing.T, by byte, header, claims, raw string) {
		for _, token := range []string{forgers[int(by)%len(forgers)].raw(header, claims), raw} {
			for range 2 { // cold and warm
				got, err := both.byBearer(t, token)
				if (got == nil) == (err == nil) {
					t.Fatalf("%q: got %+v and %v", token, got, err)
				}
				want, errOwn := alone.byToken(t, token)
				if errOwn == nil && !both.bearers.ContainsOwn("Token "+token, nothing) {
					t.Errorf("%q is accepted, and not recognized in another spelling", token)
				}
				if theirs, errOutside := alone.trusted.Authenticate(t.Context(), token); errOwn != nil && errOutside == nil {
					want = theirs
				}
				switch {
				case got == nil && !errors.Is(err, auth.ErrRejected):
					t.Errorf("%q: got %v, want a decision", token, err)
				case got != nil && want == nil:
					t.Errorf("%q is accepted by both together alone: %+v", token, got)
				case got != nil && (!cmp.Equal(want, got) || (errOwn == nil) != (got.Provider == "local")):
					t.Errorf("%q is accepted as somebody else (-alone +both):\n%s", token, cmp.Diff(want, got))
				}
			}
		}
	})
}
