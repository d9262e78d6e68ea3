package login

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
)

// The issuer that a token names verifies it, cold and warm. The gateway's own tokens are
// not shown to others.
func TestIssuerSelectsTheVerifier(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	own, outside, opaque := o.signIn(t, "alice"), jwtOf(o.plain.issuer), "opaque"
	o.plain.knows(outside, o.access("one"))
	o.asked.knows(opaque, o.access("two"))
	for range 3 {
		for token, subject := range map[string]string{own.access: "local:alice", outside: "plain:7", opaque: "asked:7"} {
			if id, err := o.by(t, token); err != nil || id.Subject != subject {
				t.Errorf("got %+v, %v, want %s", id, err, subject)
			}
		}
	}
	if o.bearer.verified.Contains(outside) || o.bearer.verified.Contains(opaque) || o.trusted.verified.Contains(own.access) {
		t.Error("one of the two remembers a token of the other")
	}
	if o.plain.questions() != 1 || o.asked.questions() != 1 {
		t.Errorf("asked %d and %d times, want once each", o.plain.questions(), o.asked.questions())
	}
	// The gateway also decides about its own tokens that are not valid.
	changed := own.access[:len(own.access)-4] + "AAAA"
	wantRejected(t, auth.DetailBadToken, "signature is invalid")(o.by(t, changed))
	must(o.logins.End(t.Context(), own.login.ID))(t)
	wantRejected(t, auth.DetailBadToken, "its login has ended")(o.by(t, own.access))
	if o.plain.questions() != 1 || o.asked.questions() != 1 {
		t.Error("an outside issuer was shown a token of the gateway")
	}
}

// Without trusted issuers the gateway decides about all tokens.
func TestBearerTokensWithoutTrustedIssuers(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	s, bearers := m.signIn(t, "alice"), NewBearerTokens(m.bearer, nil)
	if id, err := bearers.Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: s.access}); err != nil || id.Username != "alice" {
		t.Errorf("got %+v, %v", id, err)
	}
	for _, token := range []string{"", "opaque", jwtOf("https://plain.example")} {
		wantRejected(t, auth.DetailBadToken, "")(bearers.Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: token}))
	}
	o := newIssuers(t, nil)
	o.plain.answers(func(context.Context, string) (*provider.AccessToken, error) {
		access := o.access("one")
		return &access, nil
	})
	trusted := must(NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: o.plain}}, o.logins, o.clock.Now))(t)
	for _, token := range []string{"opaque", "a.b", "a.b.c.d.e", "", "."} { // no issuer is asked about opaque tokens
		wantRejected(t, auth.DetailBadToken, "access token: ")(NewBearerTokens(o.bearer, trusted).Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: token}))
	}
	if n := o.plain.questions(); n != 0 {
		t.Errorf("the issuer was asked %d times", n)
	}
}

// Only the Authorization header can hold a token of a trusted issuer.
func TestCookiesCarryNoTrustedToken(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	token := jwtOf(o.plain.issuer)
	o.plain.knows(token, o.access("one"))
	o.asked.knows("opaque", o.access("two"))
	for _, warm := range []bool{false, true} {
		for _, creds := range []*auth.Credentials{{Access: token}, {Access: "opaque"}, {Scheme: "digest", Value: token, Access: token}} {
			id, err := o.bearers.Authenticate(t.Context(), creds)
			wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)
		}
		if !warm && o.plain.questions()+o.asked.questions() != 0 {
			t.Error("an outside issuer was asked")
		}
		for _, token := range []string{token, "opaque"} {
			must(o.by(t, token))(t)
		}
	}
}

