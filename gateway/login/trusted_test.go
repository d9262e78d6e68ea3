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
	next.trusted, err = NewTrustedTokens([]TrustedIssuer{{Name: "plain", TokenIssuer: o.plain}, {Name: "asked", Opaque: true, TokenIssuer: o.asked}}, next.logins, next.clock.Now)
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
		Scopes:  []string{"read", "write"}, ID: jti, Expires: o.clock.Now().Add(time.Hour),
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
				wantRejected(t, auth.DetailBadToken, "longer than 8192 bytes")(id, err)
				if issuer.questions() != before {
					t.Errorf("%s was asked about %d bytes", name, length)
				}
			}
		}
	}
}

// tokenScript runs steps with one token of an issuer, separated by semicolons.
//
//	says ANSWER         what the issuer says from now on: a role, "slow" for the role user after
//	                    a second, "short" for a token that lives 5 seconds, or one of answers
//	in, alive ROLE      Authenticate, or Alive, accepts the token with that role
//	bad, dead REASON    it is rejected
//	unknown, verifying  there is no answer; Authenticate returns the issuer's error
//	revoke              Revoke returns the issuer's error, or none
//	asked N             the issuer was asked N times
//	wait TIME           time passes
//	reload              another instance is used
type tokenScript struct {
	*issuers
	issuer *fakeIssuer
	token  string
	err    error // of the issuer
}

// answers are the ways in which a provider or an issuer fails, by name.
var answers = map[string]error{
	"bad": provider.ErrInvalid, "fault": provider.ErrFault, "timeout": provider.ErrTimeout, "refused": provider.ErrRefused,
	"mix-up": provider.ErrMixUp, "deadline": context.DeadlineExceeded, "store": errStore,
}

func (s *tokenScript) says(answer string) {
	access, after := s.access("one"), time.Duration(0)
	access.Profile.Roles = []string{answer}
	switch s.err = answers[answer]; answer {
	case "slow":
		access.Profile.Roles, after = []string{"user"}, time.Second
	case "short":
		access.Profile.Roles, access.Expires = []string{"user"}, s.clock.Now().Add(5*time.Second)
	}
	failure := s.err
	s.issuer.answers(func(context.Context, string) (*provider.AccessToken, error) {
		time.Sleep(after)
		if failure != nil {
			return nil, providerFails(failure)
		}
		return &access, nil
	})
}

func (s *tokenScript) step(t *testing.T, verb, arg string) {
	t.Helper()
	prove := s.bearers.Authenticate
	if verb == "alive" || verb == "dead" || verb == "verifying" {
		prove = s.bearers.Alive
	}
	creds := &auth.Credentials{Scheme: "bearer", Value: s.token}
	switch verb {
	case "says":
		s.says(arg)
	case "in", "alive":
		if id, err := prove(t.Context(), creds); err != nil || !slices.Equal(id.Roles, []string{arg}) {
			t.Errorf("got %+v, %v", id, err)
		}
	case "bad", "dead":
		wantRejected(t, auth.DetailBadToken, arg)(prove(t.Context(), creds))
	case "unknown":
		wantNoAnswer(t, s.err)(prove(t.Context(), creds))
	case "verifying":
		wantNoAnswer(t)(prove(t.Context(), creds))
	case "revoke":
		if _, err := s.bearers.Revoke(t.Context(), s.token); !errors.Is(err, s.err) || errors.Is(err, auth.ErrRejected) {
			t.Errorf("got %v, want %v", err, s.err)
		}
	case "asked":
		if got := fmt.Sprint(s.issuer.questions()); got != arg {
			t.Errorf("the issuer was asked %s times", got)
		}
	case "wait":
		d := must(time.ParseDuration(arg))(t)
		s.clock.Advance(d)
		time.Sleep(d)
	case "reload":
		s.issuers = s.instance(t)
	default:
		t.Fatal("no such step")
	}
	synctest.Wait()
}

