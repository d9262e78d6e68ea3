package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/policy"
)

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// basicFixture is the Basic mechanism for the user service with the password s3rvice.
type basicFixture struct {
	*Basic
	clock  *clocktest.Clock
	hasher *Hasher
}

func newBasicFixture(tb testing.TB) *basicFixture {
	tb.Helper()
	f := &basicFixture{clock: clocktest.New(), hasher: NewHasher(0)}
	verifier := NewVerifier(f.hasher, NewThrottle(5, time.Minute, f.clock.Now), 100, time.Minute, f.clock.Now)
	users := newAccounts(tb,
		Account{Username: "service", Roles: []string{"admin"}, PasswordHash: cheapArgon2id("s3rvice")},
		Account{Username: "dienst", PasswordHash: cheapArgon2id("geheim:mit:Doppelpunkt – ü")},
		Account{Username: "retired", Disabled: true, PasswordHash: cheapArgon2id("s3rvice")},
	)
	f.Basic = NewBasic("authgate", users, verifier)
	return f
}

func (f *basicFixture) present(ctx context.Context, value string) (*policy.Identity, error) {
	return f.Authenticate(ctx, &Credentials{Scheme: "basic", Value: value, Client: netip.MustParseAddr("192.0.2.7")})
}

func TestBasicIdentity(t *testing.T) {
	t.Parallel()
	f := newBasicFixture(t)
	id := must(f.present(t.Context(), encoded("service:s3rvice")))(t)
	if id.Username != "service" || id.Subject != "basic:service" || id.Mechanism != policy.Basic || id.Provider != "basic" {
		t.Errorf("got %+v", id)
	}
	if len(id.Roles) != 0 || id.Login != "" || !id.Expires.IsZero() {
		t.Errorf("got %+v: Basic has no roles, no login and no end", id)
	}
	again, err := f.present(t.Context(), encoded("service:s3rvice"))
	if err != nil || again != id || f.hasher.Computed() != 1 {
		t.Errorf("a warm request: got %p, %v and %d hashes, want %p and one", again, err, f.hasher.Computed(), id)
	}
	if id, err := f.present(t.Context(), encoded("dienst:geheim:mit:Doppelpunkt – ü")); err != nil || id.Username != "dienst" {
		t.Errorf("colons and UTF-8 in the password: got %+v, %v", id, err)
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
		{"base64 cut off", encoded("service:s3rvice")[:19], "base64", 0},
		{"base64 without padding", strings.TrimRight(encoded("service:s3rvice1"), "="), "base64", 0},
		{"base64url", "c2VydmljZTo_Pz8-", "base64", 0},
		{"loose bits of base64", strings.Replace(encoded("service:s3rvice1"), "MQ==", "MR==", 1), "base64", 0},
		{"no colon", encoded("service"), "no colon", 0},
		{"invalid UTF-8", encoded("service:s3rvice\xff"), "UTF-8", 0},
		{"invalid UTF-8 in the name", encoded("serv\xc0\xaece:s3rvice"), "UTF-8", 0},
		{"NUL", encoded("service:s3rvice\x00"), "control", 0},
		{"line break", encoded("service\r\n:s3rvice"), "control", 0},
		{"DEL", encoded("service:s3rvice\x7f"), "control", 0},
		{"wrong password", encoded("service:wrong"), wrong, 1},
		{"empty name", encoded(":s3rvice"), wrong, 1},
		{"unknown name", encoded("nobody:s3rvice"), wrong, 1},
		{"disabled", encoded("retired:s3rvice"), wrong, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newBasicFixture(t)
			wantRejected(t, DetailWrongPassword, test.reason)(f.present(t.Context(), test.value))
			if got := f.hasher.Computed(); got != test.hashes {
				t.Errorf("%d password hashes computed, want %d", got, test.hashes)
			}
			if id, err := f.present(t.Context(), encoded("service:s3rvice")); err != nil || id == nil {
				t.Errorf("the right credentials afterwards: got %+v, %v", id, err)
			}
		})
	}
}