func TestTokensOfUnknownIssuers(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	for name, token := range map[string]string{
		"unknown issuer":    jwtOf("https://attacker.example"),
		"no issuer":         encode(`{"alg":"ES256"}`) + "." + encode(`{"sub":"7"}`) + ".x",
		"empty issuer":      jwtOf(""),
		"number":            encode(`{}`) + "." + encode(`{"iss":7}`) + ".x",
		"list":              encode(`{}`) + "." + encode(`{"iss":["`+o.plain.issuer+`"]}`) + ".x",
		"null":              encode(`{}`) + "." + encode(`null`) + ".x",
		"longer":            jwtOf(o.plain.issuer + "/"),
		"other case":        jwtOf(strings.ToUpper(o.plain.issuer)),
		"payload no base64": "a.!.c",
		"payload no JSON":   "a." + encode("x") + ".c",
		"dots":              "..",
		"too long":          jwtOf(o.plain.issuer + strings.Repeat("x", maxTokenBytes)),
	} {
		t.Run(name, func(t *testing.T) {
			wantRejected(t, auth.DetailBadToken, "access token: ")(o.by(t, token))
			wantRejected(t, auth.DetailBadToken, "access token: ")(o.bearers.Revoke(t.Context(), token))
		})
	}
	if o.plain.questions()+o.asked.questions() != 0 {
		t.Errorf("somebody was asked: %+v, %+v", o.plain, o.asked)
	}
}

// Signing out with a token of a trusted issuer revokes it on all instances until it
// expires.
func TestTrustedRevocation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, jti string
		opaque    bool
		unknown   bool // its expiry
		kept      time.Duration
	}{
		{name: "JWT", jti: "one", kept: time.Hour},
		{name: "JWT without jti", kept: time.Hour},
		{name: "opaque", jti: "one", opaque: true, kept: time.Hour},
		{name: "opaque without jti", opaque: true, kept: time.Hour},
		{name: "opaque without end", opaque: true, unknown: true, kept: 30 * 24 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			o := newIssuers(t, nil)
			elsewhere := o.instance(t)
			issuer, token, another := o.plain, jwtOf(o.plain.issuer), jwtOf(o.plain.issuer)
			if test.opaque {
				issuer, token, another = o.asked, "of.one", "of.another"
			}
			issuer.answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
				access := o.access(test.jti)
				if raw == another && test.jti != "" {
					access.ID = "another"
				}
				if test.unknown {
					access.Expires = time.Time{}
				}
				return &access, nil
			})
			for _, each := range []*issuers{o, elsewhere} {
				must(each.by(t, token))(t)
			}
			id, err := o.bearers.Revoke(t.Context(), token)
			if err != nil || id.Subject != map[bool]string{false: "plain:7", true: "asked:7"}[test.opaque] {
				t.Fatalf("got %+v, %v, want who signed out", id, err)
			}
			for _, each := range []*issuers{o, elsewhere, o.instance(t)} {
				wantRejected(t, auth.DetailBadToken, "revoked")(each.by(t, token))
				wantRejected(t, auth.DetailBadToken, "revoked")(each.bearers.Revoke(t.Context(), token))
				must(each.by(t, another))(t)
			}
			o.clock.Advance(test.kept - 1)
			if n := o.revocations(t); n != 1 {
				t.Errorf("%d revocations before the token's end, want one", n)
			}
			o.clock.Advance(1)
			if n := o.revocations(t); n != 0 {
				t.Errorf("%d revocations at the token's end", n)
			}
		})
	}
}

func (o *issuers) revocations(tb testing.TB) int {
	tb.Helper()
	return (&delegation{store: o.store}).records(tb, revokedPrefix)
}

// Tokens of two issuers can have the same jti.
func TestRevocationsOfIssuersAreApart(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	s := o.signIn(t, "alice")
	own := o.forge(t, s).with(map[string]any{"jti": "one"}).token()
	token := jwtOf(o.plain.issuer)
	o.plain.knows(token, o.access("one"))
	o.asked.knows("opaque", o.access("one"))
	must(o.bearers.Revoke(t.Context(), token))(t)
	for _, good := range []string{own, "opaque"} {
		must(o.by(t, good))(t)
	}
	must(o.bearers.Revoke(t.Context(), own))(t)
	must(o.by(t, "opaque"))(t)
	o.wantDead(t, s)
}