func TestTrustedTokens(t *testing.T) {
	t.Parallel()
	type script struct{ tokens, text string }
	scripts := map[string]script{
		"a bad token":              {"JWT opaque", `says bad; bad access token: ; asked 1`},
		"a cached token expires":   {"JWT opaque", `says short; in user; wait 4.999999999s; in user; wait 1ns; bad expired; dead expired; asked 1`},
		"verified after 5 minutes": {"JWT", `says user; in user; says bad; wait 4m59.999999999s; in user; asked 1; wait 1ns; bad not valid; asked 2`},
		"an old result does not count": {"JWT", `
			says user; in user; wait 5m; says fault; unknown; asked 2; says auditor; in auditor; in auditor; asked 3`},
		"a good introspection counts for 10 seconds": {"opaque", `
			says user; in user; in user; asked 1; wait 9.999999999s; in user; asked 1; wait 1ns; in user; in user; asked 2;
			says bad; wait 10s; bad not active; bad not active; asked 3; says fault; wait 10s; unknown`},
		"a bad introspection counts for 10 seconds": {"opaque", `
			says bad; bad not active; bad not active; asked 1; wait 9.999999999s; bad not active; asked 1; wait 1ns; bad not active;
			bad not active; asked 2; says user; wait 10s; in user; in user; asked 3; says fault; wait 10s; unknown`},

		// Alive never waits for the issuer. It asks in the background, with pauses, and
		// uses the answer afterwards.
		"Alive asks in the background": {"opaque", `
			says user; in user; alive user; asked 1; wait 10s; says slow; verifying; asked 2; verifying; asked 2; wait 1s; alive user; asked 2`},
		"Alive asks again after a pause": {"opaque", `
			says user; in user; wait 10s; says fault; verifying; asked 2; verifying; asked 2; wait 2s; verifying; asked 3;
			wait 2s; says bad; verifying; asked 4; dead not active; asked 4`},
		"Alive after a reload": {"JWT opaque", `says user; in user; reload; verifying; alive user; asked 2; revoke; wait 10s; dead revoked`},
		// The clock that is set back shows that the token has left the cache.
		"a token that is rejected in the background is refused for 10 seconds": {"JWT", `
			says user; in user; wait 5m; says bad; verifying; asked 2; dead not active; bad not active; wait -1m; dead not active;
			wait 1m; wait 9.999999999s; dead not active; asked 2; wait 1ns; verifying; asked 3`},
	}
	for name := range answers { // an issuer that fails decides nothing, and its failures are not cached
		if name != "bad" {
			scripts[name] = script{"JWT opaque", "says " + name + "; unknown; asked 1; unknown; asked 2; revoke; asked 3"}
		}
	}
	for name, test := range scripts {
		for kind := range strings.FieldsSeq(test.tokens) {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &tokenScript{issuers: newIssuers(t, nil), token: "opaque"}
					if s.issuer = s.asked; kind == "JWT" {
						s.issuer, s.token = s.plain, jwtOf(s.plain.issuer)
					}
					eachStep(t, test.text, func(verb, arg string) { s.step(t, verb, arg) })
				})
			})
		}
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
					wantNoAnswer(t, context.Canceled)(o.bearers.Authenticate(ctx, &auth.Credentials{Scheme: "bearer", Value: "opaque"}))
				})
				synctest.Wait()
				for range 100 {
					wg.Go(func() {
						id, err := o.by(t, "opaque")
						switch {
						case kind == nil && err != nil:
							t.Error(err)
						case errors.Is(kind, provider.ErrInvalid):
							wantRejected(t, auth.DetailBadToken, "not active")(id, err)
						case errors.Is(kind, provider.ErrFault):
							wantNoAnswer(t)(id, err)
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
			wantNoAnswer(t, auth.ErrBusy)(id, err)
		}
		s := o.signIn(t, "alice")
		must(o.by(t, s.access))(t)
		close(release)
		wg.Wait()
		if got := most.Load(); got != 32 || slices.Contains(o.asked.introspected, "one-too-many") {
			t.Errorf("%d questions at once, want 32", got)
		}
		must(o.by(t, "one-too-many"))(t)
	})
}
