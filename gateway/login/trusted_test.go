package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/policy"
)

// issuers has all bearer tokens and two trusted issuers: plain, and asked, which is asked
// about opaque tokens.
type issuers struct {
	*mechanisms
	plain, asked *fakeIssuer
	trusted      *TrustedTokens
	bearers      *BearerTokens
}

// fakeIssuer is a trusted issuer. It accepts no token until a test says so.
type fakeIssuer struct {
	issuer string

	mu                     sync.Mutex
	verified, introspected []string // the tokens it was asked about, in order
	answer                 func(context.Context, string) (*provider.AccessToken, error)
}

func (i *fakeIssuer) Issuer() string { return i.issuer }

func (i *fakeIssuer) Verify(ctx context.Context, raw string) (*provider.AccessToken, error) {
	return i.judge(ctx, &i.verified, raw)
}

func (i *fakeIssuer) Introspect(ctx context.Context, raw string) (*provider.AccessToken, error) {
	return i.judge(ctx, &i.introspected, raw)
}

func (i *fakeIssuer) judge(ctx context.Context, asked *[]string, raw string) (*provider.AccessToken, error) {
	i.mu.Lock()
	*asked = append(*asked, raw)
	answer := i.answer
	i.mu.Unlock()
	if answer == nil {
		return nil, providerFails(provider.ErrInvalid)
	}
	return answer(ctx, raw)
}

func (i *fakeIssuer) answers(answer func(context.Context, string) (*provider.AccessToken, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// knows makes the issuer accept one token.
func (i *fakeIssuer) knows(token string, access provider.AccessToken) {
	i.answers(func(_ context.Context, raw string) (*provider.AccessToken, error) {
		if raw != token {
			return nil, providerFails(provider.ErrInvalid)
		}
		return &access, nil
	})
}

// fails makes the issuer fail.
func (i *fakeIssuer) fails(kind error) {
	i.answers(func(context.Context, string) (*provider.AccessToken, error) { return nil, providerFails(kind) })
}

// questions returns how often the issuer was asked.
func (i *fakeIssuer) questions() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.verified) + len(i.introspected)
}

func newIssuers(tb testing.TB, change func(*mechanisms)) *issuers {
	tb.Helper()
	o := &issuers{
		mechanisms: newMechanisms(tb, change),
		plain:      &fakeIssuer{issuer: "https://plain.example"},
		asked:      &fakeIssuer{issuer: "https://asked.example"},
	}
	return o.instance(tb)
}

// instance returns another instance over the same store.
func (o *issuers) instance(tb testing.TB) *issuers {
	tb.Helper()
	next := &issuers{mechanisms: o.reloaded(tb, alice(), bob()), plain: o.plain, asked: o.asked}
	var err error
	next.trusted, err = NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: o.plain}, {Name: "asked", Opaque: true, TokenIssuer: o.asked}}, next.logins, next.clock.now)
	noError(tb, err)
	next.bearers = NewBearerTokens(next.bearer, next.trusted)
	return next
}

func (o *issuers) by(tb testing.TB, token string) (*policy.Identity, error) {
	return o.bearers.Authenticate(tb.Context(), &auth.Credentials{Scheme: "bearer", Value: token})
}

// access returns an issuer's answer for a token that is valid for an hour.
func (o *issuers) access(jti string) provider.AccessToken {
	return provider.AccessToken{
		Profile: provider.Profile{Subject: "7", Username: "carol", Name: "Carol", Email: "carol@example.org", Roles: []string{"user"}, Claims: map[string]any{"a": "b"}},
		Scopes:  []string{"read", "write"}, ID: jti, Expires: o.clock.now().Add(time.Hour),
	}
}

// jwtOf returns a JWT that names the issuer. Its signature is not valid.
func jwtOf(issuer string) string {
	claims, err := json.Marshal(map[string]any{"iss": issuer, "jti": newSecretText()})
	if err != nil {
		panic(err)
	}
	return encode(`{"alg":"ES256"}`) + "." + encode(string(claims)) + "." + encode("signature")
}

