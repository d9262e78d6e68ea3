package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
)

// keys are those of a client that authenticates by assertions.
type keys struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
}

func newKeys(t *testing.T) *keys {
	t.Helper()
	return &keys{
		must.Get(rsa.GenerateKey(rand.Reader, 2048))(t), must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t),
	}
}

// set returns the JWK set, whose kids are "rsa" and "ec" with a suffix.
func (k *keys) set(t *testing.T, suffix string) string {
	t.Helper()
	return string(must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.rsa.Public(), KeyID: "rsa" + suffix, Use: "sig"}, {Key: k.ec.Public(), KeyID: "ec" + suffix},
	}}))(t))
}

// token is an assertion while a test changes it.
type token struct {
	method jwt.SigningMethod
	key    any
	header map[string]any
	claims jwt.MapClaims
}

// request returns a request with an assertion of a client, which edit changes.
func (k *keys) request(t *testing.T, id string, edit func(*token)) Presented {
	t.Helper()
	now := clocktest.New().Now()
	one := &token{jwt.SigningMethodRS256, k.rsa, map[string]any{"kid": "rsa"}, jwt.MapClaims{
		"iss": id, "sub": id, "aud": issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}}
	if edit != nil {
		edit(one)
	}
	unsigned := jwt.NewWithClaims(one.method, one.claims)
	maps.Copy(unsigned.Header, one.header)
	return Presented{ID: id, AssertionType: assertionType, Assertion: must.Get(unsigned.SignedString(one.key))(t)}
}

// keyClient returns the URL of a document of a client with keys in it.
func keyClient(s *site, path, members string) string {
	return s.document(path, `{"client_id": "{ID}", "redirect_uris": ["https://app.example.org/cb"],
		"token_endpoint_auth_method": "private_key_jwt", `+members+`}`)
}

// A client proves who it is by an assertion that its key has signed, for this server, now.
func TestAssertion(t *testing.T) {
	t.Parallel()
	s, k := newSite(t), newKeys(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	id := keyClient(s, "/app.json", `"jwks": `+k.set(t, ""))
	other := keyClient(s, "/other.json", `"jwks": `+newKeys(t).set(t, ""))
	public := s.document("/public.json", appDocument)
	now := r.clock.Now()
	publicDER := must.Get(x509.MarshalPKIXPublicKey(k.rsa.Public()))(t)
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	at := func(claim string, d time.Duration) func(*token) {
		return func(one *token) { one.claims[claim] = now.Add(d).Unix() }
	}
	set := func(claim string, value any) func(*token) { return func(one *token) { one.claims[claim] = value } }
	header := func(name string, value any) func(*token) { return func(one *token) { one.header[name] = value } }
	signed := func(method jwt.SigningMethod, key any, kid string) func(*token) {
		return func(one *token) { one.method, one.key, one.header["kid"] = method, key, kid }
	}
	for name, c := range map[string]struct {
		edit func(*token)
		ok   bool
	}{
		"as it is":           {nil, true},
		"ES256":              {signed(jwt.SigningMethodES256, k.ec, "ec"), true},
		"without kid":        {func(one *token) { delete(one.header, "kid") }, true},
		"token endpoint":     {set("aud", tokenEndpoint), true},
		"both audiences":     {set("aud", []string{tokenEndpoint, issuer}), true},
		"typ":                {header("typ", "client-authentication+jwt"), true},
		"ten minutes":        {at("exp", 10*time.Minute), true},
		"part of a second":   {set("exp", float64(now.Unix())+30.5), true},
		"clock ahead":        {func(one *token) { at("iat", 20*time.Second)(one); at("nbf", 20*time.Second)(one) }, true},
		"none":               {signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "rsa"), false},
		"HS256, public key":  {signed(jwt.SigningMethodHS256, publicPEM, "rsa"), false},
		"HS256, empty":       {signed(jwt.SigningMethodHS256, []byte{}, "rsa"), false},
		"PS256":              {func(one *token) { one.method = jwt.SigningMethodPS256 }, false},
		"alg of another key": {func(one *token) { one.header["kid"] = "ec" }, false},
		"unknown kid":        {header("kid", "new"), false},
		"another's key":      {func(one *token) { one.key = newKeys(t).rsa }, false},
		"its own key":        {func(one *token) { one.key = newKeys(t).rsa; one.header["jwk"] = map[string]any{} }, false},
		"crit":               {header("crit", []string{"exp"}), false},
		"access token":       {header("typ", "at+jwt"), false},
		"no exp":             {func(one *token) { delete(one.claims, "exp") }, false},
		"exp a text":         {set("exp", "4000000000"), false},
		"expired":            {at("exp", 0), false},
		"too long":           {at("exp", 11*time.Minute), false},
		"iat ahead":          {at("iat", time.Minute), false},
		"nbf ahead":          {at("nbf", time.Minute), false},
		"no jti":             {func(one *token) { delete(one.claims, "jti") }, false},
		"empty jti":          {set("jti", ""), false},
		"no aud":             {func(one *token) { delete(one.claims, "aud") }, false},
		"empty aud":          {set("aud", []string{}), false},
		"aud of another":     {set("aud", "https://other.example"), false},
		"aud of another too": {set("aud", []string{issuer, "https://other.example"}), false},
		"aud almost":         {set("aud", issuer+"/"), false},
		"iss of another":     {set("iss", other), false},
		"sub of another":     {set("sub", other), false},
		"of another":         {func(one *token) { one.claims["iss"], one.claims["sub"] = other, other }, false},
		"no sub":             {func(one *token) { delete(one.claims, "sub") }, false},
	} {
		client, err := r.authenticate(k.request(t, id, c.edit))
		if c.ok && (err != nil || client.ID != id || !client.Confidential()) || !c.ok && !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, client, err)
		}
	}
	for name, p := range map[string]Presented{
		"another type": {
			ID: id, AssertionType: "urn:ietf:params:oauth:client-assertion-type:saml2-bearer", Assertion: "x",
		},
		"no assertion":       {ID: id},
		"an empty assertion": {ID: id, AssertionType: assertionType},
		"no type":            {ID: id, Assertion: k.request(t, id, nil).Assertion},
		"a secret":           {ID: id, Secret: "anything"},
		"too long":           {ID: id, AssertionType: assertionType, Assertion: strings.Repeat("x", maxAssertion+1)},
		"a public client":    k.request(t, public, nil),
	} {
		if client, err := r.authenticate(p); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, client, err)
		}
	}
	named := k.request(t, id, nil)
	named.ID = ""
	if client, err := r.authenticate(named); err != nil || client.ID != id {
		t.Errorf("named by the assertion alone: %+v, %v", client, err)
	}
}

