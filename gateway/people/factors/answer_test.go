package factors

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// hostile are authenticators and browsers whose every answer is refused. Each breaks one
// rule. The error of answers that cannot be read is ErrMalformed.
func hostile() map[string]func(a *authenticator.Authenticator) {
	said := func(name string, value any) func(*authenticator.Authenticator) {
		return func(a *authenticator.Authenticator) {
			a.ClientData = func(said map[string]any) { said[name] = value }
		}
	}
	inAnswer := func(name string, value any) func(*authenticator.Authenticator) {
		return func(a *authenticator.Authenticator) {
			a.Answer = func(answer map[string]any) { answer[name] = value }
		}
	}
	origin := func(o string) func(*authenticator.Authenticator) {
		return func(a *authenticator.Authenticator) { a.Origin = o }
	}
	return map[string]func(a *authenticator.Authenticator){
		"origin: another site":    origin("https://auth.example.com"),
		"origin: the RP ID":       origin("https://example.org"),
		"origin: a sibling":       origin("https://other.example.org"),
		"origin: below":           origin("https://x.auth.example.org"),
		"origin: http":            origin("http://auth.example.org"),
		"origin: a port":          origin("https://auth.example.org:8443"),
		"origin: port 443":        origin("https://auth.example.org:443"),
		"origin: a path":          origin("https://auth.example.org/"),
		"origin: user info":       origin("https://user@auth.example.org"),
		"origin: upper case":      origin("https://AUTH.example.org"),
		"origin: upper scheme":    origin("HTTPS://auth.example.org"),
		"origin: empty":           origin(""),
		"origin: null":            said("origin", nil),
		"origin: a list":          said("origin", []string{testOrigin}),
		"RP ID":                   func(a *authenticator.Authenticator) { a.RPID = "example.com" },
		"RP ID: the host":         func(a *authenticator.Authenticator) { a.RPID = "auth.example.org" },
		"user not present":        func(a *authenticator.Authenticator) { a.Absent = true },
		"backed up, not eligible": func(a *authenticator.Authenticator) { a.BackedUp = true },
		"challenge: another":      said("challenge", encode(make([]byte, 32))),
		"challenge: none":         said("challenge", nil),
		"challenge: a number":     said("challenge", 1),
		"type: none":              said("type", nil),
		"type: payment":           said("type", "payment.get"),
		"cross-origin":            said("crossOrigin", true),
		"cross-origin: a text":    said("crossOrigin", "false"),
		"cross-origin: null":      said("crossOrigin", nil),
		"top origin":              said("topOrigin", testOrigin),
		"top origin: empty":       said("topOrigin", ""),
		"token binding: present":  said("tokenBinding", map[string]any{"status": "present", "id": "x"}),
		"token binding: no id":    said("tokenBinding", map[string]any{"status": "present"}),
		"token binding: an id":    said("tokenBinding", map[string]any{"status": "supported", "id": "x"}),
		"token binding: a status": said("tokenBinding", map[string]any{"status": "x"}),
		"token binding: a text":   said("tokenBinding", "supported"),
		"token binding: null":     said("tokenBinding", nil),
		"case: another member":    said("Origin", "https://auth.example.com"),
		"case: long s":            said("cro\u017f\u017fOrigin", true),
		"case: crossorigin":       said("CROSSORIGIN", true),
		"another id":              inAnswer("id", encode([]byte("other"))),
		"another rawId":           inAnswer("rawId", encode([]byte("other"))),
		"another type":            inAnswer("type", "password"),
		"case: ID":                inAnswer("ID", encode([]byte("other"))),
		"case: response":          inAnswer("Response", map[string]any{}),
		"no response":             inAnswer("response", nil),
		"a response of text":      inAnswer("response", "x"),
		"large":                   inAnswer("clientExtensionResults", map[string]any{"x": strings.Repeat("x", maxAnswer)}),
		"no signature": func(a *authenticator.Authenticator) {
			a.Answer = func(answer map[string]any) {
				response := answer["response"].(map[string]any)
				delete(response, "signature")
				delete(response, "attestationObject")
			}
		},
	}
}

