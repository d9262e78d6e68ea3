package login

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/policy"
)

// outsiders are the mechanism of all bearer tokens, with two outside issuers:
// plain, and one that is asked about opaque tokens.
type outsiders struct {
	*mechanisms
	plain, asked *testIssuerOfTokens
	outside      *TrustedTokens
	bearers      *BearerTokens
}

// testIssuerOfTokens is an outside issuer that tests speak for. It knows no
// token until a test says so.
type testIssuerOfTokens struct {
	issuer string

	mu                     sync.Mutex
	verified, introspected []string // what it was asked, in order
	answer                 func(context.Context, string) (*provider.AccessToken, error)
}

func (i *testIssuerOfTokens) Issuer() string { return i.issuer }

func (i *testIssuerOfTokens) Verify(ctx context.Context, raw string) (*provider.AccessToken, error) {
	return i.judge(ctx, &i.verified, raw)
}

func (i *testIssuerOfTokens) Introspect(ctx context.Context, raw string) (*provider.AccessToken, error) {
	return i.judge(ctx, &i.introspected, raw)
}

func (i *testIssuerOfTokens) judge(ctx context.Context, asked *[]string, raw string) (*provider.AccessToken, error) {
	i.mu.Lock()
	*asked = append(*asked, raw)
	answer := i.answer
	i.mu.Unlock()
	if answer == nil {
		return nil, providerFails(provider.ErrInvalid)
	}
	return answer(ctx, raw)
}

func (i *testIssuerOfTokens) answers(answer func(context.Context, string) (*provider.AccessToken, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// knows lets the issuer find one token good.
func (i *testIssuerOfTokens) knows(token string, access provider.AccessToken) {
	i.answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
		if raw != token {
			return nil, providerFails(provider.ErrInvalid)
		}
		return &access, nil
	})
}

// fails lets the issuer fail.
func (i *testIssuerOfTokens) fails(kind error) {
	i.answers(func(context.Context, string) (*provider.AccessToken, error) { return nil, providerFails(kind) })
}

// questions is how often the issuer was asked.
func (i *testIssuerOfTokens) questions() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.verified) + len(i.introspected)
}

func newOutsiders(tb testing.TB, change func(*mechanisms)) *outsiders {
	tb.Helper()
	o := &outsiders{
		mechanisms: newMechanisms(tb, change),
		plain:      &testIssuerOfTokens{issuer: "https://plain.example"},
		asked:      &testIssuerOfTokens{issuer: "https://asked.example"},
	}
	return o.instance(tb)
}

// instance returns another instance over the same store.
func (o *outsiders) instance(tb testing.TB) *outsiders {
	tb.Helper()
	next := &outsiders{mechanisms: o.reloaded(tb, alice(), bob()), plain: o.plain, asked: o.asked}
	var err error
	next.outside, err = NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: o.plain}, {Name: "asked", Opaque: true, TokenIssuer: o.asked}}, next.logins, next.clock.now)
	noError(tb, err)
	next.bearers = NewBearerTokens(next.bearer, next.outside)
	return next
}