// An assertion serves once, also of many that come together, and at another endpoint. One
// that was refused is not used.
func TestAssertionReplay(t *testing.T) {
	t.Parallel()
	s, k := newSite(t), newKeys(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	id := keyClient(s, "/app.json", `"jwks": `+k.set(t, ""))
	other := keyClient(s, "/other.json", `"jwks": `+k.set(t, ""))
	one := k.request(t, id, func(one *token) { one.claims["jti"] = "one" })
	forged := k.request(t, id, func(one *token) { one.claims["jti"], one.key = "one", newKeys(t).rsa })
	if _, err := r.authenticate(forged); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("forged: %v", err)
	}
	errs, group := make([]error, 8), sync.WaitGroup{}
	for i := range errs {
		group.Go(func() { _, errs[i] = r.authenticate(one) })
	}
	group.Wait()
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		} else if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "used before") {
			t.Errorf("got %v", err)
		}
	}
	if accepted != 1 {
		t.Errorf("accepted %d times", accepted)
	}
	again := k.request(t, id, func(again *token) { again.claims["jti"], again.claims["aud"] = "one", tokenEndpoint })
	if _, err := r.authenticate(again); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("another assertion with the same jti: %v", err)
	}
	if _, err := r.authenticate(k.request(t, other, func(one *token) { one.claims["jti"] = "one" })); err != nil {
		t.Errorf("the jti of another client: %v", err)
	}
	r.clock.Advance(59 * time.Second) // exp is a second later
	_, err := r.authenticate(one)
	if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), "used before") {
		t.Errorf("at its end: %v", err)
	}
}