// TestHostileAnswers checks that no answer of a hostile authenticator or browser adds a
// passkey or signs in, after a password or alone.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for name, spoil := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, fresh, a := site(t), verified(), verified()
			s.add(a, "alice", "key")
			spoil(fresh)
			spoil(a)
			if p, err := s.tryAdd(fresh, "alice", "key"); !isAnswerError(err) {
				t.Errorf("an enrolment: got %+v, %v", p, err)
			}
			if got, err := s.signIn(a); !isAnswerError(err) {
				t.Errorf("alone: got %+v, %v", got, err)
			}
			if got, err := s.follow(a, "alice"); !isAnswerError(err) {
				t.Errorf("after a password: got %+v, %v", got, err)
			}
		})
	}
}

func isAnswerError(err error) bool { return errors.Is(err, ErrRefused) || errors.Is(err, ErrMalformed) }

// TestHarmlessAnswers checks that answers with what browsers may add are accepted.
func TestHarmlessAnswers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(said map[string]any){
		"no crossOrigin": func(said map[string]any) { delete(said, "crossOrigin") },
		"a new member":   func(said map[string]any) { said["other_keys_can_be_added_here"] = "do not compare" },
		"token binding: supported": func(said map[string]any) {
			said["tokenBinding"] = map[string]any{"status": "supported"}
		},
		"token binding: not supported": func(said map[string]any) {
			said["tokenBinding"] = map[string]any{"status": "not-supported"}
		},
	} {
		s, a := site(t), verified()
		a.ClientData = change
		a.Answer = func(answer map[string]any) { // some password managers say so unasked
			answer["clientExtensionResults"] = map[string]any{"credProps": map[string]any{"rk": true}}
		}
		if _, err := s.tryAdd(a, "alice", "key"); err != nil {
			t.Errorf("%s: enrolment: %v", name, err)
			continue
		}
		if _, err := s.signIn(a); err != nil {
			t.Errorf("%s: sign-in: %v", name, err)
		}
	}
}

