package factors

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// decoded returns JSON as Go values.
func decoded(tb testing.TB, raw []byte) (value map[string]any) {
	tb.Helper()
	must.Do(tb, json.Unmarshal(raw, &value))
	return value
}

// TestCreationOptions checks the options of an enrolment, member by member.
func TestCreationOptions(t *testing.T) {
	t.Parallel()
	s := site(t)
	p := s.add(verified(), "alice", "first")
	begun := must.Get(s.BeginPasskey(NewUser{Account: "alice", Name: "Alice Ä.", Passkeys: []Passkey{*p}}))(t)
	kind := func(alg int) any { return map[string]any{"type": "public-key", "alg": float64(alg)} }
	want := map[string]any{
		"rp":               map[string]any{"id": "example.org", "name": "Example"},
		"user":             map[string]any{"id": p.UserHandle, "name": "alice", "displayName": "Alice Ä."},
		"challenge":        begun.Key,
		"pubKeyCredParams": []any{kind(-7), kind(-8), kind(-257)},
		"timeout":          float64(600_000),
		"excludeCredentials": []any{map[string]any{
			"type": "public-key", "id": p.ID, "transports": []any{"hybrid", "internal"},
		}},
		"authenticatorSelection": map[string]any{
			"residentKey": "preferred", "requireResidentKey": false, "userVerification": "preferred",
		},
		"attestation": "none",
	}
	if diff := cmp.Diff(want, decoded(t, begun.Options)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if raw, err := decode(begun.Key, 32); err != nil || len(raw) != 32 {
		t.Errorf("the challenge is %q", begun.Key)
	}
	again := must.Get(s.BeginPasskey(NewUser{Account: "bob"}))(t)
	handle := decoded(t, again.Options)["user"].(map[string]any)["id"]
	if again.Key == begun.Key || handle == p.UserHandle {
		t.Error("two ceremonies have the same challenge, or two users the same handle")
	}
	if strings.Contains(string(begun.Record), "public_key") {
		t.Errorf("the record is larger than it must be: %s", begun.Record)
	}
}

// TestAssertionOptions checks the options of sign-ins, member by member.
func TestAssertionOptions(t *testing.T) {
	t.Parallel()
	s := site(t)
	p := s.add(verified(), "alice", "key")
	alone := must.Get(s.BeginSignIn())(t)
	want := map[string]any{
		"challenge": alone.Key, "timeout": float64(600_000), "rpId": "example.org", "userVerification": "required",
	}
	if diff := cmp.Diff(want, decoded(t, alone.Options)); diff != "" {
		t.Errorf("alone (-want +got):\n%s", diff)
	}
	second := must.Get(s.BeginSecondFactor("alice", []Passkey{*p}))(t)
	want["challenge"], want["userVerification"] = second.Key, "preferred"
	want["allowCredentials"] = []any{map[string]any{
		"type": "public-key", "id": p.ID, "transports": []any{"hybrid", "internal"},
	}}
	if diff := cmp.Diff(want, decoded(t, second.Options)); diff != "" {
		t.Errorf("second factor (-want +got):\n%s", diff)
	}
	if _, err := s.BeginSecondFactor("alice", nil); !errors.Is(err, ErrRefused) {
		t.Errorf("without passkeys: got %v", err) // an empty list would allow any
	}
}

// TestPasskeys checks enrolment and both sign-ins for each algorithm and kind of passkey.
func TestPasskeys(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []int{authenticator.ES256, authenticator.EdDSA, authenticator.RS256} {
		for name, a := range map[string]*authenticator.Authenticator{
			"hwk user": {Verified: true},
			"swk user": {Verified: true, BackupEligible: true, BackedUp: true, NoCounter: true},
			"hwk":      {},
			"swk":      {BackupEligible: true},
		} {
			t.Run(fmt.Sprint(algorithm, " ", name), func(t *testing.T) {
				t.Parallel()
				a.Algorithm, a.Origin = algorithm, testOrigin
				checkPasskey(t, a, name)
			})
		}
	}
}

func checkPasskey(t *testing.T, a *authenticator.Authenticator, methods string) {
	s := site(t)
	p := s.add(a, "alice", "My key")
	_, user := strings.CutSuffix(methods, " user")
	want := Passkey{
		ID: encode(a.Credentials[0].ID), Name: "My key", PublicKey: p.PublicKey, UserHandle: p.UserHandle,
		SignCount: int64(a.Credentials[0].Counter), Transports: []string{"hybrid", "internal"},
		BackupEligible: a.BackupEligible, BackedUp: a.BackedUp, UserVerified: user, AAGUID: strings.Repeat("0", 32),
	}
	if diff := cmp.Diff(want, *p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 2 {
		got, err := s.follow(a, "alice")
		must.Do(t, err)
		amr := strings.Join(got.AMR(), " ")
		if got.Account != "alice" || got.Passkey.ID != p.ID || got.Counter != int64(a.Credentials[0].Counter) ||
			!got.AfterPassword || got.Verified != user || amr != "pwd "+methods+" mfa" {
			t.Errorf("after the password: got %+v with amr %s", got, amr)
		}
		got, err = s.signIn(a)
		if !user {
			if !errors.Is(err, ErrUnverified) || !errors.Is(err, ErrRefused) || got != nil {
				t.Errorf("alone: got %+v, %v without verification", got, err)
			}
			continue
		}
		must.Do(t, err)
		if amr := strings.Join(got.AMR(), " "); got.Account != "alice" || got.AfterPassword || amr != methods+" mfa" {
			t.Errorf("alone: got %+v with amr %s", got, amr)
		}
	}
}

// TestPurposes checks that a challenge serves for what it was issued for, and that the kind
// of the answer must fit.
func TestPurposes(t *testing.T) {
	t.Parallel()
	s, a := site(t), verified()
	p := s.add(a, "alice", "key")
	add := must.Get(s.BeginPasskey(NewUser{Account: "alice"}))(t)
	signIn := must.Get(s.BeginSignIn())(t)
	second := must.Get(s.BeginSecondFactor("alice", []Passkey{*p}))(t)
	created := must.Get(verified().Create(add.Options))(t)
	for name, begun := range map[string]*Ceremony{"sign-in": signIn, "second factor": second} {
		if _, err := s.FinishPasskey(begun.Record, "alice", "key", created, s.lookup); !errors.Is(err, ErrRefused) {
			t.Errorf("an enrolment with the challenge of a %s: got %v", name, err)
		}
		if _, err := s.FinishSignIn(begun.Record, created, s.lookup); !errors.Is(err, ErrRefused) {
			t.Errorf("a %s with the answer of an enrolment: got %v", name, err)
		}
		signed := must.Get(a.Sign(a.Credentials[0], begun.Key))(t)
		if _, err := s.FinishPasskey(add.Record, "alice", "key", signed, s.lookup); !errors.Is(err, ErrRefused) {
			t.Errorf("an enrolment with the answer of a %s: got %v", name, err)
		}
	}
	toAdd := must.Get(a.Sign(a.Credentials[0], add.Key))(t)
	if _, err := s.FinishSignIn(add.Record, toAdd, s.lookup); !errors.Is(err, ErrRefused) {
		t.Errorf("a sign-in with the challenge of an enrolment: got %v", err)
	}
	swapped := must.Get(a.Sign(a.Credentials[0], signIn.Key))(t)
	if _, err := s.FinishSignIn(second.Record, swapped, s.lookup); !errors.Is(err, ErrRefused) {
		t.Errorf("a second factor with the challenge of a sign-in: got %v", err)
	}
	if _, err := s.FinishPasskey(add.Record, "bob", "key", created, s.lookup); !errors.Is(err, ErrRefused) {
		t.Errorf("an enrolment of another user: got %v", err)
	}
	for _, kept := range [][]byte{nil, {}} {
		if got, err := s.FinishSignIn(kept, swapped, s.lookup); !errors.Is(err, ErrRefused) {
			t.Errorf("without a record: got %+v, %v", got, err)
		}
	}
	for _, kept := range []string{"{}", "null", `{"purpose":"sign in"}`, `{"purpose":"sign in","challenge":""}`, "x"} {
		if got, err := s.FinishSignIn([]byte(kept), swapped, s.lookup); err == nil {
			t.Errorf("the record %s: got %+v", kept, got)
		}
	}
}

// TestOwners checks that a passkey signs in to its own account alone, and to none that has
// lost it.
func TestOwners(t *testing.T) {
	t.Parallel()
	s, alices, bobs := site(t), verified(), verified()
	s.add(alices, "alice", "key")
	bobsKey := s.add(bobs, "bob", "key")
	begun := must.Get(s.BeginSecondFactor("alice", s.passkeys("alice")))(t)
	stolen := must.Get(bobs.Sign(bobs.Credentials[0], begun.Key))(t)
	if got, err := s.FinishSignIn(begun.Record, stolen, s.lookup); !errors.Is(err, ErrRefused) {
		t.Errorf("the passkey of another account: got %+v, %v", got, err)
	}
	// Bob's authenticator says that its passkey is Alice's.
	bobs.Credentials[0].ID = alices.Credentials[0].ID
	if got, err := s.signIn(bobs); !errors.Is(err, ErrRefused) {
		t.Errorf("the id of another passkey: got %+v, %v", got, err)
	}
	bobs.Credentials[0].UserHandle = alices.Credentials[0].UserHandle
	if got, err := s.signIn(bobs); !errors.Is(err, ErrRefused) {
		t.Errorf("id and user handle of another passkey: got %+v, %v", got, err)
	}
	bobs.Credentials[0].ID = must.Get(decode(bobsKey.ID, 100))(t)
	for _, try := range []func() (*Assertion, error){
		func() (*Assertion, error) { return s.signIn(bobs) }, func() (*Assertion, error) { return s.follow(bobs, "bob") },
	} {
		if got, err := try(); !errors.Is(err, ErrRefused) {
			t.Errorf("the user handle of another user: got %+v, %v", got, err)
		}
	}
	alices.Anonymous = true
	if got, err := s.signIn(alices); !errors.Is(err, ErrRefused) {
		t.Errorf("alone, without a user handle: got %+v, %v", got, err)
	}
	if _, err := s.follow(alices, "alice"); err != nil {
		t.Errorf("after a password, without a user handle: %v", err) // older security keys have none
	}
	alices.Anonymous = false
	begun = must.Get(s.BeginSignIn())(t)
	answer := must.Get(alices.Get(begun.Options))(t)
	clear(s.owners)
	if got, err := s.FinishSignIn(begun.Record, answer, s.lookup); !errors.Is(err, ErrRefused) {
		t.Errorf("a passkey that was removed: got %+v, %v", got, err)
	}
}

// TestTaken checks that a credential id belongs to one account, and to it once.
func TestTaken(t *testing.T) {
	t.Parallel()
	s, a := site(t), verified()
	s.add(a, "alice", "key")
	for _, account := range []string{"alice", "bob"} {
		begun := must.Get(s.BeginPasskey(NewUser{Account: account}))(t)
		again := verified()
		again.NewID = func() []byte { return a.Credentials[0].ID }
		answer := must.Get(again.Create(begun.Options))(t)
		if p, err := s.FinishPasskey(begun.Record, account, "key", answer, s.lookup); !errors.Is(err, ErrRefused) {
			t.Errorf("the id of a passkey again, for %s: got %+v, %v", account, p, err)
		}
	}
}

// TestCounters checks that the counter of a passkey must rise above what it was at the
// enrolment, unless it has none. What is stored later is for package proofs.
func TestCounters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		enrolled int64
		now      uint32
		ok       bool
	}{
		{0, 0, true}, {0, 1, true}, {5, 6, true}, {5, 5, false}, {5, 4, false}, {5, 0, false},
		{1<<32 - 2, 1<<32 - 1, true}, {1<<32 - 1, 0, false},
	} {
		s, a := site(t), verified()
		p := s.add(a, "alice", "key")
		s.owners[p.ID].Passkey.SignCount = c.enrolled
		a.Credentials[0].Counter = c.now - 1
		got, err := s.signIn(a)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrCounter) || err == nil && got.Counter != int64(c.now) {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}

// TestBackupEligibility checks that a passkey cannot become one that can be copied, or stop
// being one.
func TestBackupEligibility(t *testing.T) {
	t.Parallel()
	for _, eligible := range []bool{true, false} {
		s, a := site(t), verified()
		a.BackupEligible = eligible
		s.add(a, "alice", "key")
		a.BackupEligible = !eligible
		if got, err := s.signIn(a); !errors.Is(err, ErrRefused) {
			t.Errorf("eligible first %v: got %+v, %v", eligible, got, err)
		}
	}
}

// TestVerificationLater checks that a PIN that was set after the enrolment does not make two
// factors of a passkey.
func TestVerificationLater(t *testing.T) {
	t.Parallel()
	s, a := site(t), verified()
	a.Verified = false
	s.add(a, "alice", "key")
	a.Verified = true
	if got, err := s.signIn(a); !errors.Is(err, ErrUnverified) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := s.follow(a, "alice"); err != nil || got.Verified {
		t.Errorf("after a password: got %+v, %v", got, err)
	}
}

// TestKeysOfFile checks that a key with another algorithm, which only a hand could have
// written to the file, does not sign in, and that a lookup that answers with another
// passkey does not either.
func TestKeysOfFile(t *testing.T) {
	t.Parallel()
	point := must.Get(must.Get(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t).PublicKey.Bytes())(t)
	raw := must.Get(webauthncbor.Marshal(map[int]any{1: 2, 3: -35, -1: 2, -2: point[1:49], -3: point[49:]}))(t)
	if err := checkPublicKey(raw); err == nil {
		t.Error("a key for ES384 is accepted")
	}
	s, a := site(t), verified()
	p := s.add(a, "alice", "key")
	s.owners[p.ID].Passkey.ID = encode([]byte("other"))
	if got, err := s.signIn(a); !errors.Is(err, ErrRefused) {
		t.Errorf("another passkey is found: got %+v, %v", got, err)
	}
}

// TestTwinNames checks which names of members encoding/json takes for the same.
func TestTwinNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"response", "Response", "reſponse", "RESPONſE"} {
		twins := map[string]any{"response ": 1, name: 1}
		if name != "response" {
			twins["response"] = 1
		}
		if err := checkNames([]any{map[string]any{"x": twins}}); (err == nil) != (name == "response") {
			t.Errorf("response and %s: got %v", name, err)
		}
	}
	if checkNames(map[string]any{"key": 1, "\u212aey": 1}) == nil {
		t.Error("the Kelvin sign is not taken for k")
	}
}