// Keys are asked for by both types that servers have for them.
func TestAssertionKeysAreAccepted(t *testing.T) {
	t.Parallel()
	s, k := newSite(t), newKeys(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	var accepts string
	keys := s.put("/keys", func(w http.ResponseWriter, r *http.Request) {
		accepts = r.Header.Get("Accept")
		w.WriteHeader(http.StatusNotAcceptable)
	})
	_, err := r.authenticate(k.request(t, keyClient(s, "/app.json", `"jwks_uri": "`+keys+`"`), nil))
	if err == nil || !strings.Contains(accepts, "application/json") ||
		!strings.Contains(accepts, "application/jwk-set+json") {
		t.Errorf("asked for %q: %v", accepts, err)
	}
}

// Keys are fetched when a client replaces them, but not for each assertion with an unknown kid.
func TestAssertionKeysAreReplaced(t *testing.T) {
	t.Parallel()
	s, k := newSite(t), newKeys(t)
	r := newRig(t, "{}", s, "127.0.0.1")
	named := func(kid string) func(*token) {
		return func(one *token) {
			one.header["kid"] = kid
			one.claims["exp"] = r.clock.Now().Add(time.Minute).Unix()
		}
	}
	serve := func(suffix string) { s.document("/keys", k.set(t, suffix)) }
	serve("")
	for name, id := range map[string]string{
		"jwks_uri": keyClient(s, "/app.json", `"jwks_uri": "`+s.URL+`/keys"`),
		"jwks":     keyClient(s, "/inline.json", `"jwks": `+k.set(t, "")),
	} {
		if _, err := r.authenticate(k.request(t, id, named("rsa"))); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	serve("2")
	id := s.URL + "/app.json"
	for range 3 {
		if _, err := r.authenticate(k.request(t, id, named("rsa2"))); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("at once: %v", err)
		}
	}
	inline := keyClient(s, "/inline.json", `"jwks": `+k.set(t, "2"))
	if n := s.count("/keys"); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	r.clock.Advance(keysRest + time.Second)
	for _, id := range []string{id, inline} {
		if _, err := r.authenticate(k.request(t, id, named("rsa2"))); err != nil {
			t.Errorf("%s, a minute later: %v", id, err)
		}
		if _, err := r.authenticate(k.request(t, id, named("rsa"))); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s, the old key: %v", id, err)
		}
	}
	s.put("/keys", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	r.clock.Advance(25 * time.Hour)
	_, err := r.authenticate(k.request(t, s.URL+"/app.json", named("rsa2")))
	if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrUnauthenticated) {
		t.Errorf("no keys for a day: %v", err)
	}
	s.Close()
	r.clock.Advance(25 * time.Hour)
	if _, err := r.authenticate(k.request(t, id, named("rsa2"))); !errors.Is(err, ErrUnreachable) {
		t.Errorf("no answer for a day: %v", err)
	}
}

// A client of the configuration proves who it is by its keys, which are there, or at an address that
// the operator has chosen: at any host, over the client's own roots. Neither a secret nor the key of
// another client does.
func TestAssertionOfAConfiguredClient(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	k, other := newKeys(t), newKeys(t)
	address := s.document("/keys", k.set(t, ""))
	roots := filepath.Join(t.TempDir(), "roots.pem")
	must.Do(t, os.WriteFile(roots, pem.EncodeToMemory(
		&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	r := newRig(t, `oauth:
  clients:
    - {id: there, grants: [client_credentials], jwks: `+k.set(t, "")+`}
    - {id: away, grants: [client_credentials], jwks_uri: "`+address+`", trusted_roots: `+roots+`}`, nil)
	for _, id := range []string{"there", "away"} {
		client, err := r.authenticate(k.request(t, id, nil))
		if err != nil || client.ID != id || !client.Confidential() || !client.Configured {
			t.Errorf("%s: %v, %v", id, client, err)
		}
		again := k.request(t, id, nil)
		must.Get(r.authenticate(again))(t)
		for name, p := range map[string]Presented{
			"a key of another client": other.request(t, id, nil), "an assertion again": again, "nothing": {ID: id},
			"a secret":                  {ID: id, Secret: "a secret"},
			"an assertion of the other": {ID: id, AssertionType: assertionType, Assertion: k.request(t, "x", nil).Assertion},
			"another kid":               k.request(t, id, func(o *token) { o.header["kid"] = "next" }),
		} {
			if _, err := r.authenticate(p); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s, %s: %v", id, name, err)
			}
		}
	}
	if n := s.count("/keys"); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	// Keys are replaced, and those that cannot be had decide nothing.
	s.document("/keys", other.set(t, "2"))
	r.clock.Advance(keysRest + time.Second)
	next := func(o *token) {
		o.header["kid"] = "rsa2"
		o.claims["exp"] = r.clock.Now().Add(time.Minute).Unix()
	}
	must.Get(r.authenticate(other.request(t, "away", next)))(t)
	s.Close()
	r.clock.Advance(usedAtMost)
	if _, err := r.authenticate(other.request(t, "away", next)); !errors.Is(err, ErrUnreachable) {
		t.Errorf("without an answer: %v", err)
	}
}
