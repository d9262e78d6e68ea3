package provider

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Which keys of a set are good for a token that names them.
func TestPublishedKeys(t *testing.T) {
	ec, other, rsa, weak := newECKey("first"), newECKey("first"), newRSAKey(2048), newRSAKey(1024)
	edwards := testKey{"first", jose.EdDSA, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	with := func(k testKey, change func(*jose.JSONWebKey)) jose.JSONWebKey {
		public := k.public()
		change(&public)
		return public
	}
	encode := func(keys ...jose.JSONWebKey) string { return marshal(jose.JSONWebKeySet{Keys: keys}) }
	member := func(set, members string) string {
		return strings.Replace(set, `{"keys":[{`, `{"keys":[{`+members+`,`, 1)
	}
	noAlgorithm := func(k *jose.JSONWebKey) { k.Use, k.Algorithm = "", "" }
	encryption := func(k *jose.JSONWebKey) { k.Use = "enc" }
	const none, shared, secret = `no key with the kid "first"`, "two keys of the set have this kid",
		"of a private or symmetric key"
	var logins []loginTest
	for _, test := range []struct {
		name string
		sign testKey
		set  string
		text string // of the error; empty: good
	}{
		{"EC", ec, encode(ec.public()), ""},
		{"RSA", rsa, encode(rsa.public()), ""},
		{"Ed25519", edwards, encode(edwards.public()), ""},
		{"without use and alg", ec, encode(with(ec, noAlgorithm)), ""},
		{"beside others", ec, encode(newECKey("second").public(), ec.public()), ""},
		{"beside one for encryption of the same kid", ec, encode(with(other, encryption), ec.public()), ""},
		{"beside unknown kinds", ec, strings.Replace(encode(ec.public()), `{"keys":[`,
			`{"keys":[{"kid":"x","kty":"AKP2"},{"kid":"y"},{"kid":"z","kty":"EC","crv":"secp256k1"},7,null,`, 1), ""},
		{"with a padded thumbprint", rsa, member(encode(rsa.public()), `"x5t":"wCAFGcBT8CeA4U2mYa4z3xg0-Zw="`), ""},
		{"with an empty certificate", rsa, member(encode(rsa.public()), `"x5c":[""]`), ""},
		{"with members that make no sense", ec,
			member(encode(with(ec, noAlgorithm)), `"use":1,"alg":{},"key_ops":"x","x5u":1,"x5t#S256":[],"KID":"x"`), ""},
		{"with a padded modulus", rsa, regexp.MustCompile(`"n":"[^"]*`).ReplaceAllString(encode(rsa.public()), "$0="),
			"illegal base64"},
		{"two with one kid", ec, encode(ec.public(), other.public()), shared},
		{"three with one kid", ec, encode(other.public(), other.public(), ec.public()), shared},
		{"for encryption", ec, encode(with(ec, encryption)), none},
		{"for another algorithm", rsa, encode(with(rsa, func(k *jose.JSONWebKey) { k.Algorithm = "PS256" })),
			"not for the algorithm RS256"},
		{"of another kind", rsa, encode(with(ec, noAlgorithm)), "not for the algorithm RS256"},
		{"without a kid", ec, encode(with(ec, func(k *jose.JSONWebKey) { k.KeyID = "" })), none},
		{"too short", weak, encode(weak.public()), "1024 bits"},
		{"another key", ec, encode(other.public()), "verify"},
		{"a private key", ec, encode(jose.JSONWebKey{Key: ec.private, KeyID: "first"}), secret},
		{"a shared secret", ec, encode(jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32)), KeyID: "first"}), secret},
		{"none", ec, `{"keys":[]}`, none},
		{"no set", ec, `{}`, "the member keys is missing"},
		{"no JSON", ec, `<html>`, "the key set"},
		{"keys that appear twice", ec, strings.Replace(encode(ec.public()), `{"keys"`, `{"keys":[],"keys"`, 1),
			`"keys" appears twice`},
	} {
		logins = append(logins, loginTest{test.name, func(f *fake) {
			f.key, f.discovery["id_token_signing_alg_values_supported"] = test.sign, nil
			f.instead["/keys"] = sayJSON(test.set)
		}, test.text})
	}
	testLogins(t, "/userinfo", logins)
}

