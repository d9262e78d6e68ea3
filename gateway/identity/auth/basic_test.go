package auth

import (
	"context"
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
	"authgate/policy"
)

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// basicFixture is the Basic mechanism for the user service with the password s3rvice.
type basicFixture struct {
	*Basic
	checks *verifierFixture
}

func newBasicFixture() *basicFixture {
	checks := newVerifierFixture()
	return &basicFixture{NewBasic("authgate", newAccounts(
		accounts.Account{Username: "service", Roles: []string{"admin"}, Hash: passwordtest.Argon2id("s3rvice")},
		accounts.Account{Username: "dienst", Hash: passwordtest.Argon2id("geheim:mit:Doppelpunkt – ü")},
		accounts.Account{Username: "retired", Disabled: true, Hash: passwordtest.Argon2id("s3rvice")},
	), checks.Verifier), checks}
}

func basicCredentials(value string) *Credentials {
	return &Credentials{Scheme: "basic", Value: value, Client: netip.MustParseAddr("192.0.2.7")}
}

func (f *basicFixture) present(ctx context.Context, value string) (*policy.Identity, error) {
	return f.Authenticate(ctx, basicCredentials(value))
}

// The identity has no roles, no login and no end. A warm request computes no hash.
func TestBasicIdentity(t *testing.T) {
	t.Parallel()
	f := newBasicFixture()
	id := must.Get(f.present(t.Context(), encoded("service:s3rvice")))(t)
	if id.Username != "service" || id.Subject != "basic:service" || id.Mechanism != policy.Basic ||
		id.Provider != "basic" || len(id.Roles) != 0 || id.Login != "" || !id.Expires.IsZero() {
		t.Errorf("got %+v", id)
	}
	if again := must.Get(f.present(t.Context(), encoded("service:s3rvice")))(t); again != id ||
		f.verifier.hasher.Computed() != 1 {
		t.Errorf("a warm request: got %p and %d hashes, want %p and one", again, f.verifier.hasher.Computed(), id)
	}
	if id := must.Get(f.present(t.Context(), encoded("dienst:geheim:mit:Doppelpunkt – ü")))(t); id.Username != "dienst" {
		t.Errorf("colons and UTF-8 in the password: got %+v", id)
	}
	if got, want := f.Challenge(&Credentials{}), Challenge(`Basic realm="authgate", charset="UTF-8"`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := BasicChallenge(`a "b" \c`), Challenge(`Basic realm="a \"b\" \\c", charset="UTF-8"`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBasicRefuses(t *testing.T) {
	t.Parallel()
	const wrong = "wrong Basic username or password"
	for _, test := range []struct {
		name, value, reason string
		hashes              uint64
	}{
		{"nothing", "", "no colon", 0},
		{"broken base64", "!!!", "base64", 0},
		{"no colon", encoded("service"), "no colon", 0},
		{"invalid UTF-8", encoded("service:s3rvice\xff"), "UTF-8", 0},
		{"NUL", encoded("service:s3rvice\x00"), "control", 0},
		{"tab after the name", encoded("service\t:s3rvice"), "control", 0},
		{"a space that is a control character", encoded("\u0085service:s3rvice"), "control", 0},
		{"wrong password", encoded("service:wrong"), wrong, 1},
		{"empty name", encoded(":s3rvice"), wrong, 1},
		{"unknown name", encoded("stranger:s3rvice"), wrong, 1},
		{"disabled", encoded("retired:s3rvice"), wrong, 1},
	} {
		f := newBasicFixture()
		wantRejected(t, test.reason)(f.present(t.Context(), test.value))
		if got := f.verifier.hasher.Computed(); got != test.hashes {
			t.Errorf("%s: %d password hashes computed, want %d", test.name, got, test.hashes)
		}
		must.Get(f.present(t.Context(), encoded("service:s3rvice")))(t)
	}
	f, good := newBasicFixture(), encoded("service:s3rvice")
	for _, creds := range []Credentials{
		{}, {Value: good}, {Scheme: "bearer", Value: good}, {Scheme: "basic2", Value: good}, {Session: good, Access: good},
	} {
		wantError[policy.Identity](t, ErrNoCredentials)(f.Authenticate(t.Context(), &creds))
		wantError[policy.Identity](t, ErrNoCredentials)(f.Alive(t.Context(), &creds))
	}
}

func TestBasicThatCannotBeCheckedDecidesNothing(t *testing.T) {
	t.Parallel()
	f := newBasicFixture()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	id, err := f.present(ctx, encoded("service:s3rvice"))
	wantError[policy.Identity](t, ErrBusy)(id, err)
	for range testLimit {
		wantRejected(t, "wrong")(f.present(t.Context(), encoded("dienst:wrong")))
	}
	if id, err := f.present(t.Context(), encoded("stranger:x")); id != nil || !isThrottled(err) { // from the same address
		t.Errorf("got %+v, %v, want it throttled", id, err)
	}
}

// A password that Authenticate verified stays valid until it changes, without a hash and
// without the throttle. A password that it did not verify is rejected.
func TestAliveHashesNothing(t *testing.T) {
	t.Parallel()
	f, creds := newBasicFixture(), basicCredentials(encoded("service:s3rvice"))
	wantRejected(t, "another password")(f.Alive(t.Context(), creds))
	want := must.Get(f.Authenticate(t.Context(), creds))(t)
	for range testLimit {
		_, _ = f.present(t.Context(), encoded("service:wrong")) // until throttled
	}
	computed := f.verifier.hasher.Computed()
	f.checks.clock.Advance(24 * time.Hour) // until the cache has expired
	if id, err := f.Alive(t.Context(), creds); id != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", id, err, want)
	}
	if id := must.Get(NewBasic("authgate", f.users, f.verifier).Alive(t.Context(), creds))(t); id.Username != "service" {
		t.Errorf("after a reload: got %+v", id)
	}
	for _, users := range []*accounts.Set{
		newAccounts(accounts.Account{Username: "service", Hash: passwordtest.Argon2id("another")}),
		newAccounts(accounts.Account{Username: "service", Disabled: true, Hash: passwordtest.Argon2id("s3rvice")}),
		nil,
	} {
		wantRejected(t, "Basic user")(NewBasic("authgate", users, f.verifier).Alive(t.Context(), creds))
	}
	wantRejected(t, "base64")(f.Alive(t.Context(), basicCredentials("!!!")))
	if got := f.verifier.hasher.Computed(); got != computed {
		t.Errorf("%d hashes were computed, want none", got-computed)
	}
}

// Basic credentials have one spelling (RFC 7617, section 2). The name ends at the first colon.
func FuzzParseBasic(f *testing.F) {
	for _, raw := range []string{
		"Aladdin:open sesame", "test:123£", "a:", ":", "a:b:c::", " a : b ", "a",
		"\x00:b", "a\r\n:b", "a:\xff", "\xc0\xae:b", "a:\x7f",
		"\u00a0Jose\u0301\u2003:e\u0301 ", "\u0085a:b", "a:\u0085", "\ta:b",
	} {
		f.Add(encoded(raw))
	}
	for _, value := range []string{"!!!", "YTpi\n", "YT\npi", "YTp=", "YTo", "YTp", "YTo_Pz8-"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		raw, _ := base64.StdEncoding.DecodeString(value)
		username, password, valid := strings.Cut(string(raw), ":")
		control := func(r rune) bool { return r < 0x20 || r == 0x7f }
		if encoded(string(raw)) != value || !valid || !utf8.Valid(raw) || strings.ContainsFunc(string(raw), control) ||
			strings.ContainsFunc(username, unicode.IsControl) {
			username, password, valid = "", "", false
		}
		username = norm.NFC.String(strings.TrimSpace(username))
		if u, p, err := ParseBasic(value); u != username || p != password || (err == nil) != valid {
			t.Errorf("%q: got %q, %q, %v, want %q, %q, valid: %v", value, u, p, err, username, password, valid)
		}
	})
}