func (o *outsiders) by(tb testing.TB, token string) (*policy.Identity, error) {
	return o.bearers.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

// access is what an issuer says of a token that is good for an hour.
func (o *outsiders) access(jti string) provider.AccessToken {
	return provider.AccessToken{
		Profile: provider.Profile{Subject: "7", Username: "carol", Name: "Carol", Email: "carol@example.org", Roles: []string{"user"}, Claims: map[string]any{"a": "b"}},
		Scopes:  []string{"read", "write"}, ID: jti, Expires: o.clock.now().Add(time.Hour),
	}
}

// jwtOf is a JWT that says it is of the issuer; its signature is of nobody.
func jwtOf(issuer string) string {
	claims, err := json.Marshal(map[string]any{"iss": issuer, "jti": newSecretText()})
	if err != nil {
		panic(err)
	}
	return encode(`{"alg":"ES256"}`) + "." + encode(string(claims)) + "." + encode("signature")
}

func TestOutsideIdentity(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, nil)
	jwt, opaque := jwtOf(o.plain.issuer), "an-opaque-token"
	o.plain.knows(jwt, o.access("one"))
	o.asked.knows(opaque, o.access(""))
	for name, token := range map[string]string{"plain": jwt, "asked": opaque} {
		got, err := o.by(t, token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := &policy.Identity{
			Username: "carol", Subject: name + ":7", Name: "Carol", Email: "carol@example.org", Roles: []string{"user"}, Scopes: []string{"read", "write"},
			Claims: map[string]any{"a": "b"}, Mechanism: policy.Bearer, Provider: name, Expires: o.clock.now().Add(time.Hour),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !slices.Equal(o.plain.verified, []string{jwt}) || len(o.plain.introspected) != 0 || len(o.asked.verified) != 0 || !slices.Equal(o.asked.introspected, []string{opaque}) {
		t.Errorf("asked were %+v and %+v", o.plain, o.asked)
	}
}

// A token longer than any should be is not even looked at, also if an issuer
// would call it good.
func TestLongOutsideTokens(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, nil)
	for name, issuer := range map[string]*testIssuerOfTokens{"plain": o.plain, "asked": o.asked} {
		for length, passes := range map[int]bool{maxTokenBytes: true, maxTokenBytes + 1: false} {
			token := strings.Repeat("x", length)
			if name == "plain" {
				token = jwtOf(o.plain.issuer)
				token += strings.Repeat("x", length-len(token))
			}
			issuer.knows(token, o.access("one"))
			before := issuer.questions()
			id, err := o.by(t, token)
			if passes && err != nil {
				t.Errorf("%s, %d bytes: %v", name, length, err)
			}
			if !passes {
				wantRejected(t, id, err, auth.DetailBadToken, "longer than 8192 bytes")
				if issuer.questions() != before {
					t.Errorf("%s was asked about %d bytes", name, length)
				}
			}
		}
	}
}

func TestNewOutsideRefuses(t *testing.T) {
	t.Parallel()
	one, two := &testIssuerOfTokens{issuer: "https://one.example"}, &testIssuerOfTokens{issuer: "https://two.example"}
	for name, issuers := range map[string][]TrustedIssuer{
		"one issuer twice":       {{Name: "a", TokenIssuer: one}, {Name: "b", TokenIssuer: one}},
		"two for opaque tokens":  {{Name: "a", Opaque: true, TokenIssuer: one}, {Name: "b", Opaque: true, TokenIssuer: two}},
		"an issuer without name": {{Name: "a", TokenIssuer: &testIssuerOfTokens{}}},
	} {
		if o, err := NewTrustedTokens(issuers, nil, nil); o != nil || err == nil {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
}

// What an issuer says decides; what it cannot say decides nothing.
func TestOutsideErrors(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, nil)
	for name, issuer := range map[string]*testIssuerOfTokens{"plain": o.plain, "asked": o.asked} {
		token := func() string {
			if name == "plain" {
				return jwtOf(issuer.issuer)
			}
			return newSecretText()
		}
		issuer.fails(provider.ErrInvalid)
		id, err := o.by(t, token())
		wantRejected(t, id, err, auth.DetailBadToken, "access token: ")
		id, err = o.by(t, "")
		wantRejected(t, id, err, auth.DetailBadToken, "access token: ")
		for _, kind := range []error{provider.ErrFault, provider.ErrTimeout, provider.ErrRefused, provider.ErrMixUp, context.DeadlineExceeded, errStore} {
			issuer.fails(kind)
			one := token()
			for range 2 { // nor is that remembered
				before := issuer.questions()
				id, err = o.by(t, one)
				wantNoAnswer(t, id, err)
				if !errors.Is(err, kind) || issuer.questions() != before+1 {
					t.Errorf("%s: got %v after %d questions, want %v after one", name, err, issuer.questions()-before, kind)
				}
			}
			id, err = o.bearers.Revoke(t.Context(), one)
			wantNoAnswer(t, id, err)
		}
	}
}

// A verified token is verified again after 5 minutes, and then nothing counts
// of what was known.
func TestOutsideTokensAreVerifiedAgain(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, nil)
	token := jwtOf(o.plain.issuer)
	o.plain.knows(token, o.access("one"))
	wantQuestions := func(want int) {
		t.Helper()
		if got := o.plain.questions(); got != want {
			t.Errorf("asked %d times, want %d", got, want)
		}
	}
	must(o.by(t, token))(t)
	o.plain.fails(provider.ErrInvalid)
	o.clock.advance(5*time.Minute - 1)
	if _, err := o.by(t, token); err != nil {
		t.Errorf("within 5 minutes: %v", err)
	}
	wantQuestions(1)
	o.clock.advance(1)
	id, err := o.by(t, token)
	wantRejected(t, id, err, auth.DetailBadToken, "not valid")
	wantQuestions(2)
	o.plain.fails(provider.ErrFault)
	id, err = o.by(t, token)
	wantNoAnswer(t, id, err)
	wantQuestions(3)
	changed := o.access("one")
	changed.Profile.Roles = []string{"auditor"}
	o.plain.knows(token, changed)
	for range 2 {
		if id, err := o.by(t, token); err != nil || !slices.Equal(id.Roles, []string{"auditor"}) {
			t.Errorf("got %+v, %v, want what is said today", id, err)
		}
	}
	wantQuestions(4)
}

// What is known of a token does not outlive it.
func TestOutsideTokenExpiresWhileWarm(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t, nil)
	for name, issuer := range map[string]*testIssuerOfTokens{"plain": o.plain, "asked": o.asked} {
		token := map[string]string{"plain": jwtOf(issuer.issuer), "asked": "opaque"}[name]
		access := o.access("one")
		access.Expires = o.clock.now().Add(5 * time.Second)
		issuer.knows(token, access)
		o.clock.advance(5*time.Second - 1)
		if _, err := o.by(t, token); err != nil {
			t.Errorf("%s, before its end: %v", name, err)
		}
		o.clock.advance(1)
		id, err := o.by(t, token)
		wantRejected(t, id, err, auth.DetailBadToken, "expired")
		if n := issuer.questions(); n != 1 {
			t.Errorf("%s was asked %d times", name, n)
		}
	}
}
