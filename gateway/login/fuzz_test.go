package login

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"authgate/gateway/auth"
)

func FuzzAccessTokenChangedByte(f *testing.F)      { fuzzChangedByte(f, "HS256") }
func FuzzAccessTokenChangedByteRS256(f *testing.F) { fuzzChangedByte(f, "RS256") }

// fuzzChangedByte changes one byte of a token. It must not be accepted.
func fuzzChangedByte(f *testing.F, algorithm string) {
	m := newMechanisms(f, func(m *mechanisms) { m.keys = testKeys(f, algorithm) })
	s := m.signIn(f, "alice")
	for _, at := range []uint16{0, 10, 36, 37, 100, 300, 400, uint16(len(s.access) - 2), uint16(len(s.access) - 1)} {
		for _, with := range []byte{'A', 'g', '.', '=', '\r', '\n', '-', '_', 0, 0xff} {
			f.Add(at, with)
		}
	}
	f.Fuzz(func(t *testing.T, at uint16, with byte) {
		changed := []byte(s.access)
		changed[int(at)%len(changed)] = with
		id, err := m.byToken(t, string(changed))
		if string(changed) == s.access {
			if err != nil {
				t.Fatalf("the token itself: %v", err)
			}
			return
		}
		wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)
	})
}

// Only a header and payload that the gateway's key signed are accepted, and only as a
// token of the login.
func FuzzAccessTokenClaims(f *testing.F) {
	m := newMechanisms(f, nil)
	s := m.signIn(f, "alice")
	good := m.forge(f, s)
	part := strings.Split(good.token(), ".")
	header, claims := decoded(f, part[0]), decoded(f, part[1])
	f.Add(header, claims)
	f.Add(strings.Replace(header, "HS256", "none", 1), claims)
	f.Add(header, strings.Replace(claims, "alice", "bob", 1))
	f.Add(header, strings.Replace(claims, "{", `{"sub":"bob",`, 1))
	f.Add(header, `{"exp":1e300}`)
	forger := &forger{sign: signHS256([]byte("not the gateway's secret, but one of its length"))}
	f.Fuzz(func(t *testing.T, header, claims string) {
		id, err := m.byToken(t, forger.raw(header, claims))
		if id != nil {
			t.Fatalf("a forged token passes: %+v", id)
		}
		wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)

		id, err = m.byToken(t, good.raw(header, claims))
		if err != nil {
			wantRejected(t, auth.DetailBadToken, "access token: ")(id, err)
			return
		}
		said := map[string]any{}
		if err := json.Unmarshal([]byte(claims), &said); err != nil {
			t.Fatalf("%s passes and is no object: %v", claims, err)
		}
		if said["sub"] != id.Username || said["iss"] != testIssuer || !m.clock.Now().Before(id.Expires) {
			t.Errorf("%s passes as %+v", claims, id)
		}
		if sid, given := said["sid"]; given && (sid != s.login.ID || id.Login != s.login.ID || id.Username != "alice") || !given && id.Login != "" {
			t.Errorf("%s passes as %+v, of the login %s", claims, id, s.login.ID)
		}
	})
}

// A refresh token has one spelling, and a token that was never issued has no effect.
func FuzzRefreshToken(f *testing.F) {
	m := newMechanisms(f, nil)
	s := m.signIn(f, "alice")
	used := s.refresh
	s.refresh = m.wantRotated(f, s.refresh)
	m.clock.Advance(testLeeway + 1)
	for _, token := range []string{s.refresh[:106] + "A", used[:106] + "A", s.refresh + "\n", "\n" + s.refresh[1:], "", "x", base64.RawURLEncoding.EncodeToString(make([]byte, 80)),
		refreshToken{family: make([]byte, 32), generation: make([]byte, 32)}.String()} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if parsed, ok := parseRefresh(token); ok && parsed.String() != token {
			t.Errorf("%q and %q are one token", token, parsed)
		}
		if token == s.refresh || token == used {
			return
		}
		rotation, err := m.rotate(t, token)
		var reuse *ReuseError
		if rotation != nil || !errors.Is(err, auth.ErrRejected) || errors.As(err, &reuse) {
			t.Errorf("%q: got %+v, %v", token, rotation, err)
		}
		must(m.bySession(t, s.session))(t)
	})
}