// A provider changes its keys, without a restart of the gateway. Anybody can send
// tokens that name keys which are not there, so the fetches are limited.
func TestUnknownKeysAreBounded(t *testing.T) {
	f := newFake(t)
	p := f.provider(nil)
	rotate := func() {
		f.key = newECKey(f.key.kid + "+")
		f.keys = []jose.JSONWebKey{f.key.public()}
	}
	must(exchange(t, p))
	retired := f.key
	rotate()
	must(exchange(t, p))
	must(exchange(t, p))
	f.wantCalled(t, "/keys", 2)
	for i := range 100 {
		_, err := p.VerifyLogoutToken(t.Context(),
			f.key.sign(f.logoutClaims(nil), joseHeader{"kid": fmt.Sprint("made up ", i)}))
		wantError(t, err, ErrInvalid, "no key with the kid")
	}
	for i := range 5 { // a signed answer is under the same limit
		f.instead["/userinfo"] = say(200, "application/jwt", f.key.sign(f.claims(nil), joseHeader{"kid": fmt.Sprint(i)}))
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "no key with the kid")
	}
	f.mend("/userinfo")
	must(exchange(t, p)) // known keys go on
	f.wantCalled(t, "/keys", keysBurst)

	// A key that is new after that is found ten seconds later.
	rotate()
	_, err := exchange(t, p)
	wantError(t, err, ErrFault, "no key with the kid")
	f.clock.Advance(keysInterval)
	must(exchange(t, p))
	f.wantCalled(t, "/keys", keysBurst+1)
	f.key = retired
	_, err = exchange(t, p)
	wantError(t, err, ErrFault, `no key with the kid "first"`)
}

// Keys that a provider has withdrawn are used for ten minutes and a fetch, and
// none is used for longer than an hour after the last success.
func TestKeysAge(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fake, p *Provider) {
		must(exchange(t, p))
		time.Sleep(keysFresh)
		must(exchange(t, p))
		f.wantCalled(t, "/keys", 1)
		for want := 2; want <= 3; want++ { // in the background: once, and again after that
			time.Sleep(keysFresh + time.Second)
			must(exchange(t, p))
			synctest.Wait()
			f.wantCalled(t, "/keys", want)
		}

		f.fail("/keys")
		time.Sleep(keysLifetime)
		must(exchange(t, p)) // an hour old
		synctest.Wait()
		if warned := f.log.Records(t,
			"fetching the provider's keys failed; the cached keys are used for up to an hour"); len(warned) != 1 {
			t.Errorf("%d warnings, want one", len(warned))
		}
		time.Sleep(time.Second)
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "503")

		f.mend("/keys")
		time.Sleep(keysInterval)
		must(exchange(t, p))
	})
}

// While the keys cannot be fetched, the error tells why, and the rate of fetches is
// limited.
func TestKeysOutOfReach(t *testing.T) {
	f := newFake(t)
	f.fail("/keys")
	p := f.provider(nil)
	for range 10 {
		_, err := exchange(t, p)
		wantError(t, err, ErrFault, "503")
		if known, _ := errors.AsType[*Error](err); known.Operation != "keys" {
			t.Errorf("operation %s", known.Operation)
		}
	}
	f.wantCalled(t, "/keys", keysBurst)
	f.mend("/keys")
	f.clock.Advance(keysInterval)
	must(exchange(t, p))
}

// The place of the keys may change with the metadata. New metadata that names the
// same place leaves the keys as they are.
func TestKeysMove(t *testing.T) {
	for _, move := range []bool{false, true} {
		inBubble(t, func(t *testing.T, f *fake, p *Provider) {
			must(exchange(t, p))
			time.Sleep(metadataLifetime - time.Second)
			must(exchange(t, p))
			synctest.Wait()
			fetches := f.called("/keys")
			if move {
				f.change(func() {
					f.key = newECKey("second")
					f.discovery["jwks_uri"] = f.idp + "/moved"
					f.instead["/moved"] = sayJSON(marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{f.key.public()}}))
				})
			}
			time.Sleep(2 * time.Second)
			ask(t, p)
			must(exchange(t, p))
			f.wantCalled(t, discoveryPath, 2)
			f.wantCalled(t, "/keys", fetches)
		})
	}
}
