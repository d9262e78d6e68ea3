package provider

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"authgate/gateway/clocktest"
)

// Which keys of a set are good for a token that names them.
func TestPublishedKeys(t *testing.T) {
	ec, other := newECKey(t, "first"), newECKey(t, "first")
	rsa := newRSAKey(t, "first", 2048)
	weak := newRSAKey(t, "first", 1024)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards := testKey{kid: "first", algorithm: jose.EdDSA, private: private}
	with := func(k testKey, change func(*jose.JSONWebKey)) jose.JSONWebKey {
		public := k.public()
		change(&public)
		return public
	}
	encode := func(keys ...jose.JSONWebKey) string { return marshal(t, jose.JSONWebKeySet{Keys: keys}) }
	tests := []struct {
		name string
		sign testKey
		set  string
		text string // of the error; empty: good
	}{
		{"EC", ec, encode(ec.public()), ""},
		{"RSA", rsa, encode(rsa.public()), ""},
		{"Ed25519", edwards, encode(edwards.public()), ""},
		{"without use and alg", ec, encode(with(ec, func(k *jose.JSONWebKey) { k.Use, k.Algorithm = "", "" })), ""},
		{"beside others", ec, encode(newECKey(t, "second").public(), ec.public()), ""},
		{"beside one for encryption of the same kid", ec, encode(with(other, func(k *jose.JSONWebKey) { k.Use = "enc" }), ec.public()), ""},
		{"beside unknown kinds", ec, strings.Replace(encode(ec.public()), `{"keys":[`, `{"keys":[{"kid":"x","kty":"AKP2"},{"kid":"y"},{"kid":"z","kty":"EC","crv":"secp256k1"},7,null,`, 1), ""},
		{"two with one kid", ec, encode(ec.public(), other.public()), "two keys of the set have this kid"},
		{"the same key twice", ec, encode(ec.public(), ec.public()), "two keys of the set have this kid"},
		{"three with one kid", ec, encode(other.public(), other.public(), ec.public()), "two keys of the set have this kid"},
		{"for encryption", ec, encode(with(ec, func(k *jose.JSONWebKey) { k.Use = "enc" })), `no key with the kid "first"`},
		{"for another algorithm", rsa, encode(with(rsa, func(k *jose.JSONWebKey) { k.Algorithm = "PS256" })), "not for the algorithm RS256"},
		{"of another kind", rsa, encode(with(ec, func(k *jose.JSONWebKey) { k.Algorithm = "" })), "not for the algorithm RS256"},
		{"without a kid", ec, encode(with(ec, func(k *jose.JSONWebKey) { k.KeyID = "" })), `no key with the kid "first"`},
		{"too short", weak, encode(weak.public()), "1024 bits"},
		{"another key", ec, encode(other.public()), "verify"},
		{"a private key", ec, encode(jose.JSONWebKey{Key: ec.private, KeyID: "first"}), "no public RSA, EC or Ed25519 key"},
		{"a shared secret", ec, encode(jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "first"}), "no public RSA, EC or Ed25519 key"},
		{"none", ec, `{"keys":[]}`, `no key with the kid "first"`},
		{"no set", ec, `{}`, "the member keys is missing"},
		{"no JSON", ec, `<html>`, "the key set"},
		{"keys that appear twice", ec, strings.Replace(encode(ec.public()), `{"keys"`, `{"keys":[],"keys"`, 1), `"keys" appears twice`},
	}
	var logins []loginTest
	for _, test := range tests {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.key = test.sign
			f.discovery["id_token_signing_alg_values_supported"] = nil
			f.instead["/keys"] = say(200, "application/json", test.set)
		}, test.text})
	}
	testLogins(t, logins)
}

// A provider changes its keys, without a restart of the gateway.
func TestKeyRotation(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	p := f.provider(nil)
	mustExchange(t, p)

	retired := f.key
	f.key = newECKey(t, "second")
	f.keys = []jose.JSONWebKey{f.key.public()}
	mustExchange(t, p)
	mustExchange(t, p)
	if got := f.called("/keys"); got != 2 {
		t.Errorf("%d fetches of keys, want 2", got)
	}

	f.key = retired
	_, err := exchange(t, p)
	wantError(t, err, ErrFault, `no key with the kid "first"`)
}

