package auth

import "testing"

// One changed byte of a token never passes, where a key pair signs it either.
func FuzzBearerChangedByteRS256(f *testing.F) {
	m := newMechanisms(f, func(m *mechanisms) { m.keys = testKeys(f, "RS256") })
	s := m.signIn(f, "alice")
	for _, at := range []uint16{0, 10, 36, 100, 300, 400, uint16(len(s.access) - 2), uint16(len(s.access) - 1)} {
		for _, with := range []byte{'A', 'g', '.', '=', '\r', '_'} {
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
		wantRejected(t, id, err, DetailBadToken, "access token: ")
	})
}
