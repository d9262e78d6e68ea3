package factors

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
)

// response returns a member of the response of an answer, decoded.
func response(tb testing.TB, answer []byte, name string) []byte {
	tb.Helper()
	text, _ := decoded(tb, answer)["response"].(map[string]any)[name].(string)
	return must.Get(decode(text, maxAnswer))(tb)
}

// withResponse returns an answer with another member of the response.
func withResponse(tb testing.TB, answer []byte, name string, value []byte) []byte {
	tb.Helper()
	whole := decoded(tb, answer)
	whole["response"].(map[string]any)[name] = encode(value)
	return must.Get(json.Marshal(whole))(tb)
}

// spliced returns raw with patch in the place of what is at a position.
func spliced(raw, patch []byte, at uint) []byte {
	start := int(at % uint(len(raw)+1))
	return slices.Concat(raw[:start], patch, raw[min(start+len(patch), len(raw)):])
}

// FuzzFinishSignIn changes answers anywhere: in the JSON, in the client data and in what the
// authenticator signed. An answer is accepted only if what was signed is unchanged.
func FuzzFinishSignIn(f *testing.F) {
	s, a := site(f), verified()
	a.NoCounter = true
	s.add(a, "alice", "key")
	begun := must.Get(s.BeginSignIn())(f)
	answer := must.Get(a.Get(begun.Options))(f)
	names := []string{"clientDataJSON", "authenticatorData", "signature", "userHandle"}
	f.Add(uint(0), []byte(""), uint8(0))
	f.Add(uint(2), []byte("x"), uint8(0))
	f.Add(uint(32), []byte{1 | 4 | 8}, uint8(2))
	f.Add(uint(0), []byte(`{"type":"webauthn.get",`), uint8(1))
	f.Fuzz(func(t *testing.T, at uint, patch []byte, where uint8) {
		var changed []byte
		if member := int(where) % (len(names) + 1); member == len(names) {
			changed = spliced(answer, patch, at)
		} else {
			changed = withResponse(t, answer, names[member], spliced(response(t, answer, names[member]), patch, at))
		}
		got, err := s.FinishSignIn(begun.Record, changed, s.lookup)
		if err != nil {
			if got != nil || !isAnswerError(err) {
				t.Fatalf("got %+v with %v", got, err)
			}
			return
		}
		if got.Account != "alice" || !got.Verified || got.AfterPassword || len(changed) > maxAnswer {
			t.Fatalf("got %+v", got)
		}
		for _, signed := range names[:2] {
			if !bytes.Equal(response(t, changed, signed), response(t, answer, signed)) {
				t.Fatalf("accepted with another %s: %s", signed, changed)
			}
		}
	})
}

// FuzzFinishPasskey changes the attestation object, which nothing signs. A passkey that is
// accepted has the id and the handle of the ceremony, and is one that a file can have.
func FuzzFinishPasskey(f *testing.F) {
	s, a := site(f), verified()
	begun := must.Get(s.BeginPasskey(NewUser{Account: "alice"}))(f)
	answer := must.Get(a.Create(begun.Options))(f)
	object := response(f, answer, "attestationObject")
	f.Add(uint(0), []byte(""))
	f.Add(uint(bytes.Index(object, []byte("none"))), []byte("pack"))
	for at := 0; at < len(object); at += 8 {
		f.Add(uint(at), []byte{0xff})
	}
	handle := decoded(f, begun.Options)["user"].(map[string]any)["id"]
	f.Fuzz(func(t *testing.T, at uint, patch []byte) {
		changed := withResponse(t, answer, "attestationObject", spliced(object, patch, at))
		p, err := s.FinishPasskey(begun.Record, "alice", "key", changed, s.lookup)
		if err != nil {
			if p != nil || !isAnswerError(err) {
				t.Fatalf("got %+v with %v", p, err)
			}
			return
		}
		if p.ID != encode(a.Credentials[0].ID) || p.UserHandle != handle || p.BackedUp && !p.BackupEligible {
			t.Fatalf("got %+v", p)
		}
		Set{Passkeys: []Passkey{*p}}.Check(func(path, format string, args ...any) {
			t.Errorf("%s: "+format, append([]any{path}, args...)...)
		})
	})
}

// FuzzCeremonyKey checks that a key is found only in JSON without twin members, and is one
// that the gateway could have issued.
func FuzzCeremonyKey(f *testing.F) {
	s, a := site(f), verified()
	s.add(a, "alice", "key")
	f.Add(must.Get(a.Get(must.Get(s.BeginSignIn())(f).Options))(f))
	f.Add([]byte(`{"response":{"clientDataJSON":"e30"}}`))
	f.Add([]byte(`{"response":{"clientDataJSON":"e30","clientdataJSON":"e30"}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		key, err := CeremonyKey(answer)
		if err != nil {
			return
		}
		if raw, err := decode(key, challengeBytes); err != nil || len(raw) != challengeBytes || encode(raw) != key {
			t.Fatalf("got the key %q", key)
		}
		if said := decoded(t, response(t, answer, "clientDataJSON")); said["challenge"] != key {
			t.Fatalf("got the key %q, and encoding/json reads %v", key, said["challenge"])
		}
	})
}

// FuzzCheckRPID checks that an RP ID is the host or above it, in one spelling.
func FuzzCheckRPID(f *testing.F) {
	f.Add("example.org", "auth.example.org")
	f.Add("co.uk", "example.co.uk")
	f.Add("1", "127.0.0.1")
	f.Fuzz(func(t *testing.T, id, host string) {
		for _, host := range []string{host, "x." + id, "x" + id, id} {
			if CheckRPID(id, host) != nil {
				continue
			}
			if id != host && !strings.HasSuffix(host, "."+id) || id == "" || id != strings.ToLower(id) || isAddress(host) {
				t.Fatalf("%q is an RP ID at %q", id, host)
			}
		}
	})
}