func TestBasicLeavesOtherSchemesAlone(t *testing.T) {
	t.Parallel()
	f := newBasicFixture(t)
	for _, creds := range []Credentials{
		{},
		{Value: encoded("service:s3rvice")},
		{Scheme: "bearer", Value: encoded("service:s3rvice")},
		{Scheme: "basic2", Value: encoded("service:s3rvice")},
		{Session: encoded("service:s3rvice"), Access: encoded("service:s3rvice")},
	} {
		if id, err := f.Authenticate(t.Context(), &creds); id != nil || !errors.Is(err, ErrNoCredentials) {
			t.Errorf("%+v: got %+v, %v, want no credentials", creds, id, err)
		}
	}
}

func TestBasicThatCannotBeCheckedDecidesNothing(t *testing.T) {
	t.Parallel()
	f := newBasicFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantNoAnswer(t, ErrBusy)(f.present(ctx, encoded("service:s3rvice")))
	for range 5 {
		_, _ = f.present(t.Context(), encoded("dienst:wrong"))
	}
	id, err := f.present(t.Context(), encoded("nobody:x")) // from the same address
	wantNoAnswer(t)(id, err)
	if !isThrottled(err) {
		t.Errorf("got %v, want it throttled", err)
	}
}

func TestParseBasic(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]string{
		"Aladdin:open sesame": {"Aladdin", "open sesame"}, // RFC 7617, section 2
		"test:123£":           {"test", "123£"},           // RFC 7617, section 2.1
		"a:b:c::":             {"a", "b:c::"},
		"a:":                  {"a", ""},
		":b":                  {"", "b"},
		":":                   {"", ""},
		" a : b ":             {" a ", " b "},
	} {
		username, password, err := ParseBasic(encoded(raw))
		if err != nil || username != want[0] || password != want[1] {
			t.Errorf("%q: got %q, %q, %v, want %q", raw, username, password, err, want)
		}
	}
	if username, password, err := ParseBasic("QWxhZGRpbjpvcGVu\nIHNlc2FtZQ=="); err == nil || username != "" || password != "" {
		t.Errorf("a line break within base64: got %q, %q, %v, want an error alone", username, password, err)
	}
}

func TestBasicChallenge(t *testing.T) {
	t.Parallel()
	f := newBasicFixture(t)
	if got, want := f.Challenge(&Credentials{}), Challenge(`Basic realm="authgate", charset="UTF-8"`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := BasicChallenge(`a "b" \c`), Challenge(`Basic realm="a \"b\" \\c", charset="UTF-8"`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A password that Authenticate verified stays valid until it changes, without a hash and
// without the throttle. A password that it did not verify is rejected.
func TestAliveHashesNothing(t *testing.T) {
	t.Parallel()
	f := newBasicFixture(t)
	creds := &Credentials{Scheme: "basic", Value: encoded("service:s3rvice"), Client: netip.MustParseAddr("192.0.2.7")}
	wantRejected(t, DetailWrongPassword, "another password")(f.Alive(t.Context(), creds))
	want := must(f.Authenticate(t.Context(), creds))(t)
	for range 5 {
		_, _ = f.present(t.Context(), encoded("service:wrong")) // until throttled
	}
	computed := f.hasher.Computed()
	f.clock.Advance(24 * time.Hour) // until the cache has expired
	if id, err := f.Alive(t.Context(), creds); id != want || err != nil {
		t.Errorf("got %+v, %v", id, err)
	}
	if id, err := NewBasic("authgate", f.users, f.verifier).Alive(t.Context(), creds); err != nil || id.Username != "service" {
		t.Errorf("after a reload: got %+v, %v", id, err)
	}
	for _, users := range []*Accounts{
		newAccounts(t, Account{Username: "service", PasswordHash: cheapArgon2id("another")}),
		newAccounts(t, Account{Username: "service", Disabled: true, PasswordHash: cheapArgon2id("s3rvice")}),
		newAccounts(t, Account{Username: "other", PasswordHash: cheapArgon2id("s3rvice")}),
		nil,
	} {
		wantRejected(t, DetailWrongPassword, "Basic user")(NewBasic("authgate", users, f.verifier).Alive(t.Context(), creds))
	}
	if got := f.hasher.Computed(); got != computed {
		t.Errorf("%d hashes were computed", got-computed)
	}
}