// A token that is too long is rejected, even if its issuer would accept it.
func TestLongTrustedTokens(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	for name, issuer := range map[string]*fakeIssuer{"plain": o.plain, "asked": o.asked} {
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

func TestNewTrustedTokensRefuses(t *testing.T) {
	t.Parallel()
	one, two := &fakeIssuer{issuer: "https://one.example"}, &fakeIssuer{issuer: "https://two.example"}
	for name, issuers := range map[string][]TrustedIssuer{
		"one issuer twice":       {{Name: "a", TokenIssuer: one}, {Name: "b", TokenIssuer: one}},
		"two for opaque tokens":  {{Name: "a", Opaque: true, TokenIssuer: one}, {Name: "b", Opaque: true, TokenIssuer: two}},
		"an issuer without name": {{Name: "a", TokenIssuer: &fakeIssuer{}}},
	} {
		if o, err := NewTrustedTokens(issuers, nil, nil); o != nil || err == nil {
			t.Errorf("%s: got %+v, %v", name, o, err)
		}
	}
}

// An issuer's answer decides. An issuer that fails decides nothing.
func TestTrustedErrors(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	for name, issuer := range map[string]*fakeIssuer{"plain": o.plain, "asked": o.asked} {
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
			for range 2 { // failures are not cached
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

// A token is verified again after 5 minutes. The old result does not count then.
func TestTrustedTokensAreVerifiedAgain(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
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

// A cached token expires.
func TestTrustedTokenExpiresWhileWarm(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	for name, issuer := range map[string]*fakeIssuer{"plain": o.plain, "asked": o.asked} {
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

// The result of an introspection is valid for 10 seconds, positive or negative.
func TestIntrospectionIsRemembered(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{"good": nil, "bad": provider.ErrInvalid} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newIssuers(t, nil)
			o.asked.answers(func(context.Context, string) (*provider.AccessToken, error) {
				if kind != nil {
					return nil, providerFails(kind)
				}
				access := o.access("one")
				return &access, nil
			})
			check := func(questions int) {
				t.Helper()
				for range 3 {
					id, err := o.by(t, "opaque")
					if kind != nil {
						wantRejected(t, id, err, auth.DetailBadToken, "not active")
					} else if err != nil {
						t.Error(err)
					}
				}
				if got := o.asked.questions(); got != questions {
					t.Errorf("asked %d times, want %d", got, questions)
				}
			}
			check(1)
			o.clock.advance(10*time.Second - 1)
			check(1)
			o.clock.advance(1)
			check(2)
			kind = map[error]error{nil: provider.ErrInvalid, provider.ErrInvalid: nil}[kind] // the issuer's answer changes
			o.clock.advance(10 * time.Second)
			check(3)
			o.asked.fails(provider.ErrFault)
			o.clock.advance(10 * time.Second)
			id, err := o.by(t, "opaque") // the old answer does not count
			wantNoAnswer(t, id, err)
		})
	}
}

func TestOneTokenIsIntrospectedOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]error{"good": nil, "bad": provider.ErrInvalid, "unknown": provider.ErrFault} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := newIssuers(t, nil)
				release := make(chan struct{})
				o.asked.answers(func(ctx context.Context, _ string) (*provider.AccessToken, error) {
					select {
					case <-ctx.Done(): // must not end when the first caller leaves
						return nil, providerFails(provider.ErrFault)
					case <-release:
					}
					if kind != nil {
						return nil, providerFails(kind)
					}
					access := o.access("one")
					return &access, nil
				})
				var wg sync.WaitGroup
				ctx, cancel := context.WithCancel(t.Context())
				wg.Go(func() {
					id, err := o.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: "opaque"})
					wantNoAnswer(t, id, err)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("who left: got %v", err)
					}
				})
				synctest.Wait()
				for range 100 {
					wg.Go(func() {
						id, err := o.by(t, "opaque")
						switch {
						case kind == nil && err != nil:
							t.Error(err)
						case errors.Is(kind, provider.ErrInvalid):
							wantRejected(t, id, err, auth.DetailBadToken, "not active")
						case errors.Is(kind, provider.ErrFault):
							wantNoAnswer(t, id, err)
						}
					})
				}
				synctest.Wait()
				cancel()
				synctest.Wait()
				close(release)
				wg.Wait()
				if got := o.asked.questions(); got != 1 {
					t.Errorf("asked %d times, want once", got)
				}
			})
		})
	}
}

// At most 32 introspections run at the same time. Further tokens are not rejected, but
// the client must try again.
func TestIntrospectionsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := newIssuers(t, nil)
		release := make(chan struct{})
		var running, most atomic.Int64
		o.asked.answers(func(context.Context, string) (*provider.AccessToken, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-release
			access := o.access("")
			return &access, nil
		})
		var wg sync.WaitGroup
		for i := range 32 {
			for range 2 {
				wg.Go(func() {
					if _, err := o.by(t, fmt.Sprint("token-", i)); err != nil {
						t.Errorf("token %d: %v", i, err)
					}
				})
			}
		}
		synctest.Wait()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			id, err := o.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: "one-too-many"})
			cancel()
			wantNoAnswer(t, id, err)
			if !errors.Is(err, auth.ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		}
		s := o.signIn(t, "alice")
		if _, err := o.by(t, s.access); err != nil {
			t.Errorf("the gateway's own token: %v", err)
		}
		close(release)
		wg.Wait()
		if got := most.Load(); got != 32 || slices.Contains(o.asked.introspected, "one-too-many") {
			t.Errorf("%d questions at once, want 32", got)
		}
		if _, err := o.by(t, "one-too-many"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}