// Anybody can send tokens that name keys which are not there.
func TestUnknownKeysAreBounded(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	p := f.provider(nil)
	mustExchange(t, p)
	for i := range 1000 {
		raw := newLogoutToken(t, f, nil, map[jose.HeaderKey]any{"kid": fmt.Sprint("made up ", i)})
		_, err := p.VerifyLogoutToken(t.Context(), raw)
		wantError(t, err, ErrInvalid, "no key with the kid")
	}
	for i := range 5 { // a signed answer is under the same limit
		f.instead["/userinfo"] = say(200, "application/jwt", f.key.sign(t, f.claims(nil), map[jose.HeaderKey]any{"kid": fmt.Sprint(i)}))
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "no key with the kid")
	}
	delete(f.instead, "/userinfo")
	mustExchange(t, p) // known keys go on
	if got := f.called("/keys"); got != keysBurst {
		t.Errorf("%d fetches of keys, want %d", got, keysBurst)
	}

	// A key that is new after that is found ten seconds later.
	f.key = newECKey(t, "second")
	f.keys = append(f.keys, f.key.public())
	if _, err := exchange(t, p); err == nil {
		t.Error("the new key was fetched past the limit")
	}
	clock.Advance(keysInterval)
	mustExchange(t, p)
	if got := f.called("/keys"); got != keysBurst+1 {
		t.Errorf("%d fetches of keys, want %d", got, keysBurst+1)
	}
}

// Keys that a provider has withdrawn are used for ten minutes and a fetch, and
// none is used for longer than an hour after the last success.
func TestKeysAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := timedFake(t)
		var logged strings.Builder
		p.logger = slog.New(slog.NewTextHandler(&logged, nil))
		mustExchange(t, p)
		time.Sleep(keysFresh)
		mustExchange(t, p)
		if got := f.called("/keys"); got != 1 {
			t.Errorf("%d fetches of keys within ten minutes", got)
		}

		for want := 2; want <= 3; want++ { // once, and again after that
			time.Sleep(keysFresh + time.Second)
			mustExchange(t, p)
			synctest.Wait()
			if got := f.called("/keys"); got != want {
				t.Errorf("%d fetches of keys, want %d with each renewal in the background", got, want)
			}
		}

		f.change(func() { f.instead["/keys"] = say(503, "text/plain", "") })
		time.Sleep(keysLifetime)
		mustExchange(t, p) // an hour old
		synctest.Wait()
		if !strings.Contains(logged.String(), "fetching the provider's keys failed") {
			t.Errorf("the log says %q", logged.String())
		}
		time.Sleep(time.Second)
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "503")

		f.change(func() { delete(f.instead, "/keys") })
		time.Sleep(keysInterval)
		mustExchange(t, p)
	})
}

// While the keys cannot be fetched, the error tells why, and the rate of fetches is
// limited.
func TestKeysOutOfReach(t *testing.T) {
	clock := clocktest.New()
	f := newFake(t, clock.Now).listen()
	f.instead["/keys"] = say(500, "text/plain", "")
	p := f.provider(nil)
	for range 10 {
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "500")
		if known, _ := errors.AsType[*Error](err); known.Operation != "keys" {
			t.Errorf("operation %s", known.Operation)
		}
	}
	if got := f.called("/keys"); got != keysBurst {
		t.Errorf("%d fetches of keys, want %d", got, keysBurst)
	}
	delete(f.instead, "/keys")
	clock.Advance(keysInterval)
	mustExchange(t, p)
}

// The place of the keys may change with the metadata.
func TestKeysMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, _ := timedFake(t)
		mustExchange(t, p)
		f.change(func() {
			f.key = newECKey(t, "second")
			f.discovery["jwks_uri"] = f.idp + "/moved"
			f.instead["/moved"] = say(200, "application/json", marshal(t, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{f.key.public()}}))
			f.instead["/keys"] = say(404, "text/plain", "")
		})
		time.Sleep(metadataLifetime + time.Second)
		if _, err := p.AuthorizationURL(t.Context(), testAttempt); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mustExchange(t, p)
	})
}

// New metadata that names the same place leaves the keys as they are.
func TestKeysStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p, calls := timedFake(t)
		mustExchange(t, p)
		time.Sleep(metadataLifetime - time.Second)
		mustExchange(t, p)
		synctest.Wait()
		fetches := f.called("/keys")
		time.Sleep(2 * time.Second)
		mustExchange(t, p)
		synctest.Wait()
		mustExchange(t, p)
		if len(calls()) != 2 || f.called("/keys") != fetches {
			t.Errorf("%d calls of discovery, want 2; %d fetches of keys, want %d", len(calls()), f.called("/keys"), fetches)
		}
	})
}