// A revoked token stays revoked in every spelling. Without any key, a client can change
// an ECDSA signature (r, s) into (r, -s), which is valid too.
func TestRevokedTokenSpelledAnew(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	o.plain.answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
		_, err := jwt.Parse(raw, func(*jwt.Token) (any, error) { return key.Public(), nil }, jwt.WithValidMethods([]string{"ES256"}), jwt.WithStrictDecoding())
		if err != nil {
			return nil, providerFails(provider.ErrInvalid)
		}
		access := o.access("")
		return &access, nil
	})
	token := must(jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": o.plain.issuer, "sub": "7"}).SignedString(key))(t)
	input, signature := token[:strings.LastIndex(token, ".")+1], []byte(decoded(t, token[strings.LastIndex(token, ".")+1:]))
	s := new(big.Int).SetBytes(signature[32:])
	s.Sub(elliptic.P256().Params().N, s).FillBytes(signature[32:])
	anew := input + base64.RawURLEncoding.EncodeToString(signature)
	for _, spelling := range []string{token, anew} {
		must(o.by(t, spelling))(t)
	}
	must(o.bearers.Revoke(t.Context(), token))(t)
	for _, spelling := range []string{token, anew} {
		wantRejected(t, auth.DetailBadToken, "revoked")(o.by(t, spelling))
	}
}

// BearerTokens accept exactly the tokens that AccessTokens or TrustedTokens accept alone,
// with the same identity.
func FuzzBearerTokens(f *testing.F) {
	alone, both := newIssuers(f, nil), newIssuers(f, nil)
	both.store = alone.store
	both = both.instance(f)
	outsideKey := []byte("the outside issuer's secret, which only the tests know")
	for _, o := range []*issuers{alone, both} {
		o.plain.answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
			parsed, err := jwt.Parse(raw, func(*jwt.Token) (any, error) { return outsideKey, nil },
				jwt.WithValidMethods([]string{"HS256"}), jwt.WithIssuer(o.plain.issuer), jwt.WithStrictDecoding(), jwt.WithTimeFunc(o.clock.Now))
			if err != nil {
				return nil, providerFails(provider.ErrInvalid)
			}
			access := o.access("")
			access.Profile.Subject, _ = parsed.Claims.GetSubject()
			return &access, nil
		})
		o.asked.knows("opaque", o.access("two"))
	}
	s := alone.signIn(f, "alice")
	own := alone.forge(f, s)
	outside := &forger{header: map[string]any{"alg": "HS256"}, claims: map[string]any{"iss": alone.plain.issuer, "sub": "7"}, sign: signHS256(outsideKey)}
	forgers := []*forger{own, outside, {sign: signHS256([]byte("a key of nobody, as long as the others are"))}}
	for i, forger := range forgers {
		for _, token := range []string{own.token(), outside.token(), own.with(map[string]any{"iss": alone.plain.issuer}).token(), outside.with(map[string]any{"iss": testIssuer}).token()} {
			part := strings.Split(token, ".")
			f.Add(byte(i), decoded(f, part[0]), decoded(f, part[1]), token)
			f.Add(byte(i), decoded(f, part[0]), strings.Replace(decoded(f, part[1]), "{", `{"ISS":"`+testIssuer+`","iss":"x",`, 1), forger.raw("{}", "{}"))
		}
	}
	for _, raw := range []string{"", "opaque", "opaque ", ".opaque", "opaque.", "..", "a.b", "\x00", "a.b.c.d.e", strings.Repeat("x", maxTokenBytes+1)} {
		f.Add(byte(0), "{}", "{}", raw)
	}
	f.Fuzz(func(t *testing.T, by byte, header, claims, raw string) {
		for _, token := range []string{forgers[int(by)%len(forgers)].raw(header, claims), raw} {
			for range 2 { // cold and warm
				got, err := both.by(t, token)
				if (got == nil) == (err == nil) {
					t.Fatalf("%q: got %+v and %v", token, got, err)
				}
				byOwn, errOwn := alone.byToken(t, token)
				byOutside, errOutside := alone.trusted.verify(t.Context(), token)
				switch {
				case got == nil && !errors.Is(err, auth.ErrRejected):
					t.Errorf("%q: got %v, want a decision", token, err)
				case got == nil:
				case errOwn == nil:
					if diff := cmp.Diff(byOwn, got); diff != "" || got.Provider != "local" {
						t.Errorf("%q is accepted as somebody else (-alone +both):\n%s", token, diff)
					}
				case errOutside == nil:
					if diff := cmp.Diff(byOutside.identity, got); diff != "" || got.Provider == "local" {
						t.Errorf("%q is accepted as somebody else (-alone +both):\n%s", token, diff)
					}
				default:
					t.Errorf("%q is accepted by both together alone: %+v", token, got)
				}
			}
		}
	})
}