// TestAttestations checks that an attestation counts only if it can be verified: none, or by
// the key itself.
func TestAttestations(t *testing.T) {
	t.Parallel()
	sign := func(key crypto.Signer, message []byte) []byte {
		hash := sha256.Sum256(message)
		return must.Get(key.Sign(rand.Reader, hash[:], crypto.SHA256))(t)
	}
	other := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	for _, c := range []struct {
		name   string
		ok     bool
		format string
		attest func(signed []byte, key crypto.Signer) map[string]any
	}{
		{"none", true, "none", func([]byte, crypto.Signer) map[string]any { return map[string]any{} }},
		{"none with a statement", false, "none", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(key, signed)}
		}},
		{"self", true, "packed", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(key, signed)}
		}},
		{"self, another key", false, "packed", func(signed []byte, _ crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(other, signed)}
		}},
		{"self, another message", false, "packed", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(key, signed[1:])}
		}},
		{"self, another algorithm", false, "packed", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.EdDSA, "sig": sign(key, signed)}
		}},
		{"packed, empty", false, "packed", func([]byte, crypto.Signer) map[string]any { return map[string]any{} }},
		{"packed with a certificate", false, "packed", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(key, signed), "x5c": []any{[]byte("x")}}
		}},
		{"packed with a certificate of a maker", false, "packed", func(signed []byte, _ crypto.Signer) map[string]any {
			return map[string]any{
				"alg": authenticator.ES256, "sig": sign(other, signed), "x5c": []any{makersCertificate(t, other)},
			}
		}},
		{"packed with no certificates", false, "packed", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"alg": authenticator.ES256, "sig": sign(key, signed), "x5c": []any{}}
		}},
		{"fido-u2f", false, "fido-u2f", func(signed []byte, key crypto.Signer) map[string]any {
			return map[string]any{"sig": sign(key, signed), "x5c": []any{[]byte("x")}}
		}},
		{"unknown", false, "x", func([]byte, crypto.Signer) map[string]any { return map[string]any{} }},
		{"empty", false, "", func([]byte, crypto.Signer) map[string]any { return map[string]any{} }},
	} {
		s, a := site(t), verified()
		a.Attestation = func(signed []byte, key crypto.Signer) (string, map[string]any) {
			return c.format, c.attest(signed, key)
		}
		if _, err := s.tryAdd(a, "alice", "key"); (err == nil) != c.ok || err != nil && !isAnswerError(err) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// TestPublicKeys checks that only a key that can verify passkeys is enrolled.
func TestPublicKeys(t *testing.T) {
	t.Parallel()
	coordinate := bytes.Repeat([]byte{1}, 32)
	long := func(n int) []byte { return append([]byte{1}, make([]byte, n-1)...) }
	exponent := []byte{1, 0, 1}
	for name, key := range map[string]map[int]any{
		"empty":                  {},
		"no point of the curve":  {1: 2, 3: -7, -1: 1, -2: coordinate, -3: coordinate},
		"ES256 on another curve": {1: 2, 3: -7, -1: 2, -2: coordinate, -3: coordinate},
		"ES384":                  {1: 2, 3: -35, -1: 2, -2: long(48), -3: long(48)},
		"ES256 as EdDSA":         {1: 1, 3: -7, -1: 6, -2: coordinate},
		"EdDSA, short":           {1: 1, 3: -8, -1: 6, -2: coordinate[1:]},
		"RS1":                    {1: 3, 3: -65535, -1: long(256), -2: exponent},
		"RS256, 1024 bits":       {1: 3, 3: -257, -1: long(128), -2: exponent},
		"RS256, leading zeros":   {1: 3, 3: -257, -1: append(make([]byte, 128), long(128)...), -2: exponent},
		"RS256, huge":            {1: 3, 3: -257, -1: long(2048), -2: exponent},
		"symmetric":              {1: 4, 3: 5, -1: coordinate},
	} {
		s, a := site(t), verified()
		a.PublicKey = must.Get(webauthncbor.Marshal(key))(t)
		if p, err := s.tryAdd(a, "alice", "key"); !isAnswerError(err) {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
}

// makersCertificate returns a certificate that has the form of those of makers (WebAuthn
// Level 3, section 8.2.1), and that anybody can make.
func makersCertificate(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{
			Country: []string{"CH"}, Organization: []string{"Maker"},
			OrganizationalUnit: []string{"Authenticator Attestation"}, CommonName: "Key",
		},
		BasicConstraintsValid: true,
	}
	return must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
}

// TestJSONOfAnswers checks that an answer is one JSON object that every parser reads alike.
func TestJSONOfAnswers(t *testing.T) {
	t.Parallel()
	s, a := site(t), verified()
	s.add(a, "alice", "key")
	begun := must.Get(s.BeginSignIn())(t)
	answer := must.Get(a.Get(begun.Options))(t)
	inner := func(change func([]byte) []byte) []byte { // changes the client data
		var whole map[string]any
		must.Do(t, json.Unmarshal(answer, &whole))
		response := whole["response"].(map[string]any)
		said := must.Get(decode(response["clientDataJSON"].(string), 4096))(t)
		response["clientDataJSON"] = encode(change(said))
		return must.Get(json.Marshal(whole))(t)
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "null": []byte("null"), "a list": append(append([]byte("["), answer...), ']'),
		"cut off": answer[:len(answer)-1], "trailing": append(bytes.Clone(answer), answer...),
		"trailing text":  append(bytes.Clone(answer), 'x'),
		"twice":          bytes.Replace(answer, []byte(`"type":`), []byte(`"type":"public-key","type":`), 1),
		"twice, folded":  bytes.Replace(answer, []byte(`"type":`), []byte(`"TYPE":"public-key","type":`), 1),
		"deep":           []byte(strings.Repeat("[", 20_000)),
		"large":          append(bytes.Clone(answer), bytes.Repeat([]byte(" "), maxAnswer)...),
		"inner trailing": inner(func(said []byte) []byte { return append(said, said...) }),
		"inner twice": inner(func(said []byte) []byte {
			return append([]byte(`{"origin":"https://auth.example.org",`), said[1:]...)
		}),
		"inner twice, folded": inner(func(said []byte) []byte {
			return append([]byte(`{"ORIGIN":"https://auth.example.com",`), said[1:]...)
		}),
		"inner folded alone": inner(func(said []byte) []byte {
			return bytes.Replace(said, []byte(`"origin"`), []byte(`"Origin"`), 1)
		}),
	} {
		if got, err := s.FinishSignIn(begun.Record, bad, s.lookup); !isAnswerError(err) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		if key, err := CeremonyKey(bad); err == nil && !strings.HasPrefix(name, "inner folded") {
			t.Errorf("%s: got the key %q", name, key)
		}
	}
	if key, err := CeremonyKey(answer); err != nil || key != begun.Key {
		t.Errorf("got the key %q, %v", key, err)
	}
	if _, err := s.FinishSignIn(begun.Record, append(answer, '\n'), s.lookup); err != nil {
		t.Errorf("a line break at the end: %v", err)
	}
}
