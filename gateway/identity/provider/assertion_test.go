package provider

import (
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// An assertion is verified by a published key and an accepted algorithm. Without kid it is by the only key.
func TestAssertionKeys(t *testing.T) {
	t.Parallel()
	other := newECKey("second")
	noKid := joseHeader{"kid": nil}
	for _, c := range []struct {
		name   string
		header joseHeader
		key    func(f *fake) testKey // nil: that of the issuer
		keys   int                   // that the issuer publishes
		change func(*TrustedOptions)
		want   string
	}{
		{"by the key that it names", nil, nil, 2, nil, ""},
		{"by the only key", noKid, nil, 1, nil, ""},
		{"by one of two keys", noKid, nil, 2, nil, "no kid"},
		{"by a key that is not published", joseHeader{"kid": "first"}, func(*fake) testKey { return other }, 1, nil,
			"does not verify"},
		{"by an algorithm that is not accepted", nil, nil, 1,
			func(o *TrustedOptions) { o.Algorithms = []string{"RS256"} }, `it is signed with "ES256"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.keys = []jose.JSONWebKey{f.key.public(), other.public()}[:c.keys]
			key := f.key
			if c.key != nil {
				key = c.key(f)
			}
			claims := f.claims(object{"aud": "https://gate.example", "nonce": nil})
			token := key.sign(claims, c.header)
			_, err := f.trusted(c.change).VerifyAssertion(t.Context(), token, "https://gate.example")
			if c.want == "" && err != nil {
				t.Error(err)
			} else if c.want != "" {
				wantError(t, err, ErrInvalid, c.want)
			}
		})
	}
	f := newFake(t)
	claims := f.claims(object{"aud": "https://gate.example", "nonce": nil})
	_, err := f.trusted(nil).VerifyAssertion(t.Context(), unsigned(claims, algNone), "https://gate.example")
	wantError(t, err, ErrInvalid, `it is signed with "none"`)
}

// An issuer whose tokens have no kid may replace its only key at any time. Wrong signatures cause few requests.
func TestAssertionKeyReplaced(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.keys = []jose.JSONWebKey{f.key.public()}
	issuer, claims := f.trusted(nil), f.claims(object{"aud": "https://gate.example", "nonce": nil})
	verify := func(key testKey) error {
		_, err := issuer.VerifyAssertion(t.Context(), key.sign(claims, joseHeader{"kid": nil}), "https://gate.example")
		return err
	}
	retired := f.key
	if err := verify(retired); err != nil {
		t.Fatal(err)
	}
	f.key = newECKey("second")
	f.keys = []jose.JSONWebKey{f.key.public()}
	if err := verify(f.key); err != nil {
		t.Errorf("by the new key: %v", err)
	}
	for range 10 {
		wantError(t, verify(retired), ErrInvalid, "does not verify")
	}
	f.wantCalled(t, "/keys", keysBurst)
}
