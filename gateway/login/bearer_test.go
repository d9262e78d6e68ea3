package login

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/provider/providertest"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
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
		r.trusted.verified.Get(own.access) != nil {
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
	plain := must.Get(NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: r.plain}}, r.logins, r.now))(t)
	for _, trusted := range []*TrustedTokens{nil, plain} {
		r.bearers = NewBearerTokens(r.bearer, trusted)
		if id, err := r.byBearer(t, s.access); err != nil || id.Username != "alice" {
			t.Errorf("got %+v, %v, want alice", id, err)
		}
		for _, token := range []string{"", ".", "opaque", "a.b", "a.b.c.d.e", providertest.JWT("https://other.example")} {
			wantRejected(t, auth.DetailBadToken, "access token: ")(r.byBearer(t, token))
		}
	}
	r.wantIssuersAsked(t, 0, 0)
}

// No issuer is asked about a token that names another one, that is too long, or that is a
// refresh token of the gateway.
func TestTokensOfUnknownIssuers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := providertest.JWT(r.plain.Identifier)
	long += strings.Repeat("x", maxTokenBytes-len(long))
	for _, token := range []string{
		providertest.JWT("https://attacker.example"), providertest.JWT(""), providertest.JWT(r.plain.Identifier + "/"), providertest.JWT(strings.ToUpper(r.plain.Identifier)),
		encode(`{"alg":"ES256"}`) + "." + encode(`{"sub":"7"}`) + ".x",
		encode(`{}`) + "." + encode(`{"iss":7}`) + ".x",
		encode(`{}`) + "." + encode(`{"iss":["`+r.plain.Identifier+`"]}`) + ".x",
		encode(`{}`) + "." + encode(`null`) + ".x",
		"a.!.c", "a." + encode("x") + ".c", "..",
		long + "x", strings.Repeat("x", maxTokenBytes+1), r.signIn(t, "alice").refresh,
	} {
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.byBearer(t, token))
		wantRejected(t, auth.DetailBadToken, "access token: ")(r.bearers.Revoke(t.Context(), token))
	}
	r.wantIssuersAsked(t, 0, 0)
	r.plain.Knows(long, r.access("one"))
	must.Get(r.byBearer(t, long))(t)
}

// Signing out with a token of a trusted issuer revokes it on all instances until it
// expires. Tokens of other issuers may have the same jti. A JWT stays revoked with another
// signature: without any key, a client can change an ECDSA signature (r, s) into (r, -s).
func TestTrustedRevocation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, jti       string
		opaque, endless bool
		kept            time.Duration
	}{
		{"JWT", "one", false, false, time.Hour},
		{"JWT without jti", "", false, false, time.Hour},
		{"opaque", "one", true, false, time.Hour},
		{"opaque without jti", "", true, false, time.Hour},
		{"opaque without end", "", true, true, 30 * 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			elsewhere, own := r.instance(t), r.forge(t, r.signIn(t, "alice")).with(map[string]any{"jti": "one"}).token()
			issuer, subject, token, another := r.plain, "plain:7", providertest.JWT(r.plain.Identifier), providertest.JWT(r.plain.Identifier)
			anew, others := unsigned(token, encode("another signature")), "opaque"
			r.asked.Knows(others, r.access("one"))
			if test.opaque {
				issuer, subject, token, another, anew, others = r.asked, "asked:7", "of.one", "of.another", "of.one", providertest.JWT(r.plain.Identifier)
				r.plain.Knows(others, r.access("one"))
			}
			issuer.Answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
				access := r.access(test.jti)
				if raw == another && test.jti != "" {
					access.ID = "another"
				}
				if test.endless {
					access.Expires = time.Time{}
				}
				return &access, nil
			})
			for _, each := range []*rig{r, elsewhere} {
				must.Get(each.byBearer(t, anew))(t)
			}
			if id, err := r.bearers.Revoke(t.Context(), token); err != nil || id.Subject != subject {
				t.Fatalf("got %+v, %v, want who signed out", id, err)
			}
			for _, each := range []*rig{r, elsewhere, r.instance(t)} {
				wantRejected(t, auth.DetailBadToken, "revoked")(each.byBearer(t, token))
				wantRejected(t, auth.DetailBadToken, "revoked")(each.bearers.Revoke(t.Context(), anew))
				for _, good := range []string{another, others, own} {
					must.Get(each.byBearer(t, good))(t)
				}
			}
			r.clock.Advance(test.kept - 1)
			r.wantRecords(t, revokedPrefix, 1)
			r.clock.Advance(1)
			r.wantRecords(t, revokedPrefix, 0)
		})
	}
}

// The store's clock differs from the local one. A revocation expires by the store's
// clock, and the token must not be valid longer.
func TestRevocationOutlivesToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	local := clocktest.At(r.now().Add(-time.Minute)) // the store is a minute ahead
	r.trusted.now = local.Now
	r.asked.Knows("opaque", r.access("one"))
	must.Get(r.byBearer(t, "opaque"))(t)
	must.Get(r.trusted.revoke(t.Context(), "opaque"))(t)
	for range 4 * 61 { // until the token ends by either clock
		if id, err := r.byBearer(t, "opaque"); !errors.Is(err, auth.ErrRejected) {
			t.Fatalf("at %v by the local clock: %+v, %v", local.Now(), id, err)
		}
		r.clock.Advance(15 * time.Second)
		local.Advance(15 * time.Second)
	}
}

// BearerTokens accept exactly the tokens that AccessTokens or TrustedTokens accept alone,
// with the same identity.
func FuzzBearerTokens(f *testing.F) {
	alone := newRig(f)
	both := alone.instance(f)
	outsideKey := []byte("the outside issuer's secret, which only the tests know")
	alone.plain.Answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
		parsed, err := jwt.Parse(raw, func(*jwt.Token) (any, error) { return outsideKey, nil },
			jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer(alone.plain.Identifier), jwt.WithStrictDecoding(), jwt.WithTimeFunc(alone.now))
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
				if known, errOutside := alone.trusted.verify(t.Context(), token); errOwn != nil && errOutside == nil {
					want = known.identity
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
